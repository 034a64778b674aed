// Loops over a cell: what is one, and the programs that they become.
#include "kernels/recurrence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/rng.h"
#include "fuse/fuse.h"
#include "ops/evaluate.h"
#include "ops/table.h"
#include "pipeline/compile.h"

namespace emend {
namespace {

Type f32(Dims shape) {
  return Type::tensor(DType::f32, std::move(shape));
}

Tensor random_tensor(Rng& rng, Dims shape, double scale) {
  std::vector<double> values(static_cast<size_t>(count(shape)));
  for (double& v : values) v = scale * rng.normal();
  return Tensor::of_reals(DType::f32, std::move(shape), values);
}

struct Layer {
  std::string kind;
  int64_t gates = 1, hidden = 37, batch = 3, steps = 6, inputs = 20;
  std::string direction = "forward";
  bool linear = false, lengths = false;
  std::vector<std::string> activations;
};
const Layer kLstm{.kind = "lstm", .gates = 4, .activations = {"Sigmoid", "Tanh", "Tanh"}};
const Layer kGru{.kind = "gru", .gates = 3, .activations = {"Sigmoid", "Tanh"}};

Graph graph_of(const Layer& l) {
  Rng rng(5);
  GraphBuilder b;
  int64_t directions = l.direction == "bidirectional" ? 2 : 1;
  NodeId x = b.input("x", f32({l.steps, l.batch, l.inputs}));
  std::vector<NodeId> args = {
      x, b.constant(random_tensor(rng, {directions, l.gates * l.hidden, l.inputs}, 0.2)),
      b.constant(random_tensor(rng, {directions, l.gates * l.hidden, l.hidden}, 0.2)),
      b.constant(random_tensor(rng, {directions, 2 * l.gates * l.hidden}, 0.2))};
  Dims present = {1, l.lengths, 0, 0, 0};
  if (l.lengths) {
    std::vector<double> lengths;
    for (int64_t i = 0; i < l.batch; ++i)
      lengths.push_back(static_cast<double>(i * 3 % (l.steps + 1)));
    args.push_back(b.constant(Tensor::of_reals(DType::i32, {l.batch}, lengths)));
  }
  std::vector<std::string> activations;
  for (int64_t d = 0; d < directions; ++d)
    activations.insert(activations.end(), l.activations.begin(), l.activations.end());
  NodeId y = b.op(l.kind, args,
                  Attrs({{"activations", activations},
                         {"direction", l.direction},
                         {"linear_before_reset", l.linear},
                         {"present", present}}));
  for (NodeId item : b.get_all(y)) b.output("y", item);
  return std::move(b).build();
}

std::optional<Recurrence> first_loop(const Graph& g) {
  for (size_t n = 0; n < g.size(); ++n) {
    if (op_def(g.nodes[NodeId(n)]).name == "loop") return recurrence_of(g, NodeId(n));
  }
  return std::nullopt;
}

TEST(Recurrence, GatesOfAnLstmAreOneProduct) {
  auto r = first_loop(decomposed(graph_of(kLstm)));
  ASSERT_TRUE(r);
  EXPECT_EQ(r->units, 37);
  EXPECT_EQ(r->stages.size(), 1u);
  ASSERT_EQ(r->products.size(), 1u);
  EXPECT_EQ(r->products[0].gates, 4);
  EXPECT_EQ(r->products[0].rows, 3);
}

TEST(Recurrence, AResetGateBeforeTheProductIsAStageOfItsOwn) {
  Layer linear = kGru;
  linear.linear = true;
  auto one = first_loop(decomposed(graph_of(linear))), two = first_loop(decomposed(graph_of(kGru)));
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->stages.size(), 1u);
  EXPECT_EQ(two->stages.size(), 2u);
  ASSERT_EQ(two->products.size(), 2u);
  EXPECT_EQ(two->products[1].first_gate, 2);
  EXPECT_EQ(two->matrices.size(), 1u);
}

// What `step` makes of the state and the matrix.
std::optional<Recurrence> loop_over(
    const std::function<NodeId(GraphBuilder&, NodeId h, NodeId w)>& step) {
  GraphBuilder b;
  LoopOperands operands{.trips = 4, .states = {b.input("h", f32({2, 8}))}};
  operands.captured = {b.input("w", f32({8, 8}))};
  auto made = add_loop(b, operands, [&](GraphBuilder& body, const LoopStep& s) -> LoopResults {
    return {.states = {step(body, s.states[0], s.captured[0])}, .outputs = {}};
  });
  b.output("y", made.states[0]);
  return first_loop(std::move(b).build());
}

NodeId sliced(GraphBuilder& b, NodeId x, Dims starts, Dims sizes, int64_t step) {
  return b.op("slice", {x},
              Attrs({{"starts", starts}, {"sizes", sizes}, {"steps", Dims{1, step}}}));
}

TEST(Recurrence, OtherLoopsAreNone) {
  auto product = [](GraphBuilder& b, NodeId h, NodeId w) { return b.op("matmul", {h, w}); };
  EXPECT_TRUE(loop_over(product));
  // Units that need all the others.
  EXPECT_FALSE(loop_over([&](GraphBuilder& b, NodeId h, NodeId w) {
    NodeId p = product(b, h, w);
    return b.op("sub", {p, b.op("reduce_max", {p}, Attrs({{"axes", Dims{1}}}))});
  }));
  // Units that need other units of the product.
  EXPECT_FALSE(loop_over([&](GraphBuilder& b, NodeId h, NodeId w) {
    NodeId p = product(b, h, w);
    return b.op("add", {p, sliced(b, p, {0, 7}, {2, 8}, -1)});
  }));
  // A matrix that is not only one.
  EXPECT_FALSE(loop_over([&](GraphBuilder& b, NodeId h, NodeId w) {
    NodeId row =
        b.op("slice", {w},
             Attrs({{"starts", Dims{0, 0}}, {"sizes", Dims{1, 8}}, {"steps", Dims{1, 1}}}));
    return b.op("add", {product(b, h, w), row});
  }));
  // No matrix at all.
  EXPECT_FALSE(loop_over([&](GraphBuilder& b, NodeId h, NodeId) { return b.op("tanh", {h}); }));
}

void expect_close(const std::vector<Value>& wanted, const std::vector<Value>& got) {
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t o = 0; o < wanted.size(); ++o) {
    for (int64_t i = 0; i < wanted[o].tensor.count(); ++i)
      ASSERT_NEAR(wanted[o].tensor.real(i), got[o].tensor.real(i), 1e-5) << o << " " << i;
  }
}

