// Indexing, casts, random numbers and data-dependent operators, where the suite of ONNX does not
// look: ties, other arithmetics, old opsets, distributions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/build.h"
#include "ops/evaluate.h"
#include "ops/index.h"
#include "ops/movement.h"
#include "ops/random.h"
#include "ops/table.h"
#include "support/onnx_call.h"

namespace emend {
namespace {

// One ONNX node over inputs of these types; an invalid type stands for an absent input.
Graph node(const std::string& type, int64_t version, std::vector<Type> inputs,
           std::vector<Attrs::Entry> attributes = {}, int64_t outputs = 1) {
  auto operand = [&](GraphBuilder& b, size_t i) {
    return inputs[i].is_tensor() ? b.input(str("x", i), inputs[i]) : NodeId();
  };
  return onnx_graph(type, version, inputs.size(), operand, std::move(attributes), outputs);
}

std::vector<Value> run(const Graph& g, std::vector<Value> in, Arithmetic a = Arithmetic::own) {
  for (Value& v : in) v = converted(v.tensor, a);
  return evaluate(g, in, {.arithmetic = a});
}

TEST(OpsIndex, TopKTakesTheLowerIndexOfEqualsAtEveryOpset) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x = real_tensor({1, 5}, {2, 7, 2, 7, 1});
  GraphBuilder b;
  NodeId in = b.input("x", x.type());
  for (bool largest : {true, false}) {
    for (NodeId y : b.get_all(b.op("top_k", {in}, TopK{.k = 3, .axis = -1, .largest = largest})))
      b.output("y", y);
  }
  Graph g = std::move(b).build();
  for (int64_t opset : {7, 10, 11, 21}) {
    auto y = run(lower_onnx(raise_onnx(g, opset)).graph, {x});
    EXPECT_EQ(y[0].tensor.reals(), (std::vector<double>{7, 7, 2})) << opset;
    EXPECT_EQ(y[1].tensor.ints(), (Dims{1, 3, 0})) << opset;
    EXPECT_EQ(y[2].tensor.reals(), (std::vector<double>{1, 2, 2})) << opset;
    EXPECT_EQ(y[3].tensor.ints(), (Dims{4, 0, 2})) << opset;
  }
  EXPECT_EQ(run(g, {real_tensor({1, 5}, {0, nan, 3, -1, 2})})[1].tensor.ints(), (Dims{1, 2, 4}));
  EXPECT_THROW(run(g, {x}, Arithmetic::field), Inexact);
  EXPECT_EQ(run(g, {x}, Arithmetic::integer)[1].tensor.ints(), (Dims{1, 3, 0}));
}

TEST(OpsIndex, ArgMaxFindsNaNAndTheLastOfEquals) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x = real_tensor({2, 4}, {1, 5, 5, 2, 3, nan, 9, nan});
  for (auto [last, expected] : {std::pair<int64_t, Dims>{0, {1, 1}}, {1, {2, 3}}}) {
    Graph g = lowered(node("ArgMax", 13, {x.type()},
                           {{"axis", 1}, {"keepdims", 0}, {"select_last_index", last}}));
    EXPECT_EQ(run(g, {x})[0].tensor.ints(), expected);
  }
}

TEST(OpsIndex, ScatterAddsEveryUpdateInEveryArithmetic) {
  Tensor x = real_tensor({4}, {1, 2, 3, 4}), at = Tensor::of_ints({1, -3, 3}),
         u = real_tensor({3}, {10, 100, 7});
  Graph add = lowered(node("ScatterElements", 18, {x.type(), at.type(), u.type()},
                           {{"reduction", "add"}, {"axis", 0}}));
  for (auto a : {Arithmetic::own, Arithmetic::real64, Arithmetic::integer, Arithmetic::field}) {
    std::vector<double> expected = {1, 112, 3, 11};
    EXPECT_EQ(run(add, {x, at, u}, a)[0].tensor.reals(), expected);
  }
  Graph top = lowered(node("ScatterElements", 18, {x.type(), at.type(), u.type()},
                           {{"reduction", "max"}, {"axis", 0}}));
  EXPECT_THROW(run(top, {x, at, u}, Arithmetic::field), Inexact);
  EXPECT_THROW(run(top, {x, Tensor::of_ints({0, 1, 4}), u}), Error);
  EXPECT_THROW(raise_onnx(top, 17), Error);
  EXPECT_EQ(lower_onnx(raise_onnx(top, 18)).graph, top);
}

