#include "cost/price_list.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "support/scratch.h"

namespace emend {
namespace {

std::string lines(const PriceList& p) {
  std::ostringstream out;
  p.write_lines(out);
  return out.str();
}

TEST(PriceList, KeepsTheShortestTimeAcrossOpenings) {
  Scratch folder;
  {
    PriceList p(folder / "prices.db");
    EXPECT_FALSE(p.find("a"));
    p.put("a", 2);
    p.put("a", 1);
    p.put("a", 3);
  }
  PriceList p(folder / "prices.db");
  EXPECT_EQ(p.find("a"), 1.0);
  EXPECT_EQ(p.size(), 1u);
  p.clear();
  EXPECT_EQ(p.size(), 0u);
}

TEST(PriceList, MergingIsTheSameInAnyOrder) {
  Scratch folder;
  PriceList a(folder / "a.db"), b(folder / "b.db");
  a.put("x", 1);
  a.put("y", 5);
  b.put("y", 4);
  b.put("z \"quoted\" \n", 0.25);
  std::string of_a = lines(a), of_b = lines(b);
  std::istringstream from_a(of_a), from_b(of_b), again(of_b);
  EXPECT_EQ(a.read_lines(from_b).taken, 2u);
  EXPECT_EQ(b.read_lines(from_a).taken, 2u);
  EXPECT_EQ(lines(a), lines(b));
  a.read_lines(again);
  EXPECT_EQ(lines(a), lines(b));
}

TEST(PriceList, LinesThatAreNotUnderstoodAreCountedOnly) {
  Scratch folder;
  PriceList p(folder / "p.db");
  std::istringstream in(
      "{\"key\": \"k\", \"seconds\": 1}\nnot json\n{\"key\": 3, \"seconds\": 1}\n"
      "{\"key\": \"m\", \"seconds\": -1}\n");
  auto imported = p.read_lines(in);
  EXPECT_EQ(imported.taken, 1u);
  EXPECT_EQ(imported.skipped, 3u);
}

TEST(PriceList, ADamagedFileIsPutAside) {
  Scratch folder;
  std::ofstream(folder / "p.db") << std::string(5000, 'x');
  PriceList p(folder / "p.db");
  p.put("a", 1);
  EXPECT_EQ(p.find("a"), 1.0);
  EXPECT_TRUE(fs::exists(folder / "p.db.damaged"));
}

TEST(PriceList, AFolderThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(PriceList("/proc/no/such/prices.db"), Error);
}

TEST(PriceList, TwoProcessesMayWriteAtOnce) {
  Scratch folder;
  constexpr int kProcesses = 3, kPrices = 200;
  for (int child = 0; child < kProcesses; ++child) {
    if (::fork() != 0) continue;
    int code = 0;
    try {
      PriceList p(folder / "p.db");
      for (int i = 0; i < kPrices; ++i) p.put("k" + std::to_string(i), child + 1);
    } catch (...) {
      code = 1;
    }
    ::_exit(code);
  }
  for (int child = 0; child < kProcesses; ++child) {
    int status = 0;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  PriceList p(folder / "p.db");
  EXPECT_EQ(p.size(), static_cast<size_t>(kPrices));
  EXPECT_EQ(p.find("k7"), 1.0);
}

// Who comes while another is making the file waits; nobody takes it for damaged.
TEST(PriceList, ManyMayOpenAListThatIsNotThereYet) {
  for (int round = 0; round < 20; ++round) {
    Scratch folder;
    constexpr int kProcesses = 6;
    for (int k = 0; k < kProcesses; ++k) {
      if (fork() != 0) continue;
      try {
        PriceList p(folder / "prices.db");
        p.put("key " + std::to_string(k), 1);
        _exit(p.find("key " + std::to_string(k)) ? 0 : 1);
      } catch (...) {
        _exit(2);
      }
    }
    for (int k = 0; k < kProcesses; ++k) {
      int status = 0;
      wait(&status);
      EXPECT_EQ(status, 0);
    }
    ASSERT_EQ(PriceList(folder / "prices.db").size(), static_cast<size_t>(kProcesses));
    ASSERT_FALSE(std::filesystem::exists(folder / "prices.db.damaged"));
  }
}

}  // namespace
}  // namespace emend
