// Weights as kernels read them: strided copies against the reference, and what stays in memory.
#include "run/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/mapped_file.h"
#include "base/rng.h"
#include "codegen/repacking.h"
#include "ops/build.h"
#include "ops/evaluate.h"
#include "pipeline/compile.h"
#include "run/repack.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

Tensor counted(DType dtype, const Dims& shape) {
  return Tensor::make(dtype, shape, [&](std::byte* out) {
    for (int64_t i = 0; i < count(shape); ++i)
      store_int(dtype, out, static_cast<size_t>(i), i % 120 + 1);
  });
}

Tensor repacked(const Repacking& r, const Type& type, const Tensor& from) {
  return Tensor::make(type.dtype, type.shape, [&](std::byte* out) { repack(from, r, out); });
}

// Some axes split, all permuted, padded, some split again: what panels are made of.
Graph random_packing(Rng& rng, DType dtype) {
  GraphBuilder b;
  Dims shape;
  for (int64_t k = rng.between(1, 3); k > 0; --k) shape.push_back(rng.between(1, 40));
  NodeId x = b.input("x", Type::tensor(dtype, shape));
  auto op = [&](const char* name, Attrs attrs) {
    x = b.op(name, {x}, std::move(attrs));
    shape = b.type(x).shape;
  };
  for (int64_t steps = rng.between(1, 4); steps > 0; --steps) {
    auto k = static_cast<size_t>(rng.between(0, static_cast<int64_t>(shape.size()) - 1));
    Dims perm(shape.size()), pads(2 * shape.size()), split = shape;
    switch (rng.between(0, 2)) {
      case 0:
        for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
        std::swap(perm[k], perm[static_cast<size_t>(rng.between(0, static_cast<int64_t>(k)))]);
        op("transpose", Attrs({{"perm", perm}}));
        break;
      case 1:
        pads[k] = rng.between(0, 2);
        pads[shape.size() + k] = rng.between(0, 9);
        op("pad", Attrs({{"pads", pads}}));
        break;
      default:
        for (int64_t by : {16, 4, 3, 2}) {
          if (split[k] % by != 0) continue;
          split[k] /= by;
          split.insert(split.begin() + static_cast<int64_t>(k) + 1, by);
          break;
        }
        op("reshape", Attrs({{"shape", split}}));
    }
  }
  b.output("y", x);
  return std::move(b).build();
}

TEST(Weights, RepackingIsWhatTheReferenceDoes) {
  Rng rng(11);
  int strided = 0, all = 0;
  for (DType dtype : {DType::f32, DType::f16, DType::u8, DType::f64}) {
    for (int round = 0; round < 300; ++round, ++all) {
      Graph packing = random_packing(rng, dtype);
      auto r = repacking_of(packing);
      if (!r) continue;  // digits that no stride expresses
      ++strided;
      Value in = counted(dtype, packing.type(packing.inputs[0].node).shape);
      EXPECT_EQ(repacked(*r, packing.type(packing.outputs[0].node), in.tensor),
                evaluate(packing, std::span(&in, 1))[0].tensor)
          << print(packing);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(strided, all * 9 / 10);
}

// Large enough for tiles, several threads and a ragged end.
TEST(Weights, PanelsOfALargeMatrix) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {1000, 700}));
  x = b.op("pad", {x}, Attrs({{"pads", Dims{0, 0, 24, 0}}}));
  x = b.op("reshape", {x}, Attrs({{"shape", Dims{32, 32, 700}}}));
  b.output("y", b.op("transpose", {x}, Attrs({{"perm", Dims{0, 2, 1}}})));
  Graph packing = std::move(b).build();
  Value in = counted(DType::f32, {1000, 700});
  auto r = repacking_of(packing);
  ASSERT_TRUE(r);
  EXPECT_EQ(repacked(*r, packing.type(packing.outputs[0].node), in.tensor),
            evaluate(packing, std::span(&in, 1))[0].tensor);
}

TEST(Weights, WhatIsMoreThanMovingIsNoRepacking) {
  EXPECT_FALSE(repacking_of(parse_graph("graph(x: f32[4,4]) { return relu(x) }")));
  EXPECT_FALSE(repacking_of(parse_graph("graph(x: f32[4,4]) { return add(x, x) }")));
}

// A program of one weight, as it is.
Program holding(Tensor t) {
  Program p;
  p.buffers.push_back(
      {.place = Buffer::Place::weight, .type = t.type(), .bytes = t.bytes().size()});
  p.weights.push_back({std::move(t), std::nullopt});
  return p;
}

TEST(Weights, UsedAsStoredStayInTheMappedFile) {
  Scratch scratch;
  auto path = scratch.folder() / "weights";
  {
    std::vector<float> values(5000, 1.5f);
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(values.data()), 20000);
  }
  SharedBytes file = map_file(path).value_or_throw();
  auto view = [&](size_t offset, int64_t n) {
    return Tensor(DType::f32, {n}, file.owner(),
                  file.view().subspan(offset, static_cast<size_t>(n) * 4));
  };
  Program whole = holding(view(0, 5000));
  EXPECT_EQ(stored_weights(whole, whole.weights)[0].data(), file.data());
  // Dropped pages are read again.
  view(0, 5000).drop_pages();
  EXPECT_EQ(view(0, 5000).real(4999), 1.5);
  // Compiled loads count on whole elements: what lies across them is copied.
  Program across = holding(view(2, 100));
  Tensor expected = view(2, 100);
  Tensor moved = stored_weights(across, across.weights)[0];
  EXPECT_NE(moved.data(), expected.data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(moved.data()) % 4, 0u);
  EXPECT_EQ(moved, expected);
}

double stored_bytes(const Graph& g, double factor) {
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  options.memory = factor;
  return static_cast<double>(compile(g, options).weight_bytes());
}

// Panels of five columns are mostly padding.
TEST(Weights, AsStoredTheyStayWithinTheFactor) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {50, 90, 200}));
  NodeId w = b.constant(counted(DType::f32, {50, 200, 5}));
  b.output("y", b.op("matmul", {x, w}));
  Graph g = std::move(b).build();
  constexpr double kHeld = 50 * 200 * 5 * 4;
  EXPECT_GT(stored_bytes(g, 1e6), 1.1 * kHeld);  // if memory is no matter
  EXPECT_EQ(stored_bytes(g, 1), kHeld);
  for (double factor : {1.05, 1.1, 4.0}) EXPECT_LE(stored_bytes(g, factor), factor * kHeld);
}

// Memory that is no file's keeps what is in it.
TEST(Weights, DroppingPagesOfOwnMemoryChangesNothing) {
  Tensor t = counted(DType::f32, {100000});
  Tensor same = counted(DType::f32, {100000});
  t.drop_pages();
  EXPECT_EQ(t, same);
}

}  // namespace
}  // namespace emend
