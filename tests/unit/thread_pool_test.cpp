#include "run/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>

#if defined(__linux__)
#include <sched.h>
#endif

namespace emend {
namespace {

// Plain memory, written by one thread and read by another across the barrier: what a sanitizer
// would see as a race if the barrier were none.
TEST(ThreadPool, WhatIsWrittenBeforeABarrierIsReadBehindIt) {
  constexpr int kThreads = 3, kRounds = 200;
  ThreadPool pool(kThreads);
  std::vector<int> mine(kThreads);
  std::vector<int> wrong(kThreads);
  SpinBarrier barrier(kThreads);
  auto work = [&](int t) {
    for (int r = 1; r <= kRounds; ++r) {
      mine[static_cast<size_t>(t)] = r;
      barrier.wait();
      wrong[static_cast<size_t>(t)] += mine[static_cast<size_t>((t + 1) % kThreads)] != r;
      barrier.wait();
    }
  };
  for (int run = 0; run < 5; ++run) ASSERT_TRUE(pool.try_run(work));
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

TEST(ThreadPool, ServesOneCallerAtATime) {
  ThreadPool pool(2);
  constexpr int kCallers = 4, kRuns = 200;
  std::vector<long> sums(kCallers);
  {
    std::vector<std::jthread> callers;
    for (int c = 0; c < kCallers; ++c) {
      callers.emplace_back([&, c] {
        for (int r = 0; r < kRuns; ++r) {
          long parts[2] = {0, 0};
          auto work = [&](int t) { parts[t] = c + 1; };
          if (!pool.try_run(work)) parts[0] = parts[1] = c + 1;
          sums[static_cast<size_t>(c)] += parts[0] + parts[1];
        }
      });
    }
  }
  for (int c = 0; c < kCallers; ++c) EXPECT_EQ(sums[static_cast<size_t>(c)], 2L * kRuns * (c + 1));
}

TEST(ThreadPool, RefusesTheSecondCallerAndRecovers) {
  ThreadPool pool(2);
  bool inside = true;
  auto nothing = [](int) {};
  auto work = [&](int t) {
    if (t == 0) inside = pool.try_run(nothing);
  };
  EXPECT_TRUE(pool.try_run(work));
  EXPECT_FALSE(inside);
  EXPECT_TRUE(pool.try_run(nothing));
}

#if defined(__linux__)
// Both threads are put on one processor, as schedulers do: with the next call the worker leaves.
TEST(ThreadPool, AWorkerLeavesTheProcessorOfItsCaller) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "there is one processor only";
  ThreadPool pool(2);
  const int here = sched_getcpu();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(here, &one);
  auto gather = [&](int) { sched_setaffinity(0, sizeof one, &one); };
  int seen[2] = {-1, -1};
  auto look = [&](int t) { seen[t] = sched_getcpu(); };
  ASSERT_TRUE(pool.try_run(gather));
  ASSERT_TRUE(pool.try_run(look));
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(seen[0], here);
  EXPECT_NE(seen[1], here);
}
#endif

}  // namespace
}  // namespace emend
