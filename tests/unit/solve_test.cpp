// Linear and integer programs: the bound of prices, the oracle, and HiGHS against it where it is
// there.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "extract/certify.h"
#include "extract/check.h"
#include "extract/greedy.h"
#include "solve/highs.h"

namespace emend {
namespace {

LinearModel random_model(Rng& rng) {
  LinearModel m;
  const auto columns = static_cast<uint32_t>(rng.between(1, 7));
  for (uint32_t c = 0; c < columns; ++c) {
    m.add_column({.cost = static_cast<double>(rng.between(-5, 9)),
                  .upper = static_cast<double>(rng.between(1, 2)),
                  .integer = true});
  }
  for (int64_t r = rng.between(1, 5); r > 0; --r) {
    std::vector<LinearModel::Term> row;
    for (uint32_t c = 0; c < columns; ++c) {
      if (rng.between(0, 1)) row.push_back({c, static_cast<double>(rng.between(-3, 3))});
    }
    const auto at = static_cast<double>(rng.between(-3, 3));
    rng.between(0, 1) ? m.add_row(at, kUnbounded, row) : m.add_row(-kUnbounded, at, row);
  }
  return m;
}

TEST(Solve, TryingAllFindsTheLeast) {
  LinearModel m;
  const auto x = m.add_column({.cost = 3, .upper = 4, .integer = true});
  const auto y = m.add_column({.cost = 2, .upper = 4, .integer = true});
  m.add_row(5, kUnbounded, {{x, 2}, {y, 1}});
  m.add_row(-kUnbounded, 2, {{y, 1}});
  const auto answer = solve_by_trying_all(m);
  EXPECT_EQ(answer.outcome, ModelAnswer::optimal);
  EXPECT_EQ(answer.objective, 8);  // x = 2, y = 1
  EXPECT_EQ(answer.values, (std::vector<double>{2, 1}));
  m.add_row(20, kUnbounded, {{x, 1}});
  EXPECT_EQ(solve_by_trying_all(m).outcome, ModelAnswer::infeasible);
}

TEST(Solve, AnyPricesGiveABound) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const auto m = random_model(rng);
    const auto answer = solve_by_trying_all(m);
    std::vector<double> prices;
    for (const auto& row : m.rows) {
      const double price = rng.uniform() * 4;
      prices.push_back(row.upper == kUnbounded ? price : -price);
    }
    ASSERT_LE(bound_of_prices(m, prices), answer.objective + 1e-9);
  }
}

TEST(Solve, HighsAgreesWithTryingAll) {
  const Solver solver = highs_solver();
  if (!solver) GTEST_SKIP() << "built without HiGHS (`make certify` brings it in)";
  Rng rng(2);
  for (int i = 0; i < 300; ++i) {
    const auto m = random_model(rng);
    const auto best = solve_by_trying_all(m);
    const auto found = solver(m, {});
    ASSERT_TRUE(found) << found.error();
    ASSERT_EQ(found->outcome, best.outcome) << i;
    if (best.outcome != ModelAnswer::optimal) continue;
    ASSERT_NEAR(found->objective, best.objective, 1e-6);
    ASSERT_LE(found->bound, best.objective + 1e-6);
    const auto relaxed = solver(m, {.relaxed = true});
    ASSERT_TRUE(relaxed) << relaxed.error();
    ASSERT_LE(relaxed->bound, best.objective + 1e-6);
  }
}

// Classes in a row, each built from several before it: too much sharing for bounds alone.
ExtractionProblem shared_problem(Rng& rng, uint32_t classes) {
  ExtractionProblem p;
  for (uint32_t c = 0; c < classes; ++c) {
    p.add_class();
    for (int64_t n = rng.between(1, 3); n > 0; --n) {
      std::vector<uint32_t> kids;
      for (int64_t k = rng.between(1, 3); k > 0 && c > 0; --k) {
        const bool back = n > 1 && rng.between(0, 5) == 0;
        kids.push_back(static_cast<uint32_t>(rng.between(0, back ? classes - 1 : c - 1)));
      }
      p.add_node(static_cast<double>(rng.between(0, 20)), kids);
    }
  }
  p.roots = {classes - 1};
  return p;
}

TEST(Solve, ProofsWithAndWithoutASolverAgree) {
  const Solver solver = highs_solver();
  if (!solver) GTEST_SKIP() << "built without HiGHS (`make certify` brings it in)";
  Rng rng(3);
  for (int i = 0; i < 60; ++i) {
    const auto p = shared_problem(rng, 40);
    const auto start = greedy_tree(p);
    const Extraction known = {start, *checked_cost(p, start)};
    const auto plain = certify(p, known, {});
    const auto solved = certify(p, known, {.solver = solver});
    ASSERT_TRUE(plain.optimal) << i;
    ASSERT_TRUE(solved.optimal) << i;
    ASSERT_DOUBLE_EQ(plain.cost, solved.cost) << i;
  }
}

}  // namespace
}  // namespace emend
