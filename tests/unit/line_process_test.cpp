#include "run/line_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace emend {
namespace {

// Nobody may have reaped it yet.
bool lives(const std::string& pid) {
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string number, name, state;
  return stat >> number >> name >> state && state != "Z" && state != "X";
}

bool lives_for_long(const std::string& pid) {
  for (int i = 0; i < 200 && lives(pid); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return lives(pid);
}

TEST(LineProcess, AnswersLines) {
  LineProcess p({"sh", "-c", "echo ready; while read x; do echo \"got $x\"; done"});
  EXPECT_EQ(p.read_line(10).value_or_throw(), "ready");
  EXPECT_EQ(p.ask("this", 10).value_or_throw(), "got this");
  EXPECT_EQ(p.ask("that", 10).value_or_throw(), "got that");
}

TEST(LineProcess, SaysHowItEnded) {
  LineProcess exits({"sh", "-c", "exit 7"});
  EXPECT_EQ(exits.read_line(10).error(), "it ended with exit code 7");
  LineProcess killed({"sh", "-c", "kill -9 $$"});
  EXPECT_EQ(killed.read_line(10).error(), "it ended by signal 9");
  LineProcess hangs({"sleep", "100"});
  EXPECT_EQ(hangs.read_line(0.1).error(), "no answer within 0.1 s");
  EXPECT_EQ(hangs.ask("still there?", 10).error(), "no answer within 0.1 s");
  LineProcess none({"/nowhere/at all"});
  EXPECT_EQ(none.read_line(10).error(), "it could not be started");
}

TEST(LineProcess, NothingThatItStartedStaysBehind) {
  std::string child;
  {
    LineProcess runs({"sh", "-c", "sleep 100 & echo $!; wait"});
    child = runs.read_line(10).value_or_throw();
    EXPECT_TRUE(lives(child));
  }
  EXPECT_FALSE(lives_for_long(child));
  {
    LineProcess gone({"sh", "-c", "sleep 100 & echo $!"});
    child = gone.read_line(10).value_or_throw();
    // The shell is gone; who it started holds its end of the line.
    EXPECT_FALSE(gone.read_line(0.2));
  }
  EXPECT_FALSE(lives_for_long(child));
}

}  // namespace
}  // namespace emend