TEST(OpsIndex, RunningSumsAreLinearAndSeeTheirSide) {
  Tensor x = real_tensor({4}, {1, 2, 3, 4}), axis = Tensor::of_int(-1);
  auto sums = [&](int64_t exclusive, int64_t reverse, Arithmetic a) {
    Graph g = lowered(node("CumSum", 14, {x.type(), axis.type()},
                           {{"exclusive", exclusive}, {"reverse", reverse}}),
                      {{"x1", axis}});
    return run(g, {x, axis}, a)[0].tensor.reals();
  };
  for (auto a : {Arithmetic::own, Arithmetic::field}) {
    EXPECT_EQ(sums(0, 0, a), (std::vector<double>{1, 3, 6, 10}));
    EXPECT_EQ(sums(1, 0, a), (std::vector<double>{0, 1, 3, 6}));
    EXPECT_EQ(sums(0, 1, a), (std::vector<double>{10, 9, 7, 4}));
    EXPECT_EQ(sums(1, 1, a), (std::vector<double>{9, 7, 4, 0}));
  }
}

TEST(OpsReduction, NothingReducesToTheEndOfItsType) {
  for (auto [type, least, most] : {std::tuple<DType, double, double>{DType::i8, -128, 127},
                                   {DType::boolean, 0, 1},
                                   {DType::f32, -INFINITY, INFINITY},
                                   {DType::u16, 0, 65535}}) {
    GraphBuilder b;
    NodeId x = b.input("x", Type::tensor(type, {0, 2}));
    for (const char* op : {"reduce_max", "reduce_min"})
      b.output(op, b.op(op, {x}, Attrs({{"axes", Dims{0}}})));
    auto y = run(std::move(b).build(), {Tensor::zeros(type, {0, 2})});
    EXPECT_EQ(y[0].tensor.reals(), std::vector<double>(2, least)) << to_text(type);
    EXPECT_EQ(y[1].tensor.reals(), std::vector<double>(2, most)) << to_text(type);
  }
}

TEST(OpsReduction, LogSumExpNeitherOverflowsNorLosesInfinities) {
  Tensor x = real_tensor({3, 2}, {1000, 1000, -INFINITY, -INFINITY, INFINITY, 0});
  GraphBuilder b;
  NodeId in = b.input("x", x.type());
  b.output("y", b.op("reduce_log_sum_exp", {in}, Attrs({{"axes", Dims{1}}, {"keepdims", false}})));
  auto y = run(std::move(b).build(), {x})[0].tensor.reals();
  EXPECT_FLOAT_EQ(static_cast<float>(y[0]), static_cast<float>(1000 + std::log(2)));
  EXPECT_EQ(y[1], -INFINITY);
  EXPECT_EQ(y[2], INFINITY);
}

TEST(OpsCast, TextsAndNumbers) {
  Tensor x = real_tensor({5}, {0.1, -2, 1e20, INFINITY, NAN});
  Graph to = lowered(node("Cast", 19, {x.type()}, {{"to", int64_t{info(DType::string).onnx}}}));
  Tensor texts = run(to, {x})[0].tensor;
  EXPECT_EQ(texts.strings(), (std::vector<std::string>{"0.1", "-2.0", "1e+20", "INF", "NaN"}));
  Graph back = lowered(node("Cast", 19, {texts.type()}, {{"to", int64_t{info(DType::f32).onnx}}}));
  EXPECT_EQ(run(back, {texts})[0].tensor.bytes().size(), x.bytes().size());
  EXPECT_EQ(run(back, {texts})[0].tensor.real(0), x.real(0));
  EXPECT_EQ(run(back, {texts})[0].tensor.real(3), INFINITY);
  Tensor bad = Tensor::of_strings({5}, {"1", "2", "x", "4", "5"});
  EXPECT_THROW(run(back, {bad}), Error);
}

