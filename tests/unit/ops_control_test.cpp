#include <gtest/gtest.h>

#include "ops/control.h"
#include "ops/evaluate.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"
#include "ops/table.h"

namespace emend {
namespace {

Tensor reals(Dims shape, std::vector<double> v) {
  return Tensor::of_reals(DType::f32, shape, v);
}

// h = 2 h + x over the columns of x from the right; the outputs stand where the columns stood.
Graph horner(int64_t columns) {
  GraphBuilder b;
  NodeId h = b.input("h", Type::tensor(DType::f32, {2}));
  NodeId x = b.input("x", Type::tensor(DType::f32, {2, columns}));
  NodeId two = b.scalar(2, DType::f32);
  LoopOperands o{.trips = columns,
                 .states = {h},
                 .scanned = {{x, 1, true}},
                 .captured = {two},
                 .output_axes = {1},
                 .output_reverse = {1}};
  auto r = add_loop(b, o, [](GraphBuilder& body, const LoopStep& s) -> LoopResults {
    NodeId next = body.op("add", {body.op("mul", {s.states[0], s.captured[0]}), s.slices[0]});
    return {.states = {next}, .outputs = {next}};
  });
  b.output("h", r.states[0]);
  b.output("hs", r.outputs[0]);
  return std::move(b).build();
}

TEST(Loop, CarriesStatesCutsSlicesStacksOutputs) {
  auto out = evaluate(horner(3),
                      std::vector<Value>{reals({2}, {1, 0}), reals({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(out[0].tensor, reals({2}, {8 + 12 + 4 + 1, 24 + 10 + 4}));
  EXPECT_EQ(out[1].tensor, reals({2, 3}, {25, 12, 5, 38, 17, 6}));
}

TEST(Loop, HasAnExactValueWhereItsBodyHas) {
  auto in = [](const Tensor& t) { return Value(converted(t, Arithmetic::field)); };
  auto out = evaluate(horner(2),
                      std::vector<Value>{in(reals({2}, {1, 0})), in(reals({2, 2}, {1, 2, 3, 4}))},
                      {.arithmetic = Arithmetic::field});
  EXPECT_EQ(out[0].tensor.ints(), (Dims{9, 11}));
}

TEST(Loop, NoTripsGiveTheInitialStatesAndEmptyOutputs) {
  auto out = evaluate(horner(0), std::vector<Value>{reals({2}, {1, 0}), reals({2, 0}, {})});
  EXPECT_EQ(out[0].tensor, reals({2}, {1, 0}));
  EXPECT_EQ(out[1].tensor.shape(), (Dims{2, 0}));
}

TEST(Loop, AStateMustKeepItsType) {
  GraphBuilder b;
  NodeId h = b.input("h", Type::tensor(DType::f32, {1}));
  NodeId x = b.input("x", Type::tensor(DType::f32, {4, 3}));
  auto grow = [](GraphBuilder& body, const LoopStep& s) -> LoopResults {
    return {.states = {body.op("add", {s.states[0], s.slices[0]})}, .outputs = {}};
  };
  EXPECT_THROW(add_loop(b, {.trips = 4, .states = {h}, .scanned = {{x}}}, grow), Error);
}

// --- ONNX ---

NodeId onnx(GraphBuilder& b, const std::string& type, std::vector<NodeId> operands,
            std::vector<Attrs::Entry> attributes = {}, int64_t outputs = 1, int64_t captures = 0) {
  OnnxNode node{.type = type,
                .version = 17,
                .attributes = Attrs(std::move(attributes)),
                .outputs = outputs,
                .present = Dims(operands.size() - static_cast<size_t>(captures), 1)};
  for (const auto& e : node.attributes.entries())
    if (e.second.as<GraphRef>()) node.captures.push_back(captures / (type == "If" ? 2 : 1));
  return add_onnx_node(b, node, operands);
}

bool has_op(const Graph& g, std::string_view name) {
  for (const Node& n : g.nodes)
    if (op_def(n).name == name) return true;
  return false;
}

const Type kScalar = Type::tensor(DType::f32, {}), kBool = Type::tensor(DType::boolean, {}),
           kIndex = Type::tensor(DType::i64, {});

// s, k = Loop(trips, s0; captured w): s' = s + w, k = s' + s'; stops when s' >= stop, if given.
Graph summing(bool static_trips, std::optional<double> stop) {
  GraphBuilder body;
  body.input("i", kIndex);
  NodeId condition = body.input("c", kBool), s = body.input("s", kScalar),
         w = body.input("w", kScalar);
  NodeId next = onnx(body, "Add", {s, w});
  body.output("c", stop ? onnx(body, "Less", {next, body.scalar(*stop, DType::f32)})
                        : onnx(body, "Identity", {condition}));
  body.output("s", next);
  body.output("k", onnx(body, "Add", {next, next}));
  GraphBuilder b;
  NodeId s0 = b.input("s0", kScalar), outer = b.input("w", kScalar);
  NodeId trips = static_trips ? b.constant(Tensor::of_int(4)) : b.input("n", kIndex);
  NodeId always = b.constant(Tensor::of_int(1, DType::boolean));
  NodeId loop = onnx(b, "Loop", {trips, always, s0, outer},
                     {{"body", GraphRef(std::move(body).build())}}, 2, 1);
  b.output("s", b.get(loop, 0));
  b.output("k", b.get(loop, 1));
  return std::move(b).build();
}

TEST(OnnxLoop, WithStaticTripsIsALoopAndGoesBack) {
  Lowered low = lower_onnx(summing(true, {}));
  EXPECT_TRUE(low.deferred.empty());
  ASSERT_TRUE(has_op(low.graph, "loop"));
  std::vector<Value> in = {reals({}, {1}), reals({}, {2})};
  auto out = evaluate(low.graph, in);
  EXPECT_EQ(out[0].tensor, reals({}, {9}));
  EXPECT_EQ(out[1].tensor, reals({4}, {6, 10, 14, 18}));
  Lowered again = lower_onnx(raise_onnx(low.graph, 17));
  EXPECT_TRUE(has_op(again.graph, "loop"));
  EXPECT_EQ(evaluate(again.graph, in), out);
}

TEST(OnnxLoop, StopsOnTheHostWhenItsConditionSays) {
  Lowered low = lower_onnx(summing(true, 5));
  EXPECT_EQ(low.deferred.size(), 1u);
  auto out = evaluate(low.graph, std::vector<Value>{reals({}, {1}), reals({}, {2})});
  EXPECT_EQ(out[0].tensor, reals({}, {5}));
  EXPECT_EQ(out[1].tensor, reals({2}, {6, 10}));
}

TEST(OnnxLoop, TripsFromRunTimeMayBeNone) {
  Lowered low = lower_onnx(summing(false, {}));
  EXPECT_EQ(low.deferred.size(), 1u);
  for (int64_t n : {0, 3}) {
    auto out =
        evaluate(low.graph, std::vector<Value>{reals({}, {1}), reals({}, {2}), Tensor::of_int(n)});
    EXPECT_EQ(out[0].tensor.real(0), 1.0 + 2.0 * static_cast<double>(n));
    EXPECT_EQ(out[1].tensor.shape(), (Dims{n}));
  }
}

// s = Loop(trips, s0): s' = s and s in a row
Graph doubling(std::optional<int64_t> trips) {
  GraphBuilder body;
  body.input("i", kIndex);
  NodeId condition = body.input("c", kBool), s = body.input("s", Type::tensor(DType::f32, {1}));
  body.output("c", condition);
  body.output("s", onnx(body, "Concat", {s, s}, {{"axis", 0}}));
  GraphBuilder b;
  NodeId s0 = b.input("s0", Type::tensor(DType::f32, {1}));
  NodeId n = trips ? b.constant(Tensor::of_int(*trips)) : b.input("n", kIndex);
  NodeId always = b.constant(Tensor::of_int(1, DType::boolean));
  b.output("s", onnx(b, "Loop", {n, always, s0}, {{"body", GraphRef(std::move(body).build())}}));
  return std::move(b).build();
}

TEST(OnnxLoop, OfFewTripsWithGrowingStatesIsWrittenOut) {
  Lowered low = lower_onnx(doubling(3));
  EXPECT_TRUE(low.deferred.empty());
  EXPECT_FALSE(has_op(low.graph, "loop"));
  EXPECT_EQ(low.graph.types[low.graph.outputs[0].node], Type::tensor(DType::f32, {8}));
  auto out = evaluate(low.graph, std::vector<Value>{reals({1}, {7})});
  EXPECT_EQ(out[0].tensor, reals({8}, std::vector<double>(8, 7)));
}

TEST(OnnxLoop, StatesMayGrowOnTheHost) {
  Lowered low = lower_onnx(doubling({}));
  EXPECT_EQ(low.deferred.size(), 1u);
  auto out = evaluate(low.graph, std::vector<Value>{reals({1}, {7}), Tensor::of_int(2)});
  EXPECT_EQ(out[0].tensor, reals({4}, {7, 7, 7, 7}));
}

TEST(OnnxLoop, OfManyTripsWithGrowingStatesSaysWhyItWaits) {
  Lowered low = lower_onnx(doubling(100000));
  ASSERT_EQ(low.deferred.size(), 1u);
  EXPECT_NE(low.deferred[0].find("state 0 changes"), std::string::npos) << low.deferred[0];
}

TEST(OnnxLoop, CollectsASequenceThatDissolves) {
  GraphBuilder body;
  NodeId i = body.input("i", kIndex), condition = body.input("c", kBool),
         s = body.input("s", Type::sequence(Type::any()));
  NodeId x = body.input("x", Type::tensor(DType::i64, {2}));
  body.output("c", condition);
  body.output("s", onnx(body, "SequenceInsert", {s, onnx(body, "Mul", {x, i})}));
  GraphBuilder b;
  NodeId outer = b.input("x", Type::tensor(DType::i64, {2}));
  NodeId empty = onnx(b, "SequenceEmpty", {}, {{"dtype", 7}});
  NodeId loop = onnx(
      b, "Loop",
      {b.constant(Tensor::of_int(3)), b.constant(Tensor::of_int(1, DType::boolean)), empty, outer},
      {{"body", GraphRef(std::move(body).build())}}, 1, 1);
  b.output("y", onnx(b, "ConcatFromSequence", {loop}, {{"axis", 0}}));
  Lowered low = lower_onnx(std::move(b).build());
  EXPECT_TRUE(low.deferred.empty());
  EXPECT_FALSE(has_op(low.graph, "sequence"));
  auto out = evaluate(low.graph, std::vector<Value>{Tensor::of_ints({1, 2})});
  EXPECT_EQ(out[0].tensor.ints(), (Dims{0, 0, 1, 2, 2, 4}));
}

// A loop that gives random numbers, in every step anew; on the host if `trips` are not given.
Graph drawing(std::optional<int64_t> trips) {
  GraphBuilder body;
  body.input("i", kIndex);
  body.output("c", body.input("c", kBool));
  body.output("r", onnx(body, "RandomUniform", {}, {{"shape", Dims{2}}, {"seed", 1.0}}));
  GraphBuilder b;
  NodeId n = trips ? b.constant(Tensor::of_int(*trips)) : b.input("n", kIndex);
  b.output("r", onnx(b, "Loop", {n, b.constant(Tensor::of_int(1, DType::boolean))},
                     {{"body", GraphRef(std::move(body).build())}}));
  return std::move(b).build();
}

TEST(OnnxLoop, EveryStepDrawsOtherRandomNumbers) {
  Lowered fixed = lower_onnx(drawing(2)), host = lower_onnx(drawing({}));
  ASSERT_TRUE(has_op(fixed.graph, "loop"));
  auto a = evaluate(fixed.graph, {})[0].tensor.reals();
  auto b = evaluate(host.graph, std::vector<Value>{Tensor::of_int(2)})[0].tensor.reals();
  for (const auto& r : {a, b}) {
    ASSERT_EQ(r.size(), 4u);
    EXPECT_NE(r[0], r[2]);
    EXPECT_NE(r[1], r[3]);
  }
  EXPECT_EQ(a, evaluate(fixed.graph, {})[0].tensor.reals());
}

TEST(OnnxScan, IsALoopAndGoesBack) {
  GraphBuilder body;
  NodeId s = body.input("s", Type::tensor(DType::f32, {2})),
         x = body.input("x", Type::tensor(DType::f32, {2}));
  NodeId next = onnx(body, "Add", {s, x});
  body.output("s", next);
  body.output("k", next);
  GraphBuilder b;
  NodeId s0 = b.input("s0", Type::tensor(DType::f32, {2})),
         xs = b.input("xs", Type::tensor(DType::f32, {2, 3}));
  NodeId scan = onnx(b, "Scan", {s0, xs},
                     {{"body", GraphRef(std::move(body).build())},
                      {"num_scan_inputs", 1},
                      {"scan_input_axes", Dims{-1}},
                      {"scan_input_directions", Dims{1}},
                      {"scan_output_axes", Dims{-1}}},
                     2);
  b.output("s", b.get(scan, 0));
  b.output("k", b.get(scan, 1));
  Lowered low = lower_onnx(std::move(b).build());
  EXPECT_TRUE(low.deferred.empty());
  std::vector<Value> in = {reals({2}, {0, 1}), reals({2, 3}, {1, 2, 3, 4, 5, 6})};
  auto out = evaluate(low.graph, in);
  EXPECT_EQ(out[0].tensor, reals({2}, {6, 16}));
  EXPECT_EQ(out[1].tensor, reals({2, 3}, {3, 5, 6, 7, 12, 16}));
  Lowered again = lower_onnx(raise_onnx(low.graph, 17));
  EXPECT_EQ(again.graph, low.graph);
}

// If(c): x + x else x
Graph choosing(bool known, bool condition) {
  Type t = Type::tensor(DType::f32, {2});
  GraphBuilder then_body, else_body, b;
  NodeId x = then_body.input("x", t);
  then_body.output("y", onnx(then_body, "Add", {x, x}));
  else_body.output("y", else_body.input("x", t));
  NodeId outer = b.input("x", t);
  NodeId c = known ? b.constant(Tensor::of_int(condition, DType::boolean)) : b.input("c", kBool);
  b.output("y", onnx(b, "If", {c, outer, outer},
                     {{"then_branch", GraphRef(std::move(then_body).build())},
                      {"else_branch", GraphRef(std::move(else_body).build())}},
                     1, 2));
  return std::move(b).build();
}

TEST(OnnxIf, IsInlinedWhereItsConditionIsKnown) {
  Lowered low = lower_onnx(choosing(true, true));
  EXPECT_FALSE(has_op(low.graph, "if"));
  EXPECT_TRUE(has_op(low.graph, "add"));
  EXPECT_FALSE(has_op(lower_onnx(choosing(true, false)).graph, "add"));
}

TEST(OnnxIf, ChoosesAtRunTimeAndGoesBack) {
  Lowered low = lower_onnx(choosing(false, false));
  EXPECT_TRUE(low.deferred.empty());
  ASSERT_TRUE(has_op(low.graph, "if"));
  Lowered again = lower_onnx(raise_onnx(low.graph, 17));
  for (int64_t c : {0, 1}) {
    std::vector<Value> in = {reals({2}, {1, 3}), Tensor::of_int(c, DType::boolean)};
    EXPECT_EQ(evaluate(low.graph, in)[0].tensor, c ? reals({2}, {2, 6}) : reals({2}, {1, 3}));
    EXPECT_EQ(evaluate(again.graph, in), evaluate(low.graph, in));
  }
}

}  // namespace
}  // namespace emend
