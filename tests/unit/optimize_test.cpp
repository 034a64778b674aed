#include "pipeline/optimize.h"

#include <gtest/gtest.h>

#include "ops/build.h"

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

}  // namespace
}  // namespace emend
