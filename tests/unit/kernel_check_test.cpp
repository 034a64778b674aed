// Errors planted into generated kernels are found where the kernels run.
#include "pipeline/kernel_check.h"

#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "equiv/compare.h"
#include "kernels/cpu/c_code.h"
#include "kernels/group.h"
#include "ops/build.h"
#include "select/select.h"
#include "support/scratch.h"

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
      if (k.name == kernel) plan.choices = {k.candidates({group, {false, false, false}, {}}, target)[0]};
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

TEST_P(KernelCheck, FindsASwappedStride) {
  Case c(GetParam());
  auto faults =
      c.check([](Program& p) { replace(p.kernels[0].text, "y0[37 * ", "y0[36 * "); }).faults;
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].step, 0u);
}

TEST_P(KernelCheck, FindsAWrongBias) {
  Case c(GetParam());
  EXPECT_EQ(
      c.check([](Program& p) { replace(p.kernels[0].text, "x2[", "x2[1 + -1 * "); }).faults.size(),
      1u);
}

INSTANTIATE_TEST_SUITE_P(Templates, KernelCheck, testing::Values("rows", "contract"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace emend
