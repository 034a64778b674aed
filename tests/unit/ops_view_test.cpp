// The operator `view`: its value is what the map says, element by element; its form in standard
// operators and its compiled code give the same; and other movements are views.
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "equiv/compare.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"
#include "ops/table.h"
#include "ops/view.h"
#include "ops/view_compose.h"
#include "rules/draw_map.h"
#include "support/compiled.h"
#include "text/text.h"

namespace emend {
namespace {

// 1, 2, 3, ..: every element tells where it came from, and zero is none of them.
Tensor numbered(const Dims& shape, DType dtype = DType::f32) {
  std::vector<double> values;
  for (int64_t i = 0; i < count(shape); ++i) values.push_back(static_cast<double>(i + 1));
  return Tensor::of_reals(dtype, shape, values);
}

std::vector<double> expected(const View& v, const Tensor& x) {
  std::vector<double> out;
  const Dims strides = row_major_strides(x.shape());
  Dims at(v.out.size(), 0);
  for (int64_t n = count(shape_of(v)); n > 0; --n) {
    int64_t flat = 0;
    bool inside = true;
    const Dims p = place(v, at);
    for (size_t d = 0; d < p.size(); ++d) {
      inside &= p[d] >= 0 && p[d] < x.shape()[d];
      flat += p[d] * strides[d];
    }
    out.push_back(inside ? x.real(flat) : 0);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == v.out[d].extent;) at[d] = 0;
  }
  return out;
}

Graph view_graph(const View& v, const Type& x) {
  GraphBuilder b;
  b.output("y", b.op("view", {b.input("x", x)}, ViewMap{to_text(v)}));
  return std::move(b).build();
}

Tensor run(const Graph& g, const Tensor& x) {
  std::vector<Value> inputs = {x};
  return evaluate(g, inputs)[0].tensor;
}

// Any map, most of them senseless: digits shared by two indices, negative strides, far outside.
View random_view(Rng& rng, size_t rank) {
  View v;
  int digits = 0;
  for (int64_t d = rng.between(0, 3); d > 0; --d) {
    View::Dim dim{.extent = 1, .radices = {}};
    for (int64_t k = rng.between(1, 2); k > 0; --k, ++digits)
      dim.radices.push_back(rng.between(1, 3));
    dim.extent = rng.between(0, 1) ? count(dim.radices) : rng.between(1, count(dim.radices));
    v.out.push_back(dim);
  }
  for (size_t d = 0; d < rank; ++d) {
    Linear e{.constant = rng.between(-1, 1), .terms = {}};
    for (int k = 0; k < digits; ++k)
      if (int64_t coef = rng.between(-1, 3); coef != 0 && rng.between(0, 2) == 0)
        e.terms.emplace_back(k, coef);
    v.index.push_back(e);
  }
  return v;
}

// A map as mutants have them.
View layout_view(Rng& rng, const Dims& shape) {
  const size_t axis = static_cast<size_t>(rng.between(1, 3)) % shape.size();
  const size_t other = (axis + static_cast<size_t>(rng.between(1, 2))) % shape.size();
  const int64_t k = rng.between(1, 3), n = shape[axis];
  const bool slow = rng.between(0, 1) == 0;
  if (rng.between(0, 1) == 0 || shape[other] % k != 0) {
    if (rng.between(0, 1) == 0)
      return split_view(shape, {.axis = axis,
                                .into = other,
                                .count = k,
                                .step = 1,
                                .stride = k,
                                .size = n / k + 1,
                                .slow = slow});
    return split_view(shape, {.axis = axis,
                              .into = other,
                              .count = k,
                              .step = 2,
                              .stride = 1,
                              .size = 4,
                              .offset = -1,
                              .slow = slow});
  }
  const int64_t period = rng.between(0, 1) ? n + rng.between(0, 2) : 0;
  const int64_t whole = k * (period ? period : n);
  return join_view(shape, {.axis = axis,
                           .from = other,
                           .count = k,
                           .period = period,
                           .size = rng.between(std::max<int64_t>(1, whole - 2), whole),
                           .slow = slow});
}

TEST(OpsView, MeansWhatTheMapSaysInEveryForm) {
  std::map<std::string, int> used;  // operators of the written form
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Rng rng(3, seed);
    Dims shape;
    for (int64_t d = seed % 2 ? 3 : rng.between(0, 3); d > 0; --d)
      shape.push_back(rng.between(1, 6));
    View v = seed % 2 ? layout_view(rng, shape) : random_view(rng, shape.size());
    SCOPED_TRACE(to_text(v) + " of " + shape_text(shape));
    Tensor x = numbered(shape, seed % 5 ? DType::f32 : DType::i32);
    Graph g = view_graph(v, x.type());
    Tensor y = run(g, x);
    ASSERT_EQ(y.shape(), shape_of(v));
    EXPECT_EQ(y.reals(), expected(v, x));
    const Node& n = g.nodes[g.outputs[0].node];
    Graph written = expansion(op_def(n), n.attrs, std::vector<Type>{x.type()});
    EXPECT_EQ(run(written, x), y);
    for (const Node& w : written.nodes) ++used[op_def(w).name];
    Graph back = lower_onnx(raise_onnx(g, 17)).graph;
    EXPECT_EQ(run(back, x), y);
    EXPECT_EQ(print(parse_graph(print(g))), print(g));
  }
  for (const char* op : {"pad", "slice", "reshape", "transpose", "gather", "broadcast"})
    EXPECT_GT(used[op], 10) << op;
}

