#include <gtest/gtest.h>

#include "ops/build.h"
#include "ops/contraction.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"
#include "ops/table.h"

namespace emend {
namespace {

Tensor reals(Dims shape, std::vector<double> v) {
  return Tensor::of_reals(DType::f32, shape, v);
}

Tensor run1(const Graph& g, std::vector<Value> in, Arithmetic a = Arithmetic::own) {
  return evaluate(g, in, {.arithmetic = a})[0].tensor;
}

TEST(Ops, MatmulInOwnDtypeAndInTheField) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {2, 3}));
  NodeId w = b.input("w", Type::tensor(DType::f32, {3, 2}));
  b.output("y", b.op("matmul", {x, w}));
  Graph g = std::move(b).build();
  Tensor tx = reals({2, 3}, {1, 2, 3, 4, 5, 6}), tw = reals({3, 2}, {1, 0, 0, 1, 1, 1});
  EXPECT_EQ(run1(g, {tx, tw}).reals(), (std::vector<double>{4, 5, 10, 11}));
  Tensor f = run1(g, {converted(tx, Arithmetic::field), converted(tw, Arithmetic::field)},
                  Arithmetic::field);
  EXPECT_EQ(f.ints(), (Dims{4, 5, 10, 11}));
}

TEST(Ops, GroupedStridedPaddedConvAgreesWithItsDefinition) {
  GraphBuilder b;
  Dims xs = {2, 4, 7, 5}, ws = {6, 2, 3, 2};
  NodeId x = b.input("x", Type::tensor(DType::f32, xs)),
         w = b.input("w", Type::tensor(DType::f32, ws));
  Conv c{.strides = {2, 1}, .dilations = {1, 2}, .pads = {1, 0, 0, 2}, .group = 2};
  NodeId y = b.op("conv", {x, w}, c);
  Dims ys = b.shape(y);
  b.output("y", y);
  std::vector<double> xv, wv;
  for (int64_t i = 0; i < count(xs); ++i) xv.push_back(static_cast<double>(i % 11) - 5);
  for (int64_t i = 0; i < count(ws); ++i) wv.push_back(static_cast<double>(i % 7) - 3);
  Tensor out = run1(std::move(b).build(), {reals(xs, xv), reals(ws, wv)});
  auto at = [&](int64_t n, int64_t ch, int64_t i, int64_t j) {
    if (i < 0 || j < 0 || i >= xs[2] || j >= xs[3]) return 0.0;
    return xv[static_cast<size_t>(((n * xs[1] + ch) * xs[2] + i) * xs[3] + j)];
  };
  int64_t k = 0;
  for (int64_t n = 0; n < ys[0]; ++n)
    for (int64_t f = 0; f < ys[1]; ++f)
      for (int64_t i = 0; i < ys[2]; ++i)
        for (int64_t j = 0; j < ys[3]; ++j, ++k) {
          double sum = 0;
          for (int64_t ch = 0; ch < 2; ++ch)
            for (int64_t r = 0; r < 3; ++r)
              for (int64_t s = 0; s < 2; ++s)
                sum += at(n, f / 3 * 2 + ch, i * 2 + r - 1, j + s * 2) *
                       wv[static_cast<size_t>(((f * 2 + ch) * 3 + r) * 2 + s)];
          EXPECT_EQ(out.real(k), sum) << k;
        }
}

TEST(Ops, ReshapeIndexIsExact) {
  for (auto [from, to] : {std::pair<Dims, Dims>{{2, 3}, {3, 2}},
                          {{4, 6}, {2, 2, 3, 2}},
                          {{2, 2, 3, 2}, {4, 6}},
                          {{6, 4}, {3, 8}},
                          {{1, 5}, {5}},
                          {{12}, {3, 4}}}) {
    auto index = reshape_index(from, to);
    Dims strides = row_major_strides(from);
    Dims point(to.size(), 0);
    for (int64_t flat = 0; flat < count(to); ++flat) {
      int64_t rest = flat;
      for (size_t d = to.size(); d-- > 0;) {
        point[d] = rest % to[d];
        rest /= to[d];
      }
      int64_t at = 0;
      for (size_t d = 0; d < from.size(); ++d)
        at += strides[d] * evaluate(index[d], point.data(), nullptr);
      EXPECT_EQ(at, flat) << shape_text(from) << shape_text(to);
    }
  }
}

