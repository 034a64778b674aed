#include "pipeline/optimize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/build.h"
#include "pipeline/kept_checks.h"
#include "support/scratch.h"

namespace emend {
namespace {

// Row `at` of x[3, 2].
Graph row_of(int64_t at) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {3, 2}));
  b.output("y", b.op("gather", {x, b.ints({at})}));
  return std::move(b).build();
}

TEST(CheckResult, ADifferentResultHasFailed) {
  EXPECT_EQ(check_result(row_of(1), row_of(1), {}).kind, Checked::Kind::passed);
  EXPECT_EQ(check_result(row_of(1), row_of(2), {}).kind, Checked::Kind::failed);
}

TEST(CheckResult, AResultThatDoesNotRunHasFailedIfTheInputRuns) {
  EXPECT_EQ(check_result(row_of(1), row_of(7), {}).kind, Checked::Kind::failed);
  EXPECT_EQ(check_result(row_of(7), row_of(7), {}).kind, Checked::Kind::not_run);
  OptimizeOptions strict;
  strict.accuracy = 0;
  EXPECT_EQ(check_result(row_of(1), row_of(7), strict).kind, Checked::Kind::failed);
}

// y = x times these numbers, one after the other.
Graph scaled(DType t, const std::vector<double>& factors) {
  GraphBuilder b;
  NodeId y = b.input("x", Type::tensor(t, {64}));
  for (double f : factors) y = b.op("mul", {y, b.constant(Tensor::of_real(f, t))});
  b.output("y", y);
  return std::move(b).build();
}

// x times a, times w, times b, against x times w times the product of both.
Graph product(DType t, double a, double b_factor, bool folded) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(t, {4, 8}));
  auto weights = [&](double factor) {
    std::vector<double> w;
    for (int i = 0; i < 64; ++i) w.push_back(factor * (i % 5 - 2) / 4.0);
    return b.constant(Tensor::of_reals(t, {8, 8}, w));
  };
  auto number = [&](double v) { return b.constant(Tensor::of_real(v, t)); };
  NodeId y = folded ? b.op("matmul", {x, weights(a * b_factor)})
                    : b.op("mul", {b.op("matmul", {b.op("mul", {x, number(a)}), weights(1)}),
                                   number(b_factor)});
  b.output("y", y);
  return std::move(b).build();
}

TEST(CheckResult, AWronglyFoldedScaleHasFailed) {
  struct Case {
    DType type;
    std::vector<double> factors;
    double folded;
  };
  const Case cases[] = {
      {DType::f16, {300, 300}, 90000},
      {DType::f16, {1e-4, 1e-4}, 1e-8},
      {DType::f32, {1e25, 1e25}, INFINITY},
      {DType::f32, {1e-25, 1e-18}, 1e-43},
      {DType::bf16, {1e25, 1e25}, INFINITY},
      {DType::bf16, {1e-25, 1e-20}, 1e-45},
      {DType::f16, {1e-4, 2e-2, 1e2}, 2e-4 * 1.02},
  };
  for (const Case& c : cases) {
    Graph given = scaled(c.type, c.factors);
    EXPECT_EQ(check_result(given, given, {}).kind, Checked::Kind::passed) << c.folded;
    Checked checked = check_result(given, scaled(c.type, {c.folded}), {});
    EXPECT_EQ(checked.kind, Checked::Kind::failed) << c.folded << ": " << checked.reason;
  }
  Graph given = product(DType::f16, 500, 500, false);
  EXPECT_EQ(check_result(given, given, {}).kind, Checked::Kind::passed);
  EXPECT_EQ(check_result(given, product(DType::f16, 500, 500, true), {}).kind,
            Checked::Kind::failed);
}

TEST(CheckResult, AScaleThatIsPushedOverASumHasFailed) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f16, {4, 256}));
  NodeId ones = b.constant(Tensor::of_reals(DType::f16, {256, 1}, std::vector<double>(256, 1)));
  NodeId small = b.constant(Tensor::of_real(1e-3, DType::f16));
  GraphBuilder after = b;
  b.output("y", b.op("matmul", {b.op("mul", {x, small}), ones}));
  after.output("y", after.op("mul", {after.op("matmul", {x, ones}), small}));
  Graph before = std::move(b).build();
  EXPECT_EQ(check_result(before, std::move(after).build(), {}).kind, Checked::Kind::failed);
}

