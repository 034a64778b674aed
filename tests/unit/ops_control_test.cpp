#include <gtest/gtest.h>

#include "ops/control.h"
#include "ops/evaluate.h"

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

}  // namespace
}  // namespace emend
