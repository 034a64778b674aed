// The operator `patch`: its value is what it says, element by element; its form in standard
// operators, its terms and its compiled code give the same.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "equiv/agreement.h"
#include "equiv/compare.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"
#include "ops/patch.h"
#include "ops/table.h"
#include "support/compiled.h"
#include "text/text.h"

namespace emend {
namespace {

Tensor numbered(const Dims& shape, double from, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < count(shape); ++i) values.push_back(from + static_cast<double>(i));
  return Tensor::of_reals(dtype, shape, values);
}

struct Drawn {
  Dims base, fix, begin;
};
Drawn drawn(Rng& rng, int64_t least = 1) {
  Drawn d;
  for (int64_t k = rng.between(0, 4); k > 0; --k) {
    d.base.push_back(rng.between(1, 5));
    d.fix.push_back(rng.between(0, 2) ? rng.between(std::min(least, d.base.back()), d.base.back())
                                      : d.base.back());
    d.begin.push_back(rng.between(0, d.base.back() - d.fix.back()));
  }
  return d;
}

std::vector<double> expected(const Drawn& d, const Tensor& base, const Tensor& fix) {
  std::vector<double> out;
  const Dims strides = row_major_strides(d.fix);
  Dims at(d.base.size(), 0);
  for (int64_t i = 0; i < count(d.base); ++i) {
    int64_t flat = 0;
    bool inside = true;
    for (size_t k = 0; k < at.size(); ++k) {
      inside &= at[k] >= d.begin[k] && at[k] < d.begin[k] + d.fix[k];
      flat += (at[k] - d.begin[k]) * strides[k];
    }
    out.push_back(inside ? fix.real(flat) : base.real(i));
    for (size_t k = at.size(); k-- > 0 && ++at[k] == d.base[k];) at[k] = 0;
  }
  return out;
}

Graph patch_graph(const Drawn& d, DType dtype) {
  GraphBuilder b;
  NodeId base = b.input("base", Type::tensor(dtype, d.base));
  NodeId fix = b.input("fix", Type::tensor(dtype, d.fix));
  b.output("y", b.op("patch", {base, fix}, Patch{d.begin}));
  return std::move(b).build();
}

TEST(OpsPatch, MeansWhatItSaysInEveryForm) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(9, seed);
    const Drawn d = drawn(rng, 0);
    const DType dtype = seed % 5 ? DType::f32 : DType::i32;
    SCOPED_TRACE(str(shape_text(d.fix), " at ", shape_text(d.begin), " of ", shape_text(d.base)));
    Tensor base = numbered(d.base, 1, dtype), fix = numbered(d.fix, -1000, dtype);
    const std::vector<Value> inputs = {base, fix};
    Graph g = patch_graph(d, dtype);
    const Tensor y = evaluate(g, inputs)[0].tensor;
    EXPECT_EQ(y.reals(), expected(d, base, fix));
    const Node& n = g.nodes[g.outputs[0].node];
    Graph written = expansion(op_def(n), n.attrs, std::vector<Type>{base.type(), fix.type()});
    EXPECT_EQ(evaluate(written, inputs)[0].tensor, y);
    for (const Node& w : written.nodes)
      EXPECT_TRUE(w.op == kInputOp || op_def(w).name == "slice" || op_def(w).name == "concat");
    EXPECT_EQ(evaluate(lower_onnx(raise_onnx(g, 17)).graph, inputs)[0].tensor, y);
    EXPECT_EQ(print(parse_graph(print(g))), print(g));
  }
}

// Infinities stay where they are: nothing is multiplied by zero.
TEST(OpsPatch, WhatIsNotReadDoesNotCount) {
  Graph g = parse_graph("graph(x: f32[3], y: f32[1]) { return patch[begin=[1]](x, y) }");
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> base = {1, inf, 3}, fix = {2};
  std::vector<Value> inputs = {Tensor::of_reals(DType::f32, {3}, base),
                               Tensor::of_reals(DType::f32, {1}, fix)};
  EXPECT_EQ(evaluate(g, inputs)[0].tensor.reals(), (std::vector<double>{1, 2, 3}));
}