// The changes of layout that mutants need cost few operators, none of them by data.
TEST(OpsView, IsWrittenInFewOperators) {
  const auto operators = [](const char* map, Dims shape) {
    const OpDef& def = op_def(op_named("view"));
    Graph g =
        expansion(def, to_attrs(ViewMap{map}), std::vector<Type>{Type::tensor(DType::f32, shape)});
    std::string names;
    for (const Node& n : g.nodes)
      if (n.op != kInputOp && n.op != kConstantOp)
        names += (names.empty() ? "" : " ") + op_def(n).name;
    return names;
  };
  EXPECT_EQ(operators("[1, 4, 6, 6] <- [0, b, c, d]", {1, 4, 6, 6}), "");
  EXPECT_EQ(operators("[6, 4] <- [b, a]", {4, 6}), "transpose");
  EXPECT_EQ(operators("[2*3, 4] <- [a, b, c]", {2, 3, 4}), "reshape");
  EXPECT_EQ(operators("[3] <- [2a+1]", {7}), "slice");
  EXPECT_EQ(operators("[3] <- [-2a+5]", {7}), "slice");
  EXPECT_EQ(operators("[9] <- [a-1]", {7}), "pad");
  EXPECT_EQ(operators("[7, 3] <- [a]", {7}), "reshape broadcast");
  // The four phases of an image as a mosaic with a gap, and the way back.
  EXPECT_EQ(operators("[1, 8, 2*15, 2*15] <- [0, b, c+2d, e+2f]", {1, 8, 28, 28}),
            "pad reshape transpose reshape");
  EXPECT_EQ(operators("[1, 8, 14*2, 14*2] <- [0, b, c+15d, e+15f]", {1, 8, 30, 30}),
            "reshape slice transpose reshape");
  // Tiles with a halo overlap.
  EXPECT_EQ(operators("[4*1, 8, 12] <- [0, c, 10a+d-1]", {1, 8, 38}),
            "pad reshape gather transpose");
}

TEST(OpsView, RefusesMapsThatAreNone) {
  auto error = [](const char* map) {
    GraphBuilder b;
    NodeId x[] = {b.input("x", Type::tensor(DType::f32, {2, 3}))};
    auto made = b.try_op(op_named("view"), x, to_attrs(ViewMap{map}));
    return made ? std::string("none") : made.error();
  };
  EXPECT_NE(error("[2] <- [a]").find("has 1 indices for x[2,3]"), std::string::npos);
  EXPECT_NE(error("").find("expected '['"), std::string::npos);
  EXPECT_NE(error("[99999999, 99999999] <- [a, b]").find("elements"), std::string::npos);
  EXPECT_EQ(error("[2] <- [a, 0]"), "none");
}

