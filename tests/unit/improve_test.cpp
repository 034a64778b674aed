#include "pipeline/improve.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/build.h"
#include "ops/table.h"
#include "text/text.h"

namespace emend {
namespace {

Type f32(Dims shape) {
  return Type::tensor(DType::f32, std::move(shape));
}

Tensor filled(Dims shape, float from) {
  return Tensor::make(DType::f32, shape, [&](std::byte* out) {
    for (int64_t i = 0; i < count(shape); ++i)
      store_real(DType::f32, out, static_cast<size_t>(i), from + static_cast<float>(i % 17));
  });
}

// So many products of one operand with weights [512, 64].
Graph products(int n) {
  GraphBuilder b;
  NodeId x = b.input("x", f32({4, 512}));
  for (int i = 0; i < n; ++i) {
    NodeId w = b.constant(filled({512, 64}, static_cast<float>(i)));
    b.output(str("y", i), b.op("tanh", {b.op("matmul", {x, w})}));
  }
  return std::move(b).build();
}

bool is_product(OpId op) {
  return op_def(op).kind == Kind::contraction;
}
int64_t widest_product(const Graph& g) {
  int64_t widest = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    if (is_product(g.nodes[NodeId(i)].op))
      widest = std::max(widest, g.types[NodeId(i)].shape.back());
  }
  return widest;
}

// Products alone have a price: by themselves so much as `alone` says of their width, in a program
// as `together` says of the widest.
SearchPrices by_width(std::function<double(int64_t)> alone, std::function<double(int64_t)> together,
                      int* asked = nullptr) {
  auto price = [alone](const PricedNode& n) {
    return is_product(n.op) ? alone(n.result.shape.back()) : 1e-9;
  };
  return {.quick = [price](const PricedNode& n) -> NodePrice { return {price(n)}; },
          .exact = price,
          .programs =
              [together, asked](std::span<const Graph> programs, const Monitor&) {
                if (asked) ++*asked;
                std::vector<double> seconds;
                for (const Graph& g : programs) seconds.push_back(together(widest_product(g)));
                return seconds;
              }};
}

TEST(Improve, WhatProgramsTakeCorrectsWhatNodesAreThoughtToTake) {
  auto alone = [](int64_t width) { return width == 192 ? 2e-3 : 3e-3; };
  // All three as one is thought to be best, and is worst; two of them as one are the best.
  auto together = [](int64_t width) { return width == 192 ? 2.0 : width == 128 ? 0.5 : 1.0; };
  ImproveOptions options{
      .prices = by_width(alone, together), .kept = 1, .combined = 0, .corrections = 0};
  Graph g = products(3);
  ImproveReport report;
  EXPECT_EQ(widest_product(improve(g, options, &report)), 64);
  ASSERT_EQ(report.priced_s, std::vector<double>{2.0});
  options.corrections = 2;
  EXPECT_EQ(widest_product(improve(g, options, &report)), 128);
  EXPECT_EQ(report.before_s, 1);
  EXPECT_EQ(report.after_s, 0.5);
  EXPECT_FALSE(report.trail.empty());
}

// Two pairs of products of one operand each. One of them is better merged, which no price of a
// single node tells.
TEST(Improve, WhatHelpsAtOnePlaceIsTakenWithoutTheRest) {
  GraphBuilder b;
  for (int64_t width : {64, 96}) {
    NodeId x = b.input(str("x", width), f32({4, 512}));
    for (int i = 0; i < 2; ++i) {
      NodeId w = b.constant(filled({512, width}, static_cast<float>(width + i)));
      b.output(str("y", width, i), b.op("tanh", {b.op("matmul", {x, w})}));
    }
  }
  const Graph g = std::move(b).build();
  auto width_of = [](const Graph& program, int64_t wanted) {
    for (size_t i = 0; i < program.size(); ++i) {
      if (is_product(program.nodes[NodeId(i)].op) &&
          program.types[NodeId(i)].shape.back() == wanted)
        return true;
    }
    return false;
  };
  SearchPrices prices = by_width([](int64_t) { return 1e-3; }, [](int64_t) { return 1.0; });
  prices.programs = [&](std::span<const Graph> programs, const Monitor&) {
    std::vector<double> seconds;
    for (const Graph& p : programs)
      seconds.push_back(1.0 - 0.2 * width_of(p, 128) + 0.3 * width_of(p, 192));
    return seconds;
  };
  // By nodes both merges pay. Both together are dearer than neither.
  ImproveOptions options{.prices = prices, .kept = 1, .corrections = 0};
  ImproveReport report;
  Graph better = improve(g, options, &report);
  EXPECT_EQ(report.priced_s[0], 1.1);
  EXPECT_EQ(report.after_s, 0.8);
  EXPECT_TRUE(width_of(better, 128));
  EXPECT_FALSE(width_of(better, 192));
  options.combined = 0;
  EXPECT_EQ(improve(g, options), g);
}

TEST(Improve, TheLimitOfNodesCountsWhatIsAdded) {
  GraphBuilder b;
  NodeId x = b.input("x", f32({4, 512}));
  NodeId at = x;
  for (int i = 0; i < 300; ++i) at = b.op("tanh", {at});
  b.output("z", at);
  for (int i = 0; i < 2; ++i)
    b.output(str("y", i),
             b.op("matmul", {x, b.constant(filled({512, 64}, static_cast<float>(i)))}));
  SaturateReport report;
  saturate(std::move(b).build(), {.nodes = 200}, &report);
  auto merged = [](const auto& f) { return f.rule.starts_with("merge-matmuls") && f.times > 0; };
  EXPECT_TRUE(std::ranges::any_of(report.fired, merged));
}

// Two loops of one body.
Graph two_loops() {
  GraphBuilder body;
  body.input("i", Type::tensor(DType::i64, {}));
  NodeId s = body.input("s", f32({4, 128}));
  NodeId y = body.op("matmul", {s, body.constant(filled({128, 64}, 0))});
  NodeId z = body.op("matmul", {s, body.constant(filled({128, 64}, 1))});
  body.output("s",
              body.op("concat", {body.op("tanh", {y}), body.op("exp", {z})}, Attrs({{"axis", 1}})));
  Attrs loop({{"body", GraphRef(std::move(body).build())}, {"trips", 3}, {"states", 1}});
  GraphBuilder b;
  for (const char* name : {"x", "y"}) {
    NodeId at = b.op("loop", {b.input(name, f32({4, 128}))}, loop);
    b.output(str(name, "s"), b.op("get", {at}, Attrs({{"index", 0}})));
  }
  return std::move(b).build();
}

int64_t widest_in_bodies(const Graph& g) {
  int64_t widest = 0;
  for (const Node& n : g.nodes) {
    for (const auto& [name, value] : n.attrs.entries()) {
      if (const GraphRef* body = value.as<GraphRef>(); body && *body)
        widest = std::max(widest, widest_product(**body));
    }
  }
  return widest;
}

TEST(Improve, BodiesAreSearchedOnceAndTheirGainIsReported) {
  int asked = 0;
  SearchPrices prices =
      by_width([](int64_t width) { return width == 128 ? 1e-3 : 3e-3; }, {}, &asked);
  auto seconds_of = [](const Graph& g) {
    int64_t widest = std::max(widest_product(g), widest_in_bodies(g));
    return widest == 128 ? 1.0 : 2.0;
  };
  prices.programs = [&](std::span<const Graph> programs, const Monitor&) {
    asked += widest_product(programs[0]) > 0;  // a body
    std::vector<double> seconds;
    for (const Graph& g : programs) seconds.push_back(seconds_of(g));
    return seconds;
  };
  ImproveOptions options{.prices = prices, .corrections = 0};
  ImproveReport report;
  Graph better = improve(two_loops(), options, &report);
  EXPECT_EQ(widest_in_bodies(better), 128);
  EXPECT_EQ(asked, 3);  // as it is, what was found, and what was at the prices that are known then
  EXPECT_EQ(report.before_s, 2);
  EXPECT_EQ(report.after_s, 1);
  EXPECT_FALSE(report.trail.empty());
  // Where the whole is slower for it, bodies stay as they are.
  options.prices->programs = [&](std::span<const Graph> programs, const Monitor&) {
    std::vector<double> seconds;
    for (const Graph& g : programs)
      seconds.push_back(widest_product(g) > 0 ? seconds_of(g) : 3 - seconds_of(g));
    return seconds;
  };
  better = improve(two_loops(), options, &report);
  EXPECT_EQ(better, two_loops());
  EXPECT_TRUE(report.trail.empty());
}

TEST(Improve, RandomNumbersInBodiesAreNoWeights) {
  Graph g = parse_graph(
      "graph(x: f32[4]) {\n"
      "  %1 = constant f32[4]{1, 2, 3, 4}\n"
      "  %2 = loop[body=graph(i: i64[], s: f32[4]) { return s = add(s, random_uniform[seed=3, "
      "shape=[4]]()) }, trips=3, states=1](%1)\n"
      "  return y = add(x, get(%2))\n"
      "}");
  TensorEGraph e(g);
  bool any_loop = false;
  for (size_t i = 0; i < e.engine().ids(); ++i) {
    ENodeId n{i};
    if (op_def(OpId(size_t{e.engine().node(n).op})).name != "loop") continue;
    any_loop = true;
    EXPECT_FALSE(e.weight_only(e.engine().find(n)));
  }
  EXPECT_TRUE(any_loop);
}

}  // namespace
}  // namespace emend
