// Errors planted into generated kernels are found where the kernels run.
#include "pipeline/kernel_check.h"

#include <gtest/gtest.h>

#include <regex>

#include "codegen/codegen.h"
#include "equiv/compare.h"
#include "fuse/fuse.h"
#include "kernels/cpu/c_code.h"
#include "kernels/group.h"
#include "ops/build.h"
#include "select/select.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

// y = relu(x w + b), one group.
struct Case {
  Graph graph;
  Plan plan;
  Target target{.vector_bytes = 16, .threads = 2, .peak_flops = 1e11};

  explicit Case(const std::string& kernel) {
    GraphBuilder b;
    NodeId x = b.input("x", Type::tensor(DType::f32, {13, 24}));
    NodeId w = b.input("w", Type::tensor(DType::f32, {24, 37}));
    NodeId bias = b.input("b", Type::tensor(DType::f32, {37}));
    b.output("y", b.op("relu", {b.op("add", {b.op("matmul", {x, w}), bias})}));
    graph = std::move(b).build();
    NodeGroup all;
    for (size_t n = graph.inputs.size(); n < graph.size(); ++n) all.nodes.push_back(NodeId(n));
    all.stores = {graph.outputs[0].node};
    plan.partition.groups = {all};
    Graph group = outlined(graph, all).graph;
    for (const Kernel& k : cpu_catalogue()) {
      if (k.name == kernel)
        plan.choices = {k.candidates({group, {false, false, false}, {}}, target)[0]};
    }
  }

  KernelChecks check(const std::function<void(Program&)>& damage) {
    Program p = generate(graph, plan, cpu_catalogue(), target);
    damage(p);
    CpuOptions options{.threads = 2};
    options.compile.cache = scratch / "kernels";
    CpuProgram program(std::move(p), c_prelude(), options);
    return check_kernels(graph, program, random_inputs(graph, 3), 1e-4);
  }
  Scratch scratch;
};

void replace(std::string& text, const std::string& what, const std::string& by) {
  size_t at = text.find(what);
  ASSERT_NE(at, std::string::npos) << what << " is not in\n" << text;
  text.replace(at, what.size(), by);
}

class KernelCheck : public testing::TestWithParam<const char*> {};

TEST_P(KernelCheck, AcceptsTheKernelAndRemembersIt) {
  Case c(GetParam());
  KernelChecks first = c.check([](Program&) {});
  EXPECT_TRUE(first.faults.empty());
  EXPECT_EQ(first.checked, 1);
  KernelChecks second = c.check([](Program&) {});
  EXPECT_EQ(second.checked, 0);
  EXPECT_EQ(second.known, 1);
}

TEST_P(KernelCheck, FindsAMissingTail) {
  Case c(GetParam());
  EXPECT_EQ(c.check([](Program& p) { p.steps[0].tasks -= 1; }).faults.size(), 1u);
}

// The last of 37 columns is not computed: an end of a loop that is one too low.
TEST_P(KernelCheck, FindsAWrongTail) {
  Case c(GetParam());
  auto shorten = [](Program& p) {
    std::string& text = p.kernels[0].text;
    std::string shorter = std::regex_replace(text, std::regex("([<:=] )37([;) ])"), "$0136$2");
    ASSERT_NE(shorter, text) << text;
    text = shorter;
  };
  EXPECT_EQ(c.check(shorten).faults.size(), 1u);
}

TEST_P(KernelCheck, FindsSwappedStrides) {
  Case c(GetParam());
  auto swap = [](Program& p) {
    std::string& text = p.kernels[0].text;
    std::regex index("y0\\[37 \\* (\\w+) \\+ (\\w+)\\]");
    std::string swapped = std::regex_replace(text, index, "y0[$01 + 13 * $02]");
    ASSERT_NE(swapped, text) << text;
    text = swapped;
  };
  auto faults = c.check(swap).faults;
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].step, 0u);
}

TEST_P(KernelCheck, FindsAWrongStride) {
  Case c(GetParam());
  EXPECT_EQ(
      c.check([](Program& p) { replace(p.kernels[0].text, "y0[37 * ", "y0[36 * "); }).faults.size(),
      1u);
}

TEST_P(KernelCheck, FindsAWrongBias) {
  Case c(GetParam());
  EXPECT_EQ(
      c.check([](Program& p) { replace(p.kernels[0].text, "x2[", "x2[1 + -1 * "); }).faults.size(),
      1u);
}