TEST(OpsCast, IntegersWrapAndTruncateAndFieldsRefuse) {
  Tensor x = real_tensor({4}, {-1.9, 300.7, 2.5, -130});
  Graph g = lowered(node("Cast", 13, {x.type()}, {{"to", int64_t{info(DType::i8).onnx}}}));
  EXPECT_EQ(run(g, {x})[0].tensor.ints(), (Dims{-1, 44, 2, 126}));
  EXPECT_THROW(run(g, {x}, Arithmetic::field), Inexact);
}

TEST(OpsClip, BoundsMayBeAttributesConstantsOrComputed) {
  Tensor x = real_tensor({4}, {-3, 0.5, 2, 9});
  std::vector<double> expected = {-1, 0.5, 2, 6};
  Graph old = lowered(node("Clip", 7, {x.type()}, {{"min", -1.0}, {"max", 6.0}}));
  EXPECT_EQ(run(old, {x})[0].tensor.reals(), expected);
  Type scalar = Type::tensor(DType::f32, {});
  Graph computed = lowered(node("Clip", 13, {x.type(), scalar, scalar}));
  EXPECT_EQ(run(computed, {x, real_tensor({}, {-1}), real_tensor({}, {6})})[0].tensor.reals(),
            expected);
  for (int64_t opset : {7, 11, 21})
    EXPECT_EQ(lower_onnx(raise_onnx(old, opset)).graph, old) << opset;
  Graph upper = lowered(node("Clip", 13, {x.type(), Type::any(), scalar}));
  EXPECT_EQ(run(upper, {x, real_tensor({}, {6})})[0].tensor.real(3), 6);
}

TEST(OpsRandom, ValuesDependOnSeedStreamAndPositionAlone) {
  auto draw = [](Dims shape, double seed, int64_t stream) {
    GraphBuilder b;
    b.output("y", b.op("random_normal", {},
                       RandomNormal{.shape = shape, .seed = seed, .stream = stream}));
    return run(std::move(b).build(), {})[0].tensor.reals();
  };
  auto all = draw({20000}, 3, 1), part = draw({4, 5}, 3, 1);
  for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], all[i]);
  EXPECT_NE(draw({20}, 3, 2), part);
  EXPECT_NE(draw({20}, 4, 1), part);
  double sum = 0, squares = 0;
  for (double v : all) {
    sum += v;
    squares += v * v;
  }
  // Five standard deviations of the estimates.
  EXPECT_NEAR(sum / 20000, 0, 5 / std::sqrt(20000.0));
  EXPECT_NEAR(squares / 20000, 1, 5 * std::sqrt(2 / 20000.0));
}

TEST(OpsRandom, MultinomialDrawsInProportion) {
  Graph g = lowered(node("Multinomial", 22, {Type::tensor(DType::f32, {1, 3})},
                         {{"sample_size", 10000}, {"seed", 5.0}}));
  Tensor logits = real_tensor({1, 3}, {std::log(1.0), std::log(2.0), std::log(7.0)});
  std::vector<double> counts(3);
  for (int64_t i : run(g, {logits})[0].tensor.ints()) counts.at(static_cast<size_t>(i)) += 1;
  const double kShare[] = {0.1, 0.2, 0.7};
  for (size_t k = 0; k < 3; ++k)
    EXPECT_NEAR(counts[k] / 10000, kShare[k], 5 * std::sqrt(kShare[k] * (1 - kShare[k]) / 10000));
}