TEST(CheckResult, WhatOverflowsForUsualInputsIsComparedForSmallerOnes) {
  auto program = [](double times) {
    GraphBuilder b;
    NodeId x = b.input("x", Type::tensor(DType::f32, {64}));
    auto number = [&](double v) { return b.constant(Tensor::of_real(v, DType::f32)); };
    NodeId large = b.op("exp", {b.op("mul", {x, number(400)})});
    b.output("y",
             b.op("mul", {b.op("div", {large, b.op("add", {large, number(1)})}), number(times)}));
    return std::move(b).build();
  };
  Checked same = check_result(program(1), program(1), {});
  EXPECT_EQ(same.kind, Checked::Kind::passed);
  EXPECT_LT(same.max_rel_err, 1e-4);
  EXPECT_EQ(check_result(program(1), program(1.01), {}).kind, Checked::Kind::failed);
}

TEST(CheckResult, WhatHasNoMeaningAtAnyScaleMustKeepItsBits) {
  auto program = [](double bits) {  // overflows on the way, whatever x is
    GraphBuilder b;
    NodeId x = b.input("x", Type::tensor(DType::f16, {8}));
    auto number = [&](double v) { return b.constant(Tensor::of_real(v, DType::f16)); };
    NodeId large =
        b.op("mul", {b.op("add", {b.op("mul", {x, number(0)}), number(300)}), number(300)});
    b.output("y", b.op("add", {b.op("sigmoid", {large}), number(bits)}));
    NodeId lost = b.op("mul", {large, number(1e-4)});
    b.output("z", bits == 0 ? lost : b.op("neg", {lost}));
    return std::move(b).build();
  };
  EXPECT_EQ(check_result(program(0), program(0), {}).kind, Checked::Kind::passed);
  EXPECT_EQ(check_result(program(0), program(1), {}).kind, Checked::Kind::failed);
}

TEST(CheckResult, IsMadeOnceForAProgramAndItsWeights) {
  Scratch scratch;
  OptimizeOptions how;
  how.keeping.folder = scratch / "kept";
  auto kept = [&] { return kept_checks(*how.keeping.folder).use().count; };
  Checked first = check_result(scaled(DType::f32, {2, 3}), scaled(DType::f32, {6}), how);
  EXPECT_EQ(kept(), 1u);
  Checked again = check_result(scaled(DType::f32, {2, 3}), scaled(DType::f32, {6}), how);
  EXPECT_EQ(kept(), 1u);
  EXPECT_EQ(again.kind, first.kind);
  EXPECT_EQ(again.reason, first.reason);
  EXPECT_EQ(again.max_rel_err, first.max_rel_err);
  EXPECT_EQ(check_result(scaled(DType::f32, {2, 3}), scaled(DType::f32, {7}), how).kind,
            Checked::Kind::failed);
  EXPECT_EQ(check_result(scaled(DType::f32, {2, 4}), scaled(DType::f32, {6}), how).kind,
            Checked::Kind::failed);
  EXPECT_EQ(kept(), 1u);  // what is said of a wrong result names nodes of the model
  how.accuracy = 1e-6;
  check_result(scaled(DType::f32, {2, 3}), scaled(DType::f32, {6}), how);
  EXPECT_EQ(kept(), 2u);
}

// A verdict is asked for where it counts: what was damaged is compared again.
TEST(CheckResult, IsMadeAgainWhereWhatIsKeptCannotBeRead) {
  Scratch scratch;
  OptimizeOptions how;
  how.keeping.folder = scratch / "kept";
  auto compare = [&] { return check_result(row_of(1), row_of(1), how).kind; };
  EXPECT_EQ(compare(), Checked::Kind::passed);
  put_file(fs::directory_iterator(scratch / "kept")->path(), "what a stray hand left");
  EXPECT_EQ(compare(), Checked::Kind::passed);
}

struct WhatRuns : testing::Test {
  // x times 2 times 3, which cleaning makes one product.
  Graph given = scaled(DType::f32, {2, 3});
  OptimizeReport report;

  // The nodes of what runs where so many results are refused, one after the other.
  size_t nodes_after(int refused) {
    int asked = 0;
    ResultCheck check = [&](const Graph&, const Graph&, const OptimizeOptions&) {
      return Checked{.kind = ++asked > refused ? Checked::Kind::passed : Checked::Kind::failed};
    };
    return optimized_to_run(given, {}, &report, check).size();
  }
};

TEST_F(WhatRuns, IsTheOptimizedProgramIfItPasses) {
  EXPECT_LT(nodes_after(0), given.size());
  EXPECT_TRUE(report.faults.empty());
}

TEST_F(WhatRuns, IsTheCleanedProgramOrElseTheGivenOne) {
  EXPECT_LT(nodes_after(1), given.size());
  EXPECT_EQ(report.faults.size(), 1u);
  EXPECT_EQ(nodes_after(2), given.size());
  EXPECT_EQ(report.faults.size(), 2u);
}

}  // namespace
}  // namespace emend
