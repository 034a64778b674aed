// Factors that are moved and folded leave every value inside of its type's range where it was.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "equiv/compare.h"
#include "ops/build.h"
#include "ops/table.h"
#include "pipeline/accuracy.h"
#include "pipeline/optimize.h"
#include "rules/match.h"
#include "text/text.h"

namespace emend {
namespace {

constexpr int64_t kSize = 8;

NodeId scalar(GraphBuilder& b, double v, DType t) {
  return b.constant(Tensor::of_real(v, t));
}

// Products and quotients by numbers, sums with them, and matrices in between.
Graph random_chain(DType t, Rng& rng) {
  GraphBuilder b;
  NodeId y = b.input("x", Type::tensor(t, {4, kSize}));
  const double range = t == DType::f16 ? 4 : 30;
  for (int64_t i = 0, n = rng.between(2, 7); i < n; ++i) {
    double exponent = range * static_cast<double>(rng.between(-100, 100)) / 100;
    NodeId factor = scalar(b, std::pow(10, exponent), t);
    switch (rng.between(0, 6)) {
      case 0:
        y = b.op("div", {y, factor});
        break;
      case 1:
        y = b.op("neg", {y});
        break;
      case 2:
        y = b.op("relu", {y});
        break;
      case 3: {
        std::vector<double> w;
        for (int64_t k = 0; k < kSize * kSize; ++k)
          w.push_back(static_cast<double>(rng.between(-8, 8)) / 16);
        y = b.op("matmul", {y, b.constant(Tensor::of_reals(t, {kSize, kSize}, w))});
        break;
      }
      default:
        y = b.op("mul", {y, factor});
    }
  }
  b.output("y", y);
  return std::move(b).build();
}

// The worst error where the given program itself is as exact as its type, at inputs of any scale.
double worst_error(const Graph& given, const Graph& made, DType t) {
  double worst = 0;
  const double own_error = t == DType::f16 ? 4e-3 : t == DType::bf16 ? 3e-2 : 1e-5;
  for (int power = t == DType::f16 ? -14 : -120; power <= (t == DType::f16 ? 13 : 120);
       power += t == DType::f16 ? 3 : 20) {
    auto inputs = random_inputs(given, 5, std::exp2(power));
    auto exact = reference_outputs(given, inputs, Arithmetic::real64);
    double own =
        worst_difference(given, exact, reference_outputs(given, inputs, Arithmetic::own)).rel;
    if (!(own <= own_error)) continue;
    double error =
        worst_difference(given, exact, reference_outputs(made, inputs, Arithmetic::own)).rel;
    worst = std::max(worst, error / own_error);
  }
  return worst;
}

class Ranges : public testing::TestWithParam<std::pair<DType, int>> {};

TEST_P(Ranges, ChainsOfFactorsKeepTheirMeaning) {
  auto [t, level] = GetParam();
  Rng rng(11);
  const int cases = level == 1 ? 300 : 12;
  int smaller = 0;
  for (int i = 0; i < cases; ++i) {
    Graph given = random_chain(t, rng);
    OptimizeOptions how;
    how.level = level;
    Graph made = optimized(given, how);
    smaller += made.size() < given.size();
    // Room of some bits is allowed on the way, and only there.
    EXPECT_LE(worst_error(given, made, t), 4) << print(given) << print(made);
    Checked checked = check_result(given, made, how);
    EXPECT_EQ(checked.kind, Checked::Kind::passed) << checked.reason << print(given) << print(made);
  }
  EXPECT_GT(smaller, cases / 4);  // what may be folded is
}

INSTANTIATE_TEST_SUITE_P(Types, Ranges,
                         testing::Values(std::pair(DType::f16, 1), std::pair(DType::bf16, 1),
                                         std::pair(DType::f32, 1), std::pair(DType::f16, 2),
                                         std::pair(DType::bf16, 2), std::pair(DType::f32, 2)));

// Does a rule apply at the last node of a program?
bool applies(const char* rule, const Graph& g) {
  const Rule& r = *find_rule(rule);
  NodeId root = g.outputs[0].node;
  for (const Match& m : match(g, r, root)) {
    if (apply(r, m.substitution, facts_of(g), g.types[root])) return true;
  }
  return false;
}

Graph two_factors(DType t, double a, double b_factor) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(t, {4, kSize}));
  b.output("y", b.op("mul", {b.op("mul", {x, scalar(b, a, t)}), scalar(b, b_factor, t)}));
  return std::move(b).build();
}