class Layers : public testing::TestWithParam<Layer> {};

TEST_P(Layers, RunWithoutTheReference) {
  Graph g = graph_of(GetParam());
  Rng rng(6);
  std::vector<Value> in = {random_tensor(rng, g.type(g.inputs[0].node).shape, 1)};
  CompileReport report;
  CpuProgram program = compile(g, {}, &report);
  EXPECT_TRUE(report.on_reference.empty());
  EXPECT_TRUE(report.faults.empty());
  auto wanted = evaluate(g, in);
  auto first = program.run(in);
  expect_close(wanted, first);
  // Whoever finds the threads taken computes alone; who shares what never changes the result.
  auto again = [&] {
    for (int i = 0; i < 20; ++i) {
      auto same = program.run(in);
      for (size_t o = 0; o < same.size(); ++o) EXPECT_TRUE(same[o].tensor == first[o].tensor);
    }
  };
  std::thread other(again);
  again();
  other.join();
}

// With the views that were its matrix's, and its results.
TEST(Recurrence, WhatIsRefusedRunsOnTheReference) {
  Layer l = kGru;
  l.direction = "bidirectional";
  Graph g = graph_of(l);
  Rng rng(7);
  std::vector<Value> in = {random_tensor(rng, g.type(g.inputs[0].node).shape, 1)};
  CompileReport report;
  CpuProgram program = compile(g, {.accuracy = 1e-12}, &report);
  EXPECT_FALSE(report.faults.empty());
  EXPECT_FALSE(report.on_reference.empty());
  expect_close(evaluate(g, in), program.run(in));
}

std::vector<Layer> layers() {
  std::vector<Layer> all = {kLstm, kGru};
  for (bool linear : {false, true}) {
    Layer l = kGru;
    l.linear = linear;
    l.direction = "bidirectional";
    l.hidden = 70;
    all.push_back(l);
  }
  Layer l = kLstm;
  l.direction = "bidirectional";
  l.lengths = true;
  all.push_back(l);
  l.hidden = 200;
  l.batch = 1;
  l.direction = "reverse";
  all.push_back(l);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Layers, testing::ValuesIn(layers()));

}  // namespace
}  // namespace emend
