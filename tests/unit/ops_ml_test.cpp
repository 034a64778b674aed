// What the conformance suite of ONNX does not look at: classical models, odd labels, derivatives of
// parts of a graph at other places.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/evaluate.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"

namespace emend {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor reals(Dims shape, std::vector<double> v) {
  return Tensor::of_reals(DType::f32, shape, v);
}

// One node of ai.onnx.ml on one tensor, directly and after going to ONNX and back.
Tensor run(const std::string& type, const Tensor& x, std::vector<Attrs::Entry> attributes,
           int64_t version = 3) {
  GraphBuilder b;
  NodeId in = b.input("x", x.type());
  OnnxNode node{.type = type,
                .domain = "ai.onnx.ml",
                .version = version,
                .attributes = Attrs(std::move(attributes)),
                .present = {1}};
  b.output("y", add_onnx_node(b, node, Args(&in, 1)));
  Lowered low = lower_onnx(std::move(b).build());
  EXPECT_TRUE(low.deferred.empty()) << type;
  auto y = evaluate(low.graph, std::vector<Value>{x})[0];
  EXPECT_EQ(evaluate(lower_onnx(raise_onnx(low.graph, 17)).graph, std::vector<Value>{x})[0], y);
  return y.tensor;
}

TEST(Ml, ScalerShiftsThenScales) {
  EXPECT_EQ(run("Scaler", Tensor::of_ints({1, 2, 3, 4}).reshaped({2, 2}),
                {{"offset", std::vector<double>{1, 2}}, {"scale", std::vector<double>{0.5}}}),
            reals({2, 2}, {0, 0, 1, 1}));
}

TEST(Ml, NormalizerLeavesRowsOfNormZero) {
  Tensor x = reals({3, 2}, {3, -4, 0, 0, 1, 4});
  EXPECT_EQ(run("Normalizer", x, {{"norm", "L2"}}).reals()[1], double{-4.0f / 5.0f});
  EXPECT_EQ(run("Normalizer", x, {{"norm", "MAX"}}).reals()[4], 0.25);
  Tensor l1 = run("Normalizer", x, {{"norm", "L1"}});
  EXPECT_EQ(l1.reals()[1], double{-4.0f / 7.0f});
  EXPECT_EQ(l1.reals()[2], 0.0);
}

TEST(Ml, ImputerReplacesNaN) {
  Tensor x = reals({2, 2}, {kNaN, 1, 2, kNaN});
  EXPECT_EQ(
      run("Imputer", x,
          {{"imputed_value_floats", std::vector<double>{7, 8}}, {"replaced_value_float", kNaN}}),
      reals({2, 2}, {7, 1, 2, 8}));
  EXPECT_EQ(run("Imputer", Tensor::of_ints({-1, 5}),
                {{"imputed_value_int64s", Dims{3}}, {"replaced_value_int64", -1}})
                .ints(),
            (Dims{3, 5}));
}

TEST(Ml, AttributesOfNaNAreOneRecord) {
  auto list = [](double v) { return Attrs({{"x", std::vector<double>{1, v}}}); };
  EXPECT_EQ(Attrs({{"x", kNaN}}), Attrs({{"x", kNaN}}));
  EXPECT_EQ(list(kNaN), list(kNaN));
  EXPECT_FALSE(list(kNaN) == list(0));
}

TEST(Ml, LinearRegressorHasATargetPerRowOfCoefficients) {
  EXPECT_EQ(run("LinearRegressor", reals({1, 2}, {1, 2}),
                {{"coefficients", std::vector<double>{1, 2, 3, 4}},
                 {"intercepts", std::vector<double>{10, 20}},
                 {"targets", 2}}),
            reals({1, 2}, {15, 31}));
}

TEST(Ml, LabelsOfNaNAndOfRepeatedKeys) {
  std::vector<Attrs::Entry> given = {{"keys_floats", std::vector<double>{1, kNaN, 1}},
                                     {"values_int64s", Dims{5, 6, 7}},
                                     {"default_int64", -3}};
  EXPECT_EQ(run("LabelEncoder", reals({3}, {kNaN, 1, 2}), given, 4).ints(), (Dims{6, 7, -3}));
}

TEST(Ml, LabelsOfVersionOneGoBothWays) {
  std::vector<Attrs::Entry> given = {{"classes_strings", std::vector<std::string>{"a", "b"}}};
  EXPECT_EQ(run("LabelEncoder", Tensor::of_strings({2}, {"b", "c"}), given, 1).ints(),
            (Dims{1, -1}));
  EXPECT_EQ(run("LabelEncoder", Tensor::of_ints({0, 9}), given, 1).strings(),
            (std::vector<std::string>{"a", "_Unused"}));
}

// y = a * b + z; Gradient by a and b, put in place of which are p and q.
TEST(Gradient, IsTakenWhereTheInputsSay) {
  Type t = Type::tensor(DType::f32, {2});
  GraphBuilder b;
  NodeId a = b.input("a", t), w = b.input("b", t), z = b.input("z", t), p = b.input("p", t),
         q = b.input("q", t);
  auto op = [&](const std::string& type, std::vector<NodeId> in) {
    return add_onnx_node(b, {.type = type, .version = 12, .present = Dims(in.size(), 1)}, in);
  };
  NodeId y = op("Add", {op("Mul", {a, op("Mul", {a, w})}), z});
  OnnxNode node{.type = "Gradient",
                .domain = "ai.onnx.preview.training",
                .version = 1,
                .attributes = Attrs({{"xs", std::vector<std::string>{"a", "b"}}, {"y", "y"}}),
                .outputs = 2,
                .present = {1, 1}};
  NodeId operands[] = {p, q, a, w, y};
  NodeId gradient = add_onnx_node(b, node, operands);
  b.output("da", b.get(gradient, 0));
  b.output("db", b.get(gradient, 1));
  Lowered low = lower_onnx(std::move(b).build());
  EXPECT_TRUE(low.deferred.empty());
  Tensor none = reals({2}, {0, 0});
  auto out = evaluate(low.graph,
                      std::vector<Value>{none, none, none, reals({2}, {2, 3}), reals({2}, {5, 7})});
  EXPECT_EQ(out[0].tensor, reals({2}, {20, 42}));  // 2 p q
  EXPECT_EQ(out[1].tensor, reals({2}, {4, 9}));    // p p
}

}  // namespace
}  // namespace emend