TEST(OpsPatch, RefusesBoxesThatAreNotInside) {
  auto error = [](Dims base, Dims fix, Dims begin, DType dtype = DType::f32) {
    GraphBuilder b;
    NodeId x[] = {b.input("x", Type::tensor(DType::f32, base)),
                  b.input("y", Type::tensor(dtype, fix))};
    auto made = b.try_op(op_named("patch"), x, to_attrs(Patch{begin}));
    return made ? std::string("none") : made.error();
  };
  EXPECT_EQ(error({2, 3}, {1, 3}, {1, 0}), "none");
  EXPECT_NE(error({2, 3}, {1, 3}, {2, 0}).find("leaves dimension 0 of [2,3]"), std::string::npos);
  EXPECT_NE(error({2, 3}, {1, 3}, {0, -1}).find("leaves dimension 1"), std::string::npos);
  EXPECT_NE(error({2, 3}, {3}, {0, 0}).find("is no part of f32[2,3]"), std::string::npos);
  EXPECT_NE(error({2, 3}, {1, 3}, {0}).find("at [0] is no part"), std::string::npos);
  EXPECT_NE(error({2, 3}, {1, 3}, {0, 0}, DType::f64).find("is no part"), std::string::npos);
}

// Patches over patches as terms: they are the concatenations that they stand for.
TEST(OpsPatch, HasTerms) {
  int equal = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(21, seed);
    GraphBuilder b, w;
    Dims shape = {rng.between(2, 5), rng.between(2, 5)};
    NodeId x = b.input("x", Type::tensor(DType::f32, shape));
    NodeId u = w.input("x", Type::tensor(DType::f32, shape));
    const OpDef& def = op_def(op_named("patch"));
    for (int64_t k = rng.between(1, 4); k > 0; --k) {
      Dims fix = {rng.between(1, shape[0]), rng.between(1, shape[1])}, begin;
      for (size_t d = 0; d < 2; ++d) begin.push_back(rng.between(0, shape[d] - fix[d]));
      Type t = Type::tensor(DType::f32, fix);
      x = b.op("patch", {x, b.input(str("f", k), t)}, Patch{begin});
      const NodeId args[] = {u, w.input(str("f", k), t)};
      u = splice(w, expansion(def, to_attrs(Patch{begin}), std::vector{w.type(u), t}), args)[0];
    }
    b.output("y", x);
    w.output("y", u);
    Graph patched = std::move(b).build(), joined = std::move(w).build();
    auto same = agreement(patched, joined);
    ASSERT_TRUE(same) << same.error();
    EXPECT_EQ(same->method, "terms");
    EXPECT_TRUE(same->everywhere()) << print(patched);
    equal += same->everywhere();
    // A box that is moved is noticed.
    NodeId last = patched.outputs[0].node;
    Patch a = patched.nodes[last].attrs.as<Patch>();
    for (size_t d = 0; d < 2; ++d) {
      if (a.begin[d] == 0) continue;
      --a.begin[d];
      patched.nodes[last].attrs = to_attrs(a);
      auto moved = agreement(patched, joined);
      ASSERT_TRUE(moved);
      EXPECT_FALSE(moved->everywhere());
      break;
    }
  }
  EXPECT_EQ(equal, 60);
}

TEST(OpsPatch, RunsCompiled) {
  Graph g =
      parse_graph(R"(graph(x: f32[2,8,14,14], w: f32[8,8,3,3], e: f32[2,8,14,2], f: f32[1,3,4,5]) {
    %0 = conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1]](x, w)
    %1 = patch[begin=[0,0,0,5]](%0, exp(e))
    %2 = patch[begin=[1,2,10,0]](%1, f)
    return relu(%2), tanh(patch[begin=[1,5,0,9]](x, f))
  })");
  expect_all_compiled_right(g, 1e-5);
}

}  // namespace
}  // namespace emend