TEST(OpsView, AnyLayoutRunsCompiled) {
  GraphBuilder b;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng(5, seed);
    Dims shape = {rng.between(1, 3), rng.between(2, 6), rng.between(8, 30)};
    NodeId x = b.input(str("x", seed), Type::tensor(DType::f32, shape));
    x = b.op("view", {x}, ViewMap{to_text(layout_view(rng, shape))});
    if (rng.between(0, 1))
      x = b.op("view", {b.op("tanh", {x})}, ViewMap{to_text(layout_view(rng, b.shape(x)))});
    b.output(str("y", seed), x);
  }
  expect_all_compiled_right(std::move(b).build());
}

TEST(OpsView, RunsCompiled) {
  Graph g = parse_graph(R"(graph(x: f32[1,8,28,28], y: f32[2,3,13], w: f32[8,8,3,3]) {
    %0 = view[map="[1, 8, 2*15, 2*15] <- [0, b, c+2d, e+2f]"](x)
    %1 = relu(conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1]](%0, w))
    %2 = view[map="[1, 8, 14*2, 14*2] <- [0, b, c+15d, e+15f]"](%1)
    %3 = exp(view[map="[2, 3, 3*5:13] <- [a, b, 4c+d-1]"](y))
    %4 = view[map="[3*3*2:17, 3] <- [c, d, 5a+2b]"](y)
    %5 = view[map="[6] <- [0, 1, -a+9]"](y)
    return %2, %3, %4, %5
  })");
  expect_all_compiled_right(g);
}

// Two views as one, and a mask: what each position reads is what both read, one after the other.
bool compose_agrees(const View& outer, const View& inner, const Dims& shape) {
  auto both = composed(outer, inner, shape);
  if (!both) return false;
  Tensor x = numbered(shape);
  Tensor between = Tensor::of_reals(DType::f32, shape_of(inner), expected(inner, x));
  GraphBuilder b;
  NodeId y = b.op("view", {b.input("x", x.type())}, ViewMap{to_text(both->view)});
  if (both->mask) y = b.op("where", {b.constant(*both->mask), y, b.scalar(0, DType::f32)});
  b.output("y", y);
  EXPECT_EQ(run(std::move(b).build(), x).reals(), expected(outer, between))
      << to_text(outer) << " of " << to_text(inner) << " of " << shape_text(shape);
  return true;
}

TEST(OpsView, AnyTwoThatComposeDoSoRightly) {
  int made = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(17, seed);
    Dims shape;
    for (int64_t d = rng.between(1, 3); d > 0; --d) shape.push_back(rng.between(1, 7));
    View inner = some_view(shape, rng);
    made += compose_agrees(some_view(shape_of(inner), rng), inner, shape);
  }
  EXPECT_GT(made, 1500);
}

// Into a layout and back, and back into it: for every extent, gap and number of parts.
TEST(OpsView, WaysIntoALayoutAndBackCompose) {
  for (int64_t n : {5, 6, 7, 12, 13}) {
    for (int64_t d : {2, 3, 4}) {
      for (int64_t gap : {0, 1, 3}) {
        const int64_t phase = (n + d - 1) / d, period = phase + gap;
        View fold =
            parse_view(str("[2, ", d, "*", period, "] <- [a, b+", d, "c]")).value_or_throw();
        View back = parse_view(str("[2, ", phase, "*", d, ":", n, "] <- [a, b+", period, "c]"))
                        .value_or_throw();
        SCOPED_TRACE(to_text(fold) + " and " + to_text(back));
        EXPECT_TRUE(compose_agrees(back, fold, {2, n}));
        EXPECT_TRUE(is_identity(composed(back, fold, {2, n})->view, {2, n}));
        EXPECT_TRUE(compose_agrees(fold, back, {2, d * period}));
        auto again = composed(fold, back, {2, d * period});
        ASSERT_TRUE(again);
        EXPECT_TRUE(is_identity(again->view, {2, d * period})) << to_text(again->view);
        EXPECT_EQ(again->mask.has_value(), d * period > n);
      }
    }
  }
}

