// Loop nests and the kernels printed from them, against the reference.
#include <gtest/gtest.h>

#include "kernels/group.h"
#include "kernels/nest.h"
#include "kernels/nest_eval.h"
#include "kernels/nest_part.h"
#include "ops/build.h"
#include "ops/evaluate.h"
#include "pipeline/compile.h"

namespace emend {
namespace {

Type f32(Dims shape) {
  return Type::tensor(DType::f32, std::move(shape));
}

TEST(IndexMath, DigitsThatCannotCarryDisappear) {
  IndexMath m;
  int i = m.iterator(8), j = m.iterator(64);
  Linear flat = term(i, 64) + term(j);
  EXPECT_EQ(m.quotient(flat, 64), term(i));
  EXPECT_EQ(m.remainder(flat, 64), term(j));
  EXPECT_EQ(m.quotient(flat, 16), m.sum(term(i, 4), m.quotient(term(j), 16)));
}

TEST(IndexMath, DigitsOfOneNumberAreThatNumber) {
  IndexMath m;
  Linear x = term(m.iterator(1000));
  Linear high = m.quotient(x, 100), middle = m.remainder(m.quotient(x, 10), 10),
         low = m.remainder(x, 10);
  EXPECT_EQ(m.sum(m.sum(high * 100, middle * 10), low), x);
  EXPECT_EQ(m.sum(middle * 10, low), m.remainder(x, 100));
}

TEST(Nest, ViewsBecomeStrides) {
  GraphBuilder b;
  NodeId x = b.input("x", f32({2, 12, 3, 4}));
  NodeId t = b.op("transpose", {x}, Attrs({{"perm", Dims{0, 2, 1, 3}}}));
  NodeId r = b.op("reshape", {t}, Attrs({{"shape", Dims{6, 48}}}));
  b.output("y", b.op("relu", {r}));
  Nest nest = nest_of(std::move(b).build()).value_or_throw();
  EXPECT_EQ(to_text(nest),
            "space i0<2 i1<3 i2<12 i3<4\n"
            "v0: f32 = load 0[144 * i0 + 4 * i1 + 12 * i2 + i3]\n"
            "v1: f32 = max(x, 0) of v0\n"
            "store 0[144 * i0 + 48 * i1 + 4 * i2 + i3] = v1\n");
}

TEST(Nest, ASoftmaxSharesItsRow) {
  GraphBuilder b;
  NodeId x = b.input("x", f32({8, 64}));
  NodeId m = b.op("reduce_max", {x}, Attrs({{"axes", Dims{1}}}));
  NodeId e = b.op("exp", {b.op("sub", {x, m})});
  b.output("y", b.op("div", {e, b.op("reduce_sum", {e}, Attrs({{"axes", Dims{1}}}))}));
  Nest nest = nest_of(std::move(b).build()).value_or_throw();
  EXPECT_EQ(nest.space.size(), 2u);
  size_t loads = 0;
  for (const NestValue& v : nest.values) loads += v.kind == NestValue::Kind::load;
  EXPECT_EQ(loads, 1u) << to_text(nest);
}

// The axes of a leaf reduction are iterators of the space, joined where they are neighbours.
TEST(Nest, ALeafReductionRunsOverTheSpace) {
  GraphBuilder b;
  NodeId y = b.op("relu", {b.input("x", f32({2, 3, 4, 5}))});
  b.output("y", y);
  b.output("s", b.op("reduce_sum", {y}, Attrs({{"axes", Dims{0, 2, 3}}})));
  Nest nest = nest_of(std::move(b).build()).value_or_throw();
  EXPECT_EQ(to_text(nest),
            "space i0<2 i1<3 i2<20\n"
            "v0: f32 = load 0[60 * i0 + 20 * i1 + i2]\n"
            "v1: f32 = max(x, 0) of v0\n"
            "v2: f32 = sum of v1 over i0<2 i2<20\n"
            "store 0[60 * i0 + 20 * i1 + i2] = v1\n"
            "store 1[i1] = v2\n");
  EXPECT_EQ(left_out(nest), (std::vector<int>{nest.space[0], nest.space[2]}));
  EXPECT_EQ(leaf_reductions(nest), std::vector<int>{2});
}

// Where a concatenation reads one operand only, nothing is left to choose.
TEST(Nest, PartsOfAConcatenationAreItsOperands) {
  GraphBuilder b;
  NodeId x = b.input("x", f32({3, 5})), y = b.input("y", f32({3, 2})),
         z = b.input("z", f32({3, 4}));
  b.output("c", b.op("concat", {x, y, z}, Attrs({{"axis", int64_t{1}}})));
  Nest nest = nest_of(std::move(b).build()).value_or_throw();
  int lane = nest.space.back();
  EXPECT_EQ(changes_along(nest, lane), (std::vector<int64_t>{5, 7})) << to_text(nest);
  auto operand = [&](int64_t from, int64_t to) {
    Nest part = part_of(nest, lane, from, to);
    const NestValue& stored = part.values[static_cast<size_t>(part.stores[0].value)];
    EXPECT_TRUE(is_argument(stored.body, 0)) << to_text(part);
    return part.values[static_cast<size_t>(stored.args[0])].buffer;
  };
  EXPECT_EQ(operand(0, 5), 0);
  EXPECT_EQ(operand(5, 7), 1);
  EXPECT_EQ(operand(7, 11), 2);
}

// Points are what the reference stores, also of numbers that the type does not hold.
TEST(Nest, PointsOfIntegersWrapAsTheReferenceDoes) {
  for (DType to : {DType::i8, DType::u8, DType::i32, DType::i64, DType::boolean}) {
    GraphBuilder b;
    b.output("y", b.op("cast", {b.input("x", f32({6}))}, Attrs({{"to", to}})));
    Graph g = std::move(b).build();
    Tensor x =
        Tensor::of_reals(DType::f32, {6}, std::vector<double>{300, -1.5, 1e30, 0.25, -7e9, 200});
    Tensor wanted = evaluate(g, std::vector<Value>{x})[0].tensor;
    Nest nest = nest_of(g).value_or_throw();
    const std::byte* loads[] = {x.data()};
    NestPoints points(nest, loads);
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(points.stored(nest.stores[0], Dims{i}), wanted.real(i)) << to_text(to) << " " << i;
    }
  }
}

// A pad of a computed value reads beyond the borders only where the result is dropped: no fault.
TEST(Nest, APadOfAComputedValueIsAMask) {
  GraphBuilder b;
  NodeId x = b.input("x", f32({3, 5}));
  NodeId p = b.op("pad", {b.op("exp", {x})}, Attrs({{"pads", Dims{1, 2, 0, 1}}}));
  b.output("y", p);
  Nest nest = nest_of(std::move(b).build()).value_or_throw();
  for (const NestValue& v : nest.values) EXPECT_FALSE(v.faults) << to_text(nest);
}

// Two groups whose text is the same and whose outermost extents are not.
TEST(Kernels, EqualTextWithMoreTasksIsAnotherKernel) {
  GraphBuilder b;
  NodeId x = b.input("x", f32({2, 8})), y = b.input("y", f32({50, 8}));
  auto rows = [&](NodeId n) { return b.op("reduce_sum", {n}, Attrs({{"axes", Dims{1}}})); };
  b.output("p", rows(x));
  b.output("q", rows(y));
  Graph g = std::move(b).build();
  std::vector<double> few(16, 1), many(400, 1);
  std::vector<Value> in{Tensor::of_reals(DType::f32, {2, 8}, few),
                        Tensor::of_reals(DType::f32, {50, 8}, many)};
  std::vector<Value> out = compile(g).run(in);
  EXPECT_EQ(out[0].tensor.reals(), std::vector<double>(2, 8.0));
  EXPECT_EQ(out[1].tensor.reals(), std::vector<double>(50, 8.0));
}

}  // namespace
}  // namespace emend