TEST(Ranges, FactorsAreFoldedWhereTheirProductIsANormalNumber) {
  EXPECT_TRUE(applies("mul-constants", two_factors(DType::f16, 100, 100)));
  EXPECT_FALSE(applies("mul-constants", two_factors(DType::f16, 300, 300)));
  EXPECT_FALSE(applies("mul-constants", two_factors(DType::f16, 1e-4, 1e-1)));
  EXPECT_TRUE(applies("mul-constants", two_factors(DType::f32, 300, 300)));
  EXPECT_TRUE(applies("mul-constants", two_factors(DType::f32, 1e-25, 1e18)));
  EXPECT_FALSE(applies("mul-constants", two_factors(DType::f32, 1e25, 1e25)));
  EXPECT_FALSE(applies("mul-constants", two_factors(DType::f32, 1e-25, 1e-18)));
  EXPECT_TRUE(applies("mul-constants", two_factors(DType::f32, 0, 1e-18)));
}

TEST(Ranges, AFactorMovesOverASumOfProductsOnlyWhereThereIsRoom) {
  auto program = [](DType t, double factor, bool before) {
    GraphBuilder b;
    NodeId x = b.input("x", Type::tensor(t, {4, kSize})),
           w = b.input("w", Type::tensor(t, {kSize, 4}));
    NodeId f = b.constant(Tensor::of_reals(t, {1, 1}, std::vector<double>{factor}));
    b.output("y", before ? b.op("matmul", {b.op("mul", {x, f}), w})
                         : b.op("mul", {b.op("matmul", {x, w}), f}));
    return std::move(b).build();
  };
  auto moves = [&](DType t, double factor, bool before) {
    Rule rule = *find_rule("matmul-scales-rows");
    if (before) rule = reversed(rule);
    Graph g = program(t, factor, before);
    for (const Match& m : match(g, rule, g.outputs[0].node)) {
      if (apply(rule, m.substitution, facts_of(g), g.types[g.outputs[0].node])) return true;
    }
    return false;
  };
  EXPECT_TRUE(moves(DType::f16, 0.125, false));  // a little smaller on the way
  EXPECT_FALSE(moves(DType::f16, 0.125, true));  // larger
  EXPECT_FALSE(moves(DType::f16, 1e-4, false));  // much smaller
  EXPECT_TRUE(moves(DType::f32, 0.125, true));
  EXPECT_TRUE(moves(DType::f32, 1e-4, true));
  EXPECT_FALSE(moves(DType::f32, 1e-20, true));
  EXPECT_FALSE(moves(DType::bf16, 1e20, false));
}

TEST(Ranges, AReciprocalIsTakenWhereItIsANormalNumber) {
  auto divided = [](double by) {
    GraphBuilder b;
    NodeId x = b.input("x", Type::tensor(DType::f32, {4}));
    b.output("y", b.op("div", {x, scalar(b, by, DType::f32)}));
    return std::move(b).build();
  };
  EXPECT_TRUE(applies("div-is-mul", divided(3)));
  EXPECT_FALSE(applies("div-is-mul", divided(3e38)));
}

TEST(Ranges, ScalesOfTensorsLeaveOutWhatIsNotNormal) {
  const double values[] = {0, 1e-40, -4, 0.5, INFINITY, NAN};
  for (DType t : {DType::f32, DType::bf16, DType::f64}) {
    Scale s = scale_of(Tensor::of_reals(t, {6}, values));
    EXPECT_EQ(s.least, t == DType::f64 ? std::log2(1e-40) : -1) << to_text(t);
    EXPECT_EQ(s.most, 2) << to_text(t);
    EXPECT_TRUE(s.zeros && s.negatives) << to_text(t);
  }
  EXPECT_TRUE(scale_of(Tensor::zeros(DType::f16, {4})).empty());
}

}  // namespace
}  // namespace emend
