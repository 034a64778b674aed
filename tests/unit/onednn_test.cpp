// What is particular to calling a library; that its kernels compute what groups mean is among the
// property tests.
#include "run/onednn.h"

#include <gtest/gtest.h>

#include "ops/build.h"
#include "ops/evaluate.h"
#include "pipeline/compile.h"

namespace emend {
namespace {

Tensor counted(Dims shape) {
  std::vector<double> values(static_cast<size_t>(count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 13) - 6;
  return Tensor::of_reals(DType::f32, std::move(shape), values);
}

void expect_like_the_reference(const Graph& g, std::vector<Value> inputs) {
  Tensor wanted = evaluate(g, inputs)[0].tensor, got = compile(g).run(inputs)[0].tensor;
  ASSERT_EQ(wanted.type(), got.type());
  for (int64_t i = 0; i < wanted.count(); ++i) ASSERT_NEAR(wanted.real(i), got.real(i), 1e-2) << i;
}

// The library stores weights its own way: who needs them as they are must still find them.
TEST(Onednn, WeightsMayBeOperandsToo) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {64, 64}));
  NodeId w = b.constant(counted({64, 64}));
  b.output("y", b.op("add", {b.op("matmul", {x, w}), w}));
  expect_like_the_reference(std::move(b).build(), {counted({64, 64})});
}

TEST(Onednn, WeightsMayBeBothFactors) {
  GraphBuilder b;
  NodeId w = b.constant(counted({64, 64}));
  b.output("y", b.op("matmul", {w, w}));
  expect_like_the_reference(std::move(b).build(), {});
}

Graph convolution(const Dims& x, const Dims& w, Dims pads, int64_t group = 1) {
  GraphBuilder b;
  NodeId in = b.input("x", Type::tensor(DType::f32, x));
  NodeId weights = b.constant(counted(w));
  Attrs attrs({{"strides", Dims{1, 1}},
               {"dilations", Dims{1, 1}},
               {"pads", std::move(pads)},
               {"group", group}});
  b.output("y", b.op("relu", {b.op("conv", {in, weights}, attrs)}));
  return std::move(b).build();
}

// Every image is cut into rows by itself; the last part has more or fewer of them.
TEST(Onednn, ImagesAreTakenOneByOne) {
  expect_like_the_reference(convolution({3, 16, 7, 5}, {32, 16, 3, 3}, {1, 1, 1, 1}),
                            {counted({3, 16, 7, 5})});
  expect_like_the_reference(convolution({2, 32, 5, 9}, {32, 1, 3, 3}, {1, 1, 1, 1}, 32),
                            {counted({2, 32, 5, 9})});
}

TEST(Onednn, InputsWithoutElementsAreNotItsBusiness) {
  expect_like_the_reference(convolution({1, 16, 0, 8}, {16, 16, 3, 3}, {2, 1, 2, 1}),
                            {Tensor::zeros(DType::f32, {1, 16, 0, 8})});
}

TEST(Onednn, WhatItHasOnlyByReferenceIsNotTaken) {
  if (!onednn_state().loaded) GTEST_SKIP() << onednn_state().text;
  LibraryCall call{.what = LibraryCall::What::convolution, .pack = true};
  call.in = {0, 0, {1, 16, 8, 8}, {1024, 1, 128, 16}};
  call.weights = {1, 0, {16, 16, 3, 3}, {144, 9, 3, 1}};
  call.out = {2, 0, {1, 16, 8, 8}, {1024, 1, 128, 16}};
  call.strides = call.dilations = {1, 1};
  call.pads = {1, 1, 1, 1};
  EXPECT_TRUE(onednn_takes(call));
  call.out.strides = {1024, 64, 8, 1};  // from channels last to channels first
  EXPECT_FALSE(onednn_takes(call));
}

}  // namespace
}  // namespace emend