TEST(OpsRandom, DropoutScalesWhatItKeepsAndIsNothingInInference) {
  Type x = Type::tensor(DType::f32, {10000}), scalar = Type::tensor(DType::f32, {}),
       flag = Type::tensor(DType::boolean, {});
  Graph onnx = node("Dropout", 13, {x, scalar, flag}, {}, 2);
  Tensor ratio = real_tensor({}, {0.25}),
         ones = real_tensor({10000}, std::vector<double>(10000, 1));
  for (bool training : {false, true}) {
    Tensor on = Tensor::of_int(training, DType::boolean);
    auto y = run(lowered(onnx, {{"x1", ratio}, {"x2", on}}), {ones, ratio, on});
    double kept = 0;
    for (int64_t i = 0; i < 10000; ++i) {
      bool keep = y[1].tensor.integer(i) != 0;
      kept += keep;
      EXPECT_FLOAT_EQ(static_cast<float>(y[0].tensor.real(i)), !keep      ? 0.f
                                                               : training ? 1 / 0.75f
                                                                          : 1.f);
    }
    if (training)
      EXPECT_NEAR(kept / 10000, 0.75, 5 * std::sqrt(0.25 * 0.75 / 10000));
    else
      EXPECT_EQ(kept, 10000);
  }
}

TEST(OpsDataDependent, ConstantsKeepShapesStaticAndInputsMakeIslands) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {2, 3}));
  NodeId mask = b.constant(Tensor::of_ints({0, 5, 0, 1}).reshaped({2, 2}));
  b.output("places",
           add_onnx_node(b, {.type = "NonZero", .version = 13, .present = {1}}, Args(&mask, 1)));
  NodeId found = add_onnx_node(b, {.type = "NonZero", .version = 13, .present = {1}}, Args(&x, 1));
  b.output("moved",
           add_onnx_node(b, {.type = "Transpose", .version = 13, .present = {1}}, Args(&found, 1)));
  Lowered low = lower_onnx(std::move(b).build());
  EXPECT_EQ(low.graph.types[low.graph.outputs[0].node], Type::tensor(DType::i64, {2, 2}));
  EXPECT_EQ(low.graph.types[low.graph.outputs[1].node].kind, Type::Kind::any);
  auto y = evaluate(low.graph, std::vector<Value>{real_tensor({2, 3}, {0, 1, 0, 0, 0, 2})});
  EXPECT_EQ(y[0].tensor.ints(), (Dims{0, 1, 1, 1}));
  EXPECT_EQ(y[1].tensor.shape(), (Dims{2, 2}));
  EXPECT_EQ(y[1].tensor.ints(), (Dims{0, 1, 1, 2}));
}

TEST(OpsStrings, AreComparedAndChosen) {
  Tensor a = Tensor::of_strings({2, 1}, {"x", "y"}), c = Tensor::of_strings({2}, {"x", "z"});
  Graph equal = lowered(node("Equal", 19, {a.type(), c.type()}));
  EXPECT_EQ(run(equal, {a, c})[0].tensor.ints(), (Dims{1, 0, 0, 0}));
  Tensor mask = Tensor::make(DType::boolean, {2, 1}, [](std::byte* out) { out[1] = std::byte{1}; });
  Graph where = lowered(node("Where", 16, {mask.type(), a.type(), c.type()}));
  EXPECT_EQ(run(where, {mask, a, c})[0].tensor.strings(),
            (std::vector<std::string>{"x", "z", "y", "y"}));
}

// Every elementwise operator that has no name in ONNX at an old opset is said by those that have.
TEST(OpsRaise, BodiesAreSpelledOutWhereOnnxHasNoName) {
  Tensor x = real_tensor({7}, {-3.5, -1, -0.25, 0, 0.5, 1.5, 4});
  for (const char* op : {"gelu", "gelu_tanh", "hard_swish", "mish", "swish", "celu", "shrink",
                         "thresholded_relu", "trunc"}) {
    GraphBuilder b;
    b.output("y", b.op(op, {b.input("x", x.type())}));
    Graph g = std::move(b).build();
    auto expected = run(g, {x})[0].tensor,
         y = run(lower_onnx(raise_onnx(g, 9)).graph, {x})[0].tensor;
    for (int64_t i = 0; i < x.count(); ++i) EXPECT_NEAR(y.real(i), expected.real(i), 1e-6) << op;
  }
}

}  // namespace
}  // namespace emend