TEST(Ops, ConcatAndSplitUndoEachOther) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::i64, {2, 5}));
  NodeId parts = b.op("split", {x}, Split{1, {2, 3}});
  NodeId y = b.op("concat", {b.get(parts, 0), b.get(parts, 1)}, Axis{-1});
  b.output("y", y);
  Tensor t = Tensor::of_ints({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}).reshaped({2, 5});
  EXPECT_EQ(run1(std::move(b).build(), {t}), t);
}

TEST(Ops, ReductionsInEveryArithmetic) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {2, 4}));
  b.output("y", b.op("reduce_mean", {x}, Attrs({{"axes", Dims{1}}, {"keepdims", false}})));
  b.output("m", b.op("reduce_max", {x}, Attrs({{"axes", Dims{0}}})));
  Graph g = std::move(b).build();
  auto out = evaluate(g, std::vector<Value>{reals({2, 4}, {1, 2, 3, 6, -1, -2, -3, 10})});
  EXPECT_EQ(out[0].tensor.reals(), (std::vector<double>{3, 1}));
  EXPECT_EQ(out[1].tensor.reals(), (std::vector<double>{1, 2, 3, 10}));
  EXPECT_EQ(out[1].tensor.shape(), (Dims{1, 4}));
}

TEST(Ops, LoweringAndRaisingAreInverse) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {2, 3}));
  NodeId relu = add_onnx_node(
      b,
      {.type = "LeakyRelu", .version = 17, .attributes = Attrs({{"alpha", 0.5}}), .present = {1}},
      Args(&x, 1));
  NodeId shape = b.ints({3, -1});
  NodeId args[] = {relu, shape};
  b.output("y", add_onnx_node(b, {.type = "Reshape", .version = 17, .present = {1, 1}}, args));
  Lowered low = lower_onnx(std::move(b).build());
  EXPECT_TRUE(low.deferred.empty());
  Tensor y = run1(low.graph, {reals({2, 3}, {-2, 1, -4, 3, 0, 5})});
  EXPECT_EQ(y.reals(), (std::vector<double>{-1, 1, -2, 3, 0, 5}));
  EXPECT_EQ(y.shape(), (Dims{3, 2}));
  Lowered again = lower_onnx(raise_onnx(low.graph, 17));
  EXPECT_EQ(again.graph, low.graph);
}

TEST(Ops, WhatIsKnownOnlyAtRunTimeIsDeferredAndStillRuns) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {6}));
  NodeId shape = b.input("shape", Type::tensor(DType::i64, {2}));
  NodeId args[] = {x, shape};
  b.output("y", add_onnx_node(b, {.type = "Reshape", .version = 17, .present = {1, 1}}, args));
  Graph onnx = std::move(b).build();
  Lowered low = lower_onnx(onnx);
  EXPECT_EQ(low.deferred.size(), 1u);
  auto out = evaluate(low.graph,
                      std::vector<Value>{reals({6}, {1, 2, 3, 4, 5, 6}), Tensor::of_ints({2, 3})});
  EXPECT_EQ(out[0].tensor.shape(), (Dims{2, 3}));
  Lowered pinned = lower_onnx(onnx, {.input_values = {{"shape", Tensor::of_ints({3, 2})}}});
  EXPECT_TRUE(pinned.deferred.empty());
  EXPECT_EQ(pinned.pinned.size(), 1u);
  EXPECT_EQ(pinned.graph.types[pinned.graph.outputs[0].node].shape, (Dims{3, 2}));
}

}  // namespace
}  // namespace emend
