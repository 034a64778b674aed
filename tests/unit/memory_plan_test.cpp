// Places of intermediate values: never two at once in one place, in little more memory than the
// tightest plan takes, and around the same middle where that is affordable.
#include "codegen/memory_plan.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace emend {
namespace {

size_t middle(const MemoryPlan& plan, const std::vector<Lifetime>& all, size_t b) {
  return plan.offsets[b] + all[b].bytes / 2;
}

TEST(MemoryPlan, WhatIsAliveTogetherLiesApart) {
  Rng rng(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<Lifetime> all;
    int64_t steps = rng.between(1, 30);
    for (int64_t b = rng.between(0, 40); b > 0; --b) {
      auto first = rng.between(0, steps - 1), last = rng.between(first, steps - 1);
      size_t bytes = static_cast<size_t>(rng.between(0, 3) == 0 ? rng.between(0, 4 << 20)
                                                                : rng.between(0, 5000));
      all.push_back({bytes, static_cast<size_t>(first), static_cast<size_t>(last)});
    }
    MemoryPlan plan = plan_memory(all);
    ASSERT_EQ(plan.offsets.size(), all.size());
    EXPECT_GE(plan.bytes, plan.lower_bound);
    for (size_t a = 0; a < all.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % kBufferAlignment, 0u);
      EXPECT_LE(plan.offsets[a] + all[a].bytes, plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        if (all[a].first > all[b].last || all[b].first > all[a].last) continue;
        bool apart = plan.offsets[a] + all[a].bytes <= plan.offsets[b] ||
                     plan.offsets[b] + all[b].bytes <= plan.offsets[a];
        EXPECT_TRUE(apart) << "round " << round << ", buffers " << b << " and " << a;
      }
    }
  }
}

TEST(MemoryPlan, AChainSharesTwoMiddles) {
  std::vector<Lifetime> chain;
  for (size_t s = 0; s < 6; ++s) chain.push_back({(s + 1) * 100 * kBufferAlignment, s, s + 1});
  MemoryPlan plan = plan_memory(chain);
  for (size_t s = 2; s < chain.size(); ++s) {
    size_t here = middle(plan, chain, s), before = middle(plan, chain, s - 2);
    EXPECT_LE(std::max(here, before) - std::min(here, before), kBufferAlignment);
  }
}

// Many small ones that could fill the room of a large one are not spread out for their middles.
TEST(MemoryPlan, ManyMiddlesThatCostTooMuchArePackedInstead) {
  constexpr size_t kLarge = size_t{64} << 20, kMany = 16;
  std::vector<Lifetime> all{{kLarge, 0, 1}};
  for (size_t k = 0; k < kMany; ++k) all.push_back({kLarge / kMany, 2, 3});
  MemoryPlan plan = plan_memory(all);
  EXPECT_EQ(plan.bytes, kLarge);
}

}  // namespace
}  // namespace emend
