#include "codegen/in_place.h"

#include <gtest/gtest.h>

#include "equiv/compare.h"
#include "ops/evaluate.h"
#include "pipeline/compile.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

bool over(const char* text, size_t load = 0) {
  return may_overwrite(parse_graph(text), load, 0);
}

TEST(InPlace, ElementwiseOverEitherOperand) {
  EXPECT_TRUE(over("graph(x: f32[8,16]) { return relu(x) }"));
  EXPECT_TRUE(over("graph(x: f32[8,16], y: f32[8,16]) { return relu(add(x, y)) }", 0));
  EXPECT_TRUE(over("graph(x: f32[8,16], y: f32[8,16]) { return relu(add(x, y)) }", 1));
  EXPECT_TRUE(over("graph(x: f32[8,16]) { return reshape[shape=[16,8]](exp(x)) }"));
}

TEST(InPlace, NotWhereElementsAreReadElsewhere) {
  EXPECT_FALSE(over("graph(x: f32[8,8]) { return transpose[perm=[1,0]](x) }"));
  EXPECT_FALSE(over("graph(x: f32[8,8]) { return add(x, transpose[perm=[1,0]](x)) }"));
  EXPECT_FALSE(over("graph(x: f32[8,8], y: f32[8]) { return add(x, y) }", 1));
  // Every element of a row is read for the row's maximum.
  EXPECT_FALSE(over("graph(x: f32[8,16]) { return softmax(x) }"));
  EXPECT_FALSE(over("graph(x: f32[8,8], w: f32[8,8]) { return matmul(x, w) }"));
}

TEST(InPlace, TheResidualOfAProductIsReadWhereItIsWritten) {
  const char* text =
      "graph(x: f32[8,8], w: f32[8,8], r: f32[8,8]) { return relu(add(matmul(x, w), r)) }";
  EXPECT_FALSE(over(text, 0));
  EXPECT_FALSE(over(text, 1));
  EXPECT_TRUE(over(text, 2));
  EXPECT_FALSE(over("graph(x: f32[8,8], w: f32[8,8]) { return add(matmul(x, w), x) }", 0));
}

TEST(InPlace, NotWhereTypesOrStoresDiffer) {
  // As wide, but compilers take memory of two types for two memories.
  EXPECT_FALSE(over("graph(x: f32[8,16]) { return cast[to=i32](x) }"));
  EXPECT_FALSE(over("graph(x: f32[8,16]) { return cast[to=f64](x) }"));
  EXPECT_FALSE(over("graph(x: f32[8,16]) { return relu(x), exp(x) }"));
  EXPECT_FALSE(over("graph(x: f32[8,16], y: f32[16]) { return add(x, y) }", 1));
}

// Three products; the result of the first is also added to that of the third, and ends there.
TEST(InPlace, AResidualGivesItsMemoryToTheSum) {
  Graph g = parse_graph(R"(graph(x: f32[96,128], w: f32[128,128]) {
    %1 = matmul(x, w)
    %2 = matmul(%1, w)
    %3 = add(matmul(%2, w), %1)
    return matmul(%3, w)
  })");
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  CpuProgram program = compile(g, options);
  constexpr size_t kValue = 96 * 128 * 4;
  ASSERT_EQ(program.program().steps.size(), 4u);
  EXPECT_EQ(program.program().arena_bytes, 2 * kValue);
  EXPECT_EQ(program.program().arena_lower_bound, 2 * kValue);
  auto inputs = random_inputs(g, 1);
  EXPECT_LT(worst_difference(g, evaluate(g, inputs), program.run(inputs)).rel, 1e-5);
}

}  // namespace
}  // namespace emend