// Two steps as one launch of two tasks: y = 2 x, then z = y with its rows swapped. `between` stands
// where all threads must have met, since the second half reads what another thread has written. The
// first thread is late.
KernelChecks check_two_steps(const std::string& between) {
  Graph g = parse_graph(R"(graph(x: f32[2,64]) {
    %1 = add(x, x)
    %2 = slice[starts=[1,0], sizes=[2,64], steps=[-1,1]](%1)
    return mul(%2, %2)
  })");
  auto node = [](size_t n) { return NodeId(n); };
  Plan plan;
  plan.partition.groups = {{{node(1)}, {node(1)}}, {{node(2), node(3)}, {node(3)}}};
  plan.choices = {{.kernel = "rows"}, {.kernel = "rows"}};
  Target target{.vector_bytes = 16, .threads = 2};
  Program p = generate(g, plan, cpu_catalogue(), target);
  const KernelCode first = p.kernels[0], second = p.kernels[1];
  int64_t tasks[] = {p.steps[0].tasks, p.steps[1].tasks};
  std::string text = str(
      "#include <unistd.h>\n", first.text, second.text,
      "void planted(void* const* b, int64_t from, int64_t to, int32_t* fault) {\n"
      "void* const one[] = {b[2], b[0]};\n"
      "if (from == 0) usleep(100000);\n",
      first.entry, "(one, from * ", tasks[0], " / 2, to * ", tasks[0], " / 2, fault);\n", between,
      second.entry, "(b, from * ", tasks[1], " / 2, to * ", tasks[1], " / 2, fault);\n}\n");
  p.kernels = {{.text = text, .entry = "planted", .tasks = 2}};
  Step both = p.steps[1];
  both.kernel = 0;
  both.tasks = 2;
  both.stores.push_back(p.inputs[0]);  // one more address that the code gets
  p.steps = {both};
  Scratch scratch;
  CpuOptions options{.threads = 2};
  options.compile.cache = scratch / "kernels";
  return check_kernels(g, CpuProgram(std::move(p), c_prelude(), options), random_inputs(g, 3),
                       1e-4);
}

// What cancels over the reals is not nothing where terms are rounded: no fault of the kernel.
TEST(KernelCheckOf, TermsThatCancel) {
  Graph g = parse_graph(
      "graph(x: f32[8,5]) {\n"
      "  %k = constant f32[1]{3.0}\n"
      "  return add(%k, sub(x, add(x, %k)))\n}\n");
  Target target{.vector_bytes = 16, .threads = 2, .peak_flops = 1e11};
  Plan plan = select(g, fuse(g, {.target = target}), cpu_catalogue(), target);
  Scratch scratch;
  auto check = [&](const std::function<void(Program&)>& damage) {
    Program p = generate(g, plan, cpu_catalogue(), target);
    damage(p);
    CpuOptions options{.threads = 2};
    options.compile.cache = scratch / "kernels";
    return check_kernels(g, CpuProgram(std::move(p), c_prelude(), options), random_inputs(g, 3),
                         1e-4);
  };
  EXPECT_EQ(check([](Program&) {}).faults.size(), 0u);
  EXPECT_EQ(check([](Program& p) { p.steps[0].tasks -= 1; }).faults.size(), 1u);
}

TEST(Planted, AMissingBarrierIsFound) {
  EXPECT_EQ(check_two_steps("").faults.size(), 1u);
}

TEST(Planted, TheSameWithTheBarrierIsAccepted) {
  KernelChecks checks = check_two_steps(
      "static int arrived;\n__atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);\n"
      "while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < 2) usleep(10);\n");
  EXPECT_TRUE(checks.faults.empty());
  EXPECT_EQ(checks.checked, 1);
}

// What no nest says is compared whole, with the reference: one wrong element among ten thousand.
TEST(Planted, AnErrorOfASequentialKernelIsFound) {
  struct {
    const char *graph, *kernel, *right, *wrong;
  } const kCases[] = {
      {"graph(x: f32[100,100]) { return cum_sum[axis=1](x) }", "scan", "step < 100", "step < 99"},
      {"graph(x: f32[10000], u: f32[1]) { %2 = constant i64[2]{7, -1} %3 = concat[axis=0](u, u) "
       "return scatter_elements[reduction=\"add\"](x, %2, %3) }",
       "scatter", "i0 < 2", "i0 < 1"},
      // States of one step written over those of the last.
      {"graph(h: f32[2,20], w: f32[20,20], x: f32[3,2,20]) { %3 = loop[body=graph(i: i64[], s: "
       "f32[2,20], x: f32[2,20], w: f32[20,20]) { %4 = matmul(s, w) %5 = add(%4, x) %6 = tanh(%5) "
       "return s = %6, y = %6 }, trips=3, states=1, scan_axes=[0], scan_reverse=[0], "
       "output_axes=[0], output_reverse=[0]](h, x, w) return get[index=1](%3) }",
       "recurrent", "(~t & 1)", "(t & 1)"},
  };
  for (const auto& c : kCases) {
    Graph g = parse_graph(c.graph);
    Target target{.threads = 2};
    Plan plan{fuse(g, {.target = target}), {}};
    for (const NodeGroup& group : plan.partition.groups) {
      Graph outline = outlined(g, group).graph;
      bool last = group.stores[0] == g.outputs[0].node;
      const Kernel& kernel = kernel_named(cpu_catalogue(), last ? c.kernel : "rows");
      std::vector<bool> constant(outline.inputs.size(), false);
      plan.choices.push_back(kernel.candidates({outline, constant, {}}, target).at(0));
    }
    for (bool damaged : {false, true}) {
      Program p = generate(g, plan, cpu_catalogue(), target);
      if (damaged) replace(p.kernels.back().text, c.right, c.wrong);
      Scratch scratch;
      CpuOptions options{.threads = 2};
      options.compile.cache = scratch / "kernels";
      CpuProgram program(std::move(p), c_prelude(), options);
      auto faults = check_kernels(g, program, random_inputs(g, 3), 1e-4).faults;
      EXPECT_EQ(faults.size(), damaged ? 1u : 0u) << c.kernel;
    }
  }
}

