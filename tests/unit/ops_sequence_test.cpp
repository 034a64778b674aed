#include <gtest/gtest.h>

#include "ops/evaluate.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"
#include "ops/table.h"

namespace emend {
namespace {

NodeId onnx(GraphBuilder& b, const std::string& type, std::vector<NodeId> operands,
            std::vector<Attrs::Entry> attributes = {}) {
  return add_onnx_node(b,
                       {.type = type,
                        .version = 17,
                        .attributes = Attrs(std::move(attributes)),
                        .present = Dims(operands.size(), 1)},
                       operands);
}

bool has_kind(const Graph& g, Kind kind) {
  for (const Node& n : g.nodes)
    if (op_def(n).kind == kind) return true;
  return false;
}

NodeId position(GraphBuilder& b, int64_t at) {
  return b.constant(Tensor::of_int(at));
}

TEST(Sequence, BuiltInTheProgramItDissolves) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::i64, {5}));
  NodeId parts = onnx(b, "SplitToSequence", {x, position(b, 2)});              // 01 23 4
  NodeId shorter = onnx(b, "SequenceErase", {parts, position(b, 1)});          // 01 4
  NodeId last = onnx(b, "SequenceAt", {parts, position(b, -1)});               // 4
  NodeId longer = onnx(b, "SequenceInsert", {shorter, last, position(b, 0)});  // 4 01 4
  b.output("y", onnx(b, "ConcatFromSequence", {longer}, {{"axis", 0}}));
  b.output("n", onnx(b, "SequenceLength", {longer}));
  Lowered low = lower_onnx(std::move(b).build());
  EXPECT_TRUE(low.deferred.empty());
  EXPECT_FALSE(has_kind(low.graph, Kind::host));
  auto out = evaluate(low.graph, std::vector<Value>{Tensor::of_ints({0, 1, 2, 3, 4})});
  EXPECT_EQ(out[0].tensor.ints(), (Dims{4, 0, 1, 4}));
  EXPECT_EQ(out[1].tensor.integer(0), 3);
}

TEST(Sequence, FromOutsideItIsTakenApartOnTheHostAndGoesBack) {
  GraphBuilder b;
  NodeId s = b.input("s", Type::sequence(Type::any()));
  NodeId i = b.input("i", Type::tensor(DType::i64, {}));
  NodeId item = onnx(b, "SequenceAt", {s, i});
  b.output("y", onnx(b, "ConcatFromSequence", {onnx(b, "SequenceInsert", {s, item})},
                     {{"axis", -1}, {"new_axis", 0}}));
  Lowered low = lower_onnx(std::move(b).build());
  std::vector<Value> in = {Value::sequence({Tensor::of_ints({1, 2}), Tensor::of_ints({3})}),
                           Tensor::of_int(-2)};
  auto out = evaluate(low.graph, in);
  EXPECT_EQ(out[0].tensor.ints(), (Dims{1, 2, 3, 1, 2}));
  EXPECT_EQ(evaluate(lower_onnx(raise_onnx(low.graph, 17)).graph, in), out);
  in[1] = Tensor::of_int(2);
  EXPECT_THROW(evaluate(low.graph, in), Error);
}

TEST(Optional, WithoutAnElementSaysSo) {
  GraphBuilder b;
  NodeId o = b.input("o", Type::optional(Type::tensor(DType::f32, {1})));
  b.output("has", onnx(b, "OptionalHasElement", {o}));
  Graph has = lower_onnx(std::move(b).build()).graph;
  Value none = Value::optional({}), some = Value::optional({Tensor::of_ints({7})});
  EXPECT_EQ(evaluate(has, std::vector{none})[0].tensor.integer(0), 0);
  EXPECT_EQ(evaluate(has, std::vector{some})[0].tensor.integer(0), 1);
  GraphBuilder c;
  o = c.input("o", Type::optional(Type::tensor(DType::i64, {1})));
  c.output("x", onnx(c, "OptionalGetElement", {o}));
  Graph get = lower_onnx(std::move(c).build()).graph;
  EXPECT_EQ(evaluate(get, std::vector{some})[0].tensor.integer(0), 7);
  EXPECT_THROW(evaluate(get, std::vector{none}), Error);
}

}  // namespace
}  // namespace emend
