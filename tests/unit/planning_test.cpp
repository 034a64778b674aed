// What decides about plans: weights first, then estimates, then the clock; and what is kept of it.
#include "pipeline/planning.h"

#include <gtest/gtest.h>

#include "ops/build.h"
#include "ops/evaluate.h"
#include "pipeline/weights_ahead.h"
#include "support/compiled.h"
#include "text/text.h"

namespace emend {
namespace {

// Steps that load weights alone: they would compute the same in every run.
std::vector<std::string> steps_of_weights(const CpuProgram& program) {
  std::vector<std::string> labels;
  const Program& p = program.program();
  for (const Step& s : p.steps) {
    bool weights = !s.loads.empty();
    for (BufferId b : s.loads) weights &= p.buffers[b].place == Buffer::Place::weight;
    if (weights) labels.push_back(s.label);
  }
  return labels;
}

Tensor drawn(Dims shape, uint64_t seed) {
  return random_tensor(Type::tensor(DType::f32, std::move(shape)), seed, 0);
}

// Summed branches, merged: the small window among zeros beside the large one.
Graph merged_branches(int64_t channels) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {1, channels, 14, 14}));
  NodeId large = b.constant(drawn({channels, channels, 3, 3}, 1));
  NodeId small = b.constant(drawn({channels, channels, 1, 1}, 2));
  NodeId scale = b.constant(drawn({channels, 1, 1, 1}, 3));
  NodeId padded = b.op("pad", {small}, Attrs({{"pads", Dims{0, 0, 1, 1, 0, 0, 1, 1}}}));
  NodeId w = b.op("add", {b.op("mul", {large, scale}), padded});
  b.output(
      "y",
      b.op(
          "conv", {x, w},
          Attrs({{"strides", Dims{1, 1}}, {"dilations", Dims{1, 1}}, {"pads", Dims{1, 1, 1, 1}}})));
  return std::move(b).build();
}

TEST(Planning, WorkOnWeightsIsDoneBeforeTheProgramRuns) {
  Graph g = merged_branches(96);  // each weight is larger than what cleaning folds
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  CompileReport report;
  CpuProgram program = compile(g, options, &report);
  EXPECT_EQ(steps_of_weights(program), std::vector<std::string>());
  EXPECT_EQ(report.groups, 1u);
  auto inputs = random_inputs(g, 1);
  EXPECT_LT(worst_difference(g, evaluate(g, inputs), program.run(inputs)).rel, 1e-4);
}

TEST(WeightsAhead, WhereThereIsNoRoomItIsSaid) {
  Graph g = merged_branches(8);
  AheadReport report;
  EXPECT_EQ(computed_ahead(g, {.room = 0}, &report).size(), 3u);  // smaller than what it is made of
  EXPECT_TRUE(report.left.empty());

  Graph outer = parse_graph(R"(graph(x: f32[64,64]) {
    %1 = constant f32[64,1]pool(0)
    %2 = constant f32[1,64]pool(1)
    return matmul(x, mul(%1, %2))
  })",
                            std::vector{drawn({64, 1}, 1), drawn({1, 64}, 2)});
  EXPECT_EQ(computed_ahead(outer, {.room = 1e9}).size(), 3u);
  Graph left = computed_ahead(outer, {.room = 100}, &report);
  EXPECT_EQ(left, outer);
  EXPECT_EQ(report.left.size(), 1u);
  EXPECT_EQ(report.missing, 64 * 64 * 4 - 2 * 64 * 4);
}

TEST(WeightsAhead, OfATableOnlyWhatIsLookedUpIsComputed) {
  Graph g = parse_graph(R"(graph(i: i64[3]) {
    %1 = cast[to=f32](constant i8[1000,8]pool(0))
    return gather[axis=0](%1, i)
  })",
                        {Tensor::zeros(DType::i8, {1000, 8})});
  EXPECT_EQ(computed_ahead(g), g);
}

TEST(WeightsAhead, BytesStayBytes) {
  Graph g = parse_graph(R"(graph(x: f32[4,8]) {
    %1 = cast[to=f32](constant i8[8,16]pool(0))
    %2 = mul(sub(%1, constant f32[]{3}), constant f32[1,16]pool(1))
    return matmul(x, %2)
  })",
                        {Tensor::zeros(DType::i8, {8, 16}), drawn({1, 16}, 1)});
  EXPECT_EQ(computed_ahead(g), g);
}

// --- the clock ---

// The plainest kernel beside one that does the same work thirty times and is thought to be faster.
Catalogue with_a_boaster() {
  Catalogue all = {kernel_named(cpu_catalogue(), "rows")};
  Kernel boaster = all[0];
  boaster.name = "boaster";
  boaster.candidates = [rows = all[0]](const Wanted& w, const Target& t) {
    std::vector<Candidate> offered = rows.candidates(w, t);
    for (Candidate& c : offered) {
      c.kernel = "boaster";
      c.estimate_s /= 4;
    }
    return offered;
  };
  boaster.emit = [rows = all[0]](const Graph& group, const Candidate& c, const Target& t) {
    Candidate plain = c;
    plain.kernel = "rows";
    KernelCode code = rows.emit(group, plain, t);
    const size_t at = code.text.find(code.entry);
    EXPECT_NE(at, std::string::npos);
    const std::string inner = code.entry + "_once";
    code.text.replace(at, code.entry.size(), inner);
    code.entry += "_thirty_times";
    code.text += "void " + code.entry +
                 "(void* const* b, int64_t first, int64_t last, int32_t* fault) {\n"
                 "  for (int i = 0; i < 30; ++i) " +
                 inner + "(b, first, last, fault);\n}\n";
    return code;
  };
  all.push_back(boaster);
  return all;
}

