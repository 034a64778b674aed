// The solver against trying everything.
#include "select/pbqp.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace emend {
namespace {

Pbqp random_problem(Rng& rng, int64_t most_variables, double density) {
  Pbqp p;
  auto variables = static_cast<size_t>(rng.between(1, most_variables));
  auto cost = [&] { return static_cast<double>(rng.between(0, 9)); };
  for (size_t v = 0; v < variables; ++v) {
    p.options.emplace_back(static_cast<size_t>(rng.between(1, 3)));
    for (double& c : p.options.back()) c = cost();
  }
  for (size_t a = 0; a < variables; ++a) {
    for (size_t b = 0; b < variables; ++b) {
      if (a == b || static_cast<double>(rng.between(0, 99)) >= density * 100) continue;
      Pbqp::Edge e{a, b, std::vector<double>(p.options[a].size() * p.options[b].size())};
      for (double& c : e.costs) c = cost();
      p.edges.push_back(std::move(e));
    }
  }
  return p;
}

double least_cost(const Pbqp& p) {
  std::vector<size_t> options(p.options.size(), 0);
  double best = cost_of(p, options);
  for (;;) {
    size_t v = 0;
    while (v < options.size() && ++options[v] == p.options[v].size()) options[v++] = 0;
    if (v == options.size()) return best;
    best = std::min(best, cost_of(p, options));
  }
}

TEST(Pbqp, IsAsGoodAsTryingEverything) {
  Rng rng(1);
  for (int i = 0; i < 4000; ++i) {
    Pbqp p = random_problem(rng, 9, i % 2 ? 0.15 : 0.5);
    PbqpChoice found = solve(p);
    ASSERT_TRUE(found.exact);
    ASSERT_EQ(found.cost, cost_of(p, found.options));
    ASSERT_EQ(found.cost, least_cost(p)) << "instance " << i;
  }
}

TEST(Pbqp, WithoutBudgetSomethingLegalIsFound) {
  Rng rng(2);
  int inexact = 0;
  for (int i = 0; i < 200; ++i) {
    Pbqp p = random_problem(rng, 10, 0.9);
    PbqpChoice found = solve(p, 0);
    inexact += !found.exact;
    ASSERT_EQ(found.options.size(), p.options.size());
    ASSERT_GE(found.cost, least_cost(p));
  }
  EXPECT_GT(inexact, 0);
}

TEST(Pbqp, LongChainsAndTreesNeedNoBranches) {
  Rng rng(3);
  Pbqp p;
  for (size_t v = 0; v < 2000; ++v) {
    p.options.push_back({1, static_cast<double>(rng.between(0, 3))});
    if (v > 0) p.edges.push_back({v - 1 - v % 3 / 2, v, {0, 1, 1, 0}});
  }
  EXPECT_TRUE(solve(p, 0).exact);
}

}  // namespace
}  // namespace emend