TEST(OpsView, OtherMovementsAreViews) {
  const std::pair<const char*, const char*> movements[] = {
      {"transpose[perm=[2,0,1]](x)", "[4, 2, 6] <- [b, c, a]"},
      {"slice[starts=[1,5,0], sizes=[1,3,2], steps=[1,-2,3]](x)", "[1, 3, 2] <- [1, -2b+5, 3c]"},
      {"pad[pads=[0,1,0,0,2,-1]](x)", "[2, 9, 3] <- [a, b-1, c]"},
      {"reshape[shape=[12,4]](x)", "[2*6, 4] <- [a, b, c]"},
      {"reshape[shape=[2,3,8]](x)", "[2, 3, 2*4] <- [a, 2b+c, d]"},
      {"reshape[shape=[2,3,2,2,2]](x)", "[2, 3, 2, 2, 2] <- [a, 2b+c, 2d+e]"},
      {"reshape[shape=[4,12]](x)", "[2*2, 3*4] <- [a, 3b+c, d]"},
      {"reshape[shape=[1,48,1]](x)", "[1, 2*6*4, 1] <- [b, c, d]"},
      {"broadcast[shape=[3,2,6,4]](x)", "[3, 2, 6, 4] <- [b, c, d]"},
      {"tile[repeats=[1,2,1]](x)", "[2, 2*6, 4] <- [a, c, d]"},
      {"view[map=\"[2*4:7, 1] <- [a, b-1, 2]\"](x)", "[2*4:7, 1] <- [a, b-1, 2]"},
      {"pad[pads=[0,1,0,0,2,0], value=1.0](x)", ""},
      {"reshape[shape=[16,3]](x)", ""},
      {"triangle(x)", ""},
  };
  Tensor x = numbered({2, 6, 4});
  for (auto [text, map] : movements) {
    Graph g = parse_graph(str("graph(x: f32[2,6,4]) { return ", text, " }"));
    const Node& n = g.nodes[g.outputs[0].node];
    Type types[] = {x.type()};
    auto v = as_view(meaning_of(op_def(n), n.attrs, types), g.types[g.outputs[0].node].shape);
    EXPECT_EQ(v ? to_text(*v) : "", map) << text;
    EXPECT_EQ(v ? expected(*v, x) : run(g, x).reals(), run(g, x).reals()) << text;
  }
}

// Runs that lie wholly before or behind the operand are zeros, and no more than they are long.
TEST(View, WhollyOutside) {
  for (const char* text : {
           "graph(x: f32[100]) { return pad[pads=[4000,-4000]](x) }",
           "graph(x: f32[100]) { return pad[pads=[-4000,4000]](x) }",
           "graph(x: f32[2]) { return view[map=\"[16] <- [a-40]\"](x) }",
           "graph(x: f32[3,4]) { return view[map=\"[3, 4] <- [a, b-9]\"](x) }",
           "graph(x: f32[3,4]) { return view[map=\"[3, 40] <- [a, b+90]\"](x) }",
       }) {
    Graph g = parse_graph(text);
    Tensor x = Tensor::make(DType::f32, g.type(g.inputs[0].node).shape, [&](std::byte* data) {
      for (int64_t i = 0; i < count(g.type(g.inputs[0].node).shape); ++i)
        store_real(DType::f32, data, static_cast<size_t>(i), 7);
    });
    std::vector<Value> inputs = {x};
    Tensor y = evaluate(g, inputs)[0].tensor;
    for (int64_t i = 0; i < y.count(); ++i) EXPECT_EQ(y.real(i), 0) << text << " at " << i;
  }
}

}  // namespace
}  // namespace emend