std::string kernel_used(const CpuProgram& program) {
  return program.program().steps.at(0).how;
}

TEST(Planning, AClockDecidesBetweenKernelsWhereThereIsAPriceList) {
  Graph g = parse_graph("graph(x: f32[64,2000]) { return reduce_sum[axes=[1]](exp(sin(x))) }");
  const Catalogue catalogue = with_a_boaster();
  Scratch scratch;
  CompileFlowOptions options{.catalogue = &catalogue};
  options.cpu.compile.cache = scratch.folder();
  options.cpu.threads = 1;
  EXPECT_EQ(kernel_used(compile(g, options)).substr(0, 7), "boaster");
  options.measuring = {.prices = std::make_shared<PriceList>(scratch / "prices.db"), .seconds = 30};
  CompileReport first, second;
  EXPECT_EQ(kernel_used(compile(g, options, &first)).substr(0, 4), "rows");
  EXPECT_GT(first.prices_measured, 0u);
  EXPECT_EQ(first.prices_left, 0u);
  EXPECT_EQ(kernel_used(compile(g, options, &second)).substr(0, 4), "rows");
  EXPECT_EQ(second.prices_measured, 0u);
}

TEST(Planning, WithoutTimeNothingIsMeasured) {
  Graph g = parse_graph("graph(x: f32[64,2000]) { return reduce_sum[axes=[1]](exp(sin(x))) }");
  const Catalogue catalogue = with_a_boaster();
  Scratch scratch;
  CompileFlowOptions options{.catalogue = &catalogue};
  options.cpu.compile.cache = scratch.folder();
  options.measuring = {.prices = std::make_shared<PriceList>(scratch / "prices.db"), .seconds = 0};
  CompileReport report;
  compile(g, options, &report);
  EXPECT_EQ(report.prices_measured, 0u);
  EXPECT_GT(report.prices_left, 0u);
}

// The same product of five factors, in many operations and in few.
struct EqualPrograms {
  std::vector<Tensor> weights = {drawn({200, 1}, 1)};
  Graph slow = parse_graph(R"(graph(x: f32[200,200]) {
    return matmul(matmul(matmul(x, x), matmul(x, x)), constant f32[200,1]pool(0))
  })",
                           weights);
  Graph fast = parse_graph(R"(graph(x: f32[200,200]) {
    return matmul(x, matmul(x, matmul(x, matmul(x, constant f32[200,1]pool(0)))))
  })",
                           weights);
};

TEST(Planning, OfEqualProgramsTheFasterOneRuns) {
  EqualPrograms equal;
  const Catalogue plain = {kernel_named(cpu_catalogue(), "rows")};  // little to measure
  Scratch scratch;
  CompileFlowOptions options{.others = {equal.fast}, .catalogue = &plain};
  options.cpu.compile.cache = scratch.folder();
  options.measuring = {.prices = std::make_shared<PriceList>(scratch / "prices.db"),
                       .seconds = 600};
  CompileReport report;
  auto inputs = random_inputs(equal.slow, 1);
  CpuProgram program = compile(equal.slow, options, &report);
  EXPECT_EQ(report.program, 1u);
  EXPECT_LT(worst_difference(equal.slow, evaluate(equal.slow, inputs), program.run(inputs)).rel,
            1e-4);
}

TEST(Planning, TheNextStartTakesTheSameDecisionAndAsksNobody) {
  EqualPrograms equal;
  Scratch scratch;
  CompileFlowOptions options{.others = {equal.fast}};
  options.cpu.compile.cache = scratch.folder();
  options.measuring = {.prices = std::make_shared<PriceList>(scratch / "prices.db"),
                       .seconds = 2,
                       .keeping = {.folder = scratch / "kept"}};
  CompileReport first, second, other;
  auto inputs = random_inputs(equal.slow, 1);
  auto wanted = evaluate(equal.slow, inputs);
  CpuProgram program = compile(equal.slow, options, &first);
  EXPECT_FALSE(first.plan_recalled);
  CpuProgram again = compile(equal.slow, options, &second);
  EXPECT_TRUE(second.plan_recalled);
  EXPECT_EQ(second.program, first.program);
  EXPECT_EQ(second.prices_measured + second.prices_known, 0u);
  ASSERT_EQ(again.program().steps.size(), program.program().steps.size());
  for (size_t s = 0; s < program.program().steps.size(); ++s)
    EXPECT_EQ(again.program().steps[s].how, program.program().steps[s].how);
  EXPECT_LT(worst_difference(equal.slow, wanted, again.run(inputs)).rel, 1e-4);
  // Other errors allowed are another question.
  options.accuracy = 1e-5;
  compile(equal.slow, options, &other);
  EXPECT_FALSE(other.plan_recalled);
}

// A product of weights by itself is a group that loads weights alone: it stays where there is no
// room for it.
TEST(Planning, WhatHasNoRoomStaysAndIsSaid) {
  Graph g = parse_graph(R"(graph(x: f32[4,256]) {
    return matmul(x, matmul(constant f32[256,2]pool(0), constant f32[2,256]pool(1)))
  })",
                        {drawn({256, 2}, 1), drawn({2, 256}, 2)});
  for (double memory : {2.0, 200.0}) {
    Scratch scratch;
    CompileFlowOptions options;
    options.cpu.compile.cache = scratch.folder();
    options.memory = memory;
    CompileReport report;
    CpuProgram program = compile(g, options, &report);
    const bool fits = memory > 100;
    EXPECT_EQ(steps_of_weights(program).empty(), fits);
    EXPECT_EQ(report.faults.empty(), fits);
    auto inputs = random_inputs(g, 1);
    EXPECT_LT(worst_difference(g, evaluate(g, inputs), program.run(inputs)).rel, 1e-4);
  }
}

}  // namespace
}  // namespace emend
