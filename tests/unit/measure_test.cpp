#include "run/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace emend {
namespace {

TEST(Measure, QuantilesLieOnLinesBetweenSamples) {
  EXPECT_DOUBLE_EQ(quantile({7}, 0.1), 7);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({5, 1, 3, 2, 4}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile({5, 1, 3, 2, 4}, 1), 5);
  EXPECT_DOUBLE_EQ(quantile({5, 1, 3, 2, 4}, 0.1), 1.4);
}

TEST(Measure, ContendersTakeTurnsAndRotate) {
  std::string order;
  std::vector<Contender> both = {[&] { order += 'a'; }, [&] { order += 'b'; }};
  auto timings = measure(both, {.runs = 10});
  EXPECT_EQ(timings[0].ms.size(), 10u);
  EXPECT_EQ(timings[1].ms.size(), 10u);
  // After warming up: an untimed run and a timed one each, ten rounds, begun by either in turn.
  std::string turns;
  for (int round = 0; round < 5; ++round) turns += "aabbbbaa";
  ASSERT_GE(order.size(), turns.size());
  EXPECT_EQ(order.substr(order.size() - turns.size()), turns);
}

TEST(Measure, FewerRunsThanRoundsAreStillThatMany) {
  std::vector<Contender> one = {[] {}};
  for (int runs : {1, 3, 17}) {
    EXPECT_EQ(measure(one, {.runs = runs})[0].ms.size(), static_cast<size_t>(runs));
  }
}

TEST(Measure, TheBudgetDecidesWhereNoNumberIsGiven) {
  std::vector<Contender> slow = {
      [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }};
  auto few = measure(slow, {.seconds = 0.001})[0];
  EXPECT_EQ(few.ms.size(), 3u);
  for (double ms : few.ms) EXPECT_GE(ms, 20);
  EXPECT_GT(measure(slow, {.seconds = 0.2})[0].ms.size(), 3u);
}

TEST(Measure, AStopKeepsTheRunsSoFar) {
  std::atomic<bool> stop{true};
  std::vector<Contender> both = {[] {}, [] {}};
  auto timings = measure(both, {.runs = 50, .monitor = Monitor([](const Progress&) {}, &stop)});
  EXPECT_EQ(timings[0].ms.size(), 5u);
  EXPECT_EQ(timings[1].ms.size(), 5u);
}

}  // namespace
}  // namespace emend