// What is found in programs of a kernel that stores weights its own way, unharmed and damaged; the
// second time with the verdict of the first.
void expect_found(const Graph& g, const Plan& plan, const Target& target,
                  const std::function<void(Program&)>& damage) {
  Scratch scratch;
  for (bool damaged : {false, true}) {
    Program p = generate(g, plan, cpu_catalogue(), target);
    ASSERT_EQ(p.weights.size(), 1u);
    if (damaged) damage(p);
    CpuOptions options{.threads = 2};
    options.compile.cache = scratch / "kernels";
    CpuProgram program(std::move(p), c_prelude(), options);
    EXPECT_EQ(check_kernels(g, program, random_inputs(g, 3), 1e-4).faults.size(),
              damaged ? 1u : 0u);
  }
}

Tensor some_weights(const Dims& shape) {
  std::vector<double> weights(static_cast<size_t>(count(shape)));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::sin(static_cast<double>(i));
  return Tensor::of_reals(DType::f32, shape, weights);
}

void damage_weights(Program& p) {
  p.weights[0].packing->matrices[0].elements[0] *= 2;
}

// A kernel is right together with the weights as they were stored for it, and was checked so.
TEST(Planted, AnErrorInHowWeightsAreStoredIsFound) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {1, 16, 9, 9}));
  NodeId w = b.constant(some_weights({16, 16, 3, 3}));
  Attrs attrs({{"pads", Dims{1, 1, 1, 1}}, {"strides", Dims{1, 1}}, {"dilations", Dims{1, 1}}});
  NodeId y = b.op("conv", {x, w}, attrs);
  b.output("y", y);
  Graph g = std::move(b).build();
  Target target{.vector_bytes = 16, .threads = 2};
  Plan plan{fuse(g, {.target = target}), {}};
  Graph outline = outlined(g, plan.partition.groups[0]).graph;
  Layouts layouts{{channels_last({1, 16, 9, 9}), {}}, {channels_last({1, 16, 9, 9})}};
  const Kernel& kernel = kernel_named(cpu_catalogue(), "winograd");
  plan.choices = {kernel.candidates({outline, {false, true}, layouts}, target).at(0)};
  expect_found(g, plan, target, damage_weights);
}

// In sums of weights, in which rows are summed, in what products are added to, and in the last of
// an odd number of k's. (What stands in for the last of an odd number of rows does not matter.)
TEST(Planted, ErrorsInStrassensProductsAreFound) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {37, 31}));
  b.output("y", b.op("matmul", {x, b.constant(some_weights({31, 45}))}));
  Graph g = std::move(b).build();
  Target target{.vector_bytes = 16, .threads = 2};
  Plan plan{fuse(g, {.target = target}), {}};
  Graph outline = outlined(g, plan.partition.groups[0]).graph;
  const Kernel& kernel = kernel_named(cpu_catalogue(), "contract");
  for (Candidate& c : kernel.candidates({outline, {false, true}, {}}, target)) {
    if (c.error > 0) plan.choices = {std::move(c)};
  }
  ASSERT_EQ(plan.choices.size(), 1u);
  auto in_text = [](const char* what, const char* by) {
    return [=](Program& p) { replace(p.kernels[0].text, what, by); };
  };
  expect_found(g, plan, target, damage_weights);
  expect_found(g, plan, target, in_text("{1, 0, 1, 16, 1", "{1, 0, 1, 16, -1"));
  expect_found(g, plan, target, in_text("q.sign_to ? to + q.other_to : 0", "0"));
  expect_found(g, plan, target, in_text("q.at ? 0 : a[15]", "0"));
}

INSTANTIATE_TEST_SUITE_P(Templates, KernelCheck, testing::Values("rows", "contract"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace emend
