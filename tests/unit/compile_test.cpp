#include "pipeline/compile.h"

#include <gtest/gtest.h>

#include "equiv/compare.h"
#include "ops/evaluate.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

// As the reference has it, to within rounding, by kernels that the check on the spot accepts.
void expect_compiled_right(const char* text) {
  Graph g = parse_graph(text);
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  CompileReport report;
  auto inputs = random_inputs(g, 1);
  auto worst = worst_difference(g, evaluate(g, inputs), compile(g, options, &report).run(inputs));
  EXPECT_LT(worst.rel, 1e-6) << worst.output << "\n" << text;
  EXPECT_EQ(report.faults, std::vector<std::string>()) << text;
}

// Both additions print the same text, since only the number of tasks differs.
TEST(Compile, KernelsOfTheSameTextServeSeveralSizes) {
  expect_compiled_right(R"(graph(x: f32[16,40], b: f32[16,1], y: f32[64,40], c: f32[64,1]) {
    return add(x, b), add(y, c)
  })");
}

TEST(Compile, AReductionOverNothingIsNeutral) {
  expect_compiled_right(R"(graph(x: f32[2,0,4]) {
    return reduce_sum[axes=[1]](x), reduce_prod[axes=[1]](x)
  })");
}

// Ones are exact, and what should be 1e-9 is lost beside a one.
TEST(Compile, ErrorsAreMeasuredByTheLargestValueNotTheLargestInexactOne) {
  expect_compiled_right(R"(graph(x: f32[64]) {
    %1 = cast[to=f32](less(x, constant f32[]{0}))
    %2 = add(mul(sub(constant f32[]{1}, %1), constant f32[]{1e-9}), constant f32[]{1})
    return add(%1, sub(%2, constant f32[]{1}))
  })");
}

// The other threads may come to the failing step later, or be ahead of it: none may wait for ever.
TEST(Compile, AStepThatFailsEndsTheRunOnEveryThread) {
  Graph g = parse_graph(R"(graph(x: f32[4,8]) {
    %1 = add(x, x)
    %2 = onnx[type="Nope", domain="stranger", version=1, present=[1], result=type f32[4,8]](%1) : f32[4,8]
    return add(%2, %2)
  })");
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  options.cpu.threads = 3;
  CpuProgram program = compile(g, options);
  auto inputs = random_inputs(g, 1);
  for (int i = 0; i < 500; ++i) EXPECT_THROW(program.run(inputs), Error);
}

// Nobody can draw a sequence; given ones serve, and without them no kernel is used unchecked.
TEST(Compile, KernelsThatCannotBeCheckedAreNotUsed) {
  Graph g = parse_graph(R"(graph(s: seq(f32[4]), x: f32[4]) {
    return add(add(x, x), sequence_at(s, constant i64[]{0}))
  })");
  std::vector<double> ones(4, 1);
  Tensor one = Tensor::of_reals(DType::f32, {4}, ones);
  std::vector<Value> inputs = {Value::sequence({Value(one)}), Value(one)};
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  CompileReport report;
  EXPECT_EQ(compile(g, options, &report).run(inputs), evaluate(g, inputs));
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_NE(report.faults[0].find("could not be checked, and are not used"), std::string::npos);
  EXPECT_EQ(report.on_reference.size(), report.groups);
  options.inputs = inputs;
  EXPECT_EQ(compile(g, options, &report).run(inputs), evaluate(g, inputs));
  EXPECT_TRUE(report.faults.empty());
  EXPECT_LT(report.on_reference.size(), report.groups);
}

// Random indices lie anywhere; the kernels were seen all the same.
TEST(Compile, IndicesOutsideOfTheirTensorDoNotKeepKernelsFromBeingChecked) {
  Graph g = parse_graph("graph(x: f32[1,3], i: i64[5]) { return gather[axis=0](x, i) }");
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  options.seed = 3;
  CompileReport report;
  CpuProgram program = compile(g, options, &report);
  EXPECT_EQ(report.faults, std::vector<std::string>());
  EXPECT_EQ(report.kernels_checked, 1);
  EXPECT_THROW(program.run(random_inputs(g, options.seed)), Error);
}

TEST(Compile, WithoutACompilerTheReferenceComputesAndTheReportSaysSo) {
  Graph g = parse_graph("graph(x: f32[4,5], y: f32[5,3]) { return relu(matmul(x, y)) }");
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  options.cpu.compile.compiler = "/nonexistent/cc";
  options.prices = std::make_shared<PriceList>(scratch / "prices.db");
  CompileReport report;
  auto inputs = random_inputs(g, 1);
  auto outputs = compile(g, options, &report).run(inputs);
  EXPECT_EQ(outputs, evaluate(g, inputs));
  EXPECT_FALSE(report.compiled);
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_NE(report.faults[0].find("no C compiler: /nonexistent/cc"), std::string::npos);
  EXPECT_EQ(report.on_reference.size(), report.groups);
}

}  // namespace
}  // namespace emend
