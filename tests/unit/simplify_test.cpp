#include "simplify/simplify.h"

#include <gtest/gtest.h>

#include "ops/build.h"
#include "ops/control.h"
#include "ops/evaluate.h"
#include "ops/fold.h"
#include "ops/table.h"
#include "text/text.h"

namespace emend {
namespace {

int times(const SimplifyReport& r, const std::string& rule) {
  for (const auto& f : r.fired) {
    if (f.rule == rule) return f.times;
  }
  return 0;
}

TEST(Simplify, SaysWhatItDid) {
  SimplifyReport report;
  Graph g = parse_graph("graph(x: f32[2]) { return y = neg(neg(relu(relu(x)))) }");
  Graph s = simplify(g, {}, &report);
  EXPECT_EQ(s, parse_graph("graph(x: f32[2]) { return y = relu(x) }"));
  EXPECT_EQ(times(report, "neg-neg"), 1);
  EXPECT_EQ(times(report, "idempotent"), 1);
  EXPECT_EQ(report.nodes_before, 5u);
  EXPECT_EQ(report.nodes_after, 2u);
  EXPECT_EQ(report.stop_reason, "fixed point");
}

TEST(Simplify, StopsAtTheLimitOfRounds) {
  SimplifyReport report;
  std::string chain = "x";
  for (int i = 0; i < 40; ++i) chain = "add(" + chain + ", constant f32[]{1.0})";
  Graph g = parse_graph("graph(x: f32[2]) { return y = " + chain + " }");
  simplify(g, {.rounds = 1}, &report);
  EXPECT_EQ(report.stop_reason, "limit of rounds");
  Graph s = simplify(g, {}, &report);
  EXPECT_EQ(report.stop_reason, "fixed point");
  EXPECT_EQ(s, parse_graph("graph(x: f32[2]) { return y = add(x, constant f32[]{40.0}) }"));
}

// The first sweep is heard of, the second does not begin: what is there is valid, and not yet all.
TEST(Simplify, StopsWhenAskedWithWhatItHas) {
  std::string chain = "x";
  for (int i = 0; i < 40; ++i) chain = "add(" + chain + ", constant f32[]{1.0})";
  Graph g = parse_graph("graph(x: f32[2]) { return y = " + chain + " }");
  std::atomic<bool> stop{false};
  std::vector<double> best;
  Monitor monitor(
      [&](const Progress& p) {
        EXPECT_EQ(p.phase, "simplify");
        best.push_back(p.best);
        stop = p.done == 1;
      },
      &stop);
  SimplifyReport report;
  Graph s = simplify(g, {.monitor = monitor}, &report);
  EXPECT_EQ(report.stop_reason, "interrupted");
  EXPECT_EQ(report.rounds, 1);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0], 40);
  EXPECT_LT(best[1], best[0]);
  EXPECT_GT(best[1], 1);
  Tensor x = Tensor::of_reals(DType::f32, {2}, std::vector<double>{0.5, -2});
  std::vector<Value> inputs = {x};
  EXPECT_EQ(evaluate(s, inputs)[0].tensor, evaluate(g, inputs)[0].tensor);

  // As many rounds again give the same program: so other sizes of a model are brought as far.
  EXPECT_EQ(simplify(g, {.rounds = 1}), s);
  stop = true;
  simplify(g, {.monitor = Monitor().stopped_by(&stop)}, &report);
  EXPECT_EQ(report.rounds, 0);
  EXPECT_EQ(simplify(g, {.monitor = monitor.stopped_by(nullptr).silent()}),
            parse_graph("graph(x: f32[2]) { return y = add(x, constant f32[]{40.0}) }"));
}

TEST(Simplify, KeepsNamesInputsAndOutputs) {
  Graph g = parse_graph(
      "graph(donated x: f32[2], unused: i64[3]) {\n"
      "  %2 = add(x, constant f32[]{0.0}) @\"/a/Add\"\n"
      "  %3 = relu(%2) @\"/a/Relu\"\n"
      "  return first = %3, again = %3, same = x\n"
      "}");
  Graph s = simplify(g);
  ASSERT_EQ(s.inputs.size(), 2u);
  EXPECT_TRUE(s.inputs[0].donated);
  EXPECT_EQ(s.inputs[1].name, "unused");
  ASSERT_EQ(s.outputs.size(), 3u);
  EXPECT_EQ(s.outputs[1].name, "again");
  EXPECT_EQ(s.outputs[0].node, s.outputs[1].node);
  EXPECT_EQ(s.outputs[2].node, s.inputs[0].node);
  EXPECT_EQ(s.names[s.outputs[0].node], "/a/Relu");
}

TEST(Simplify, GivesTheSameBytesEveryTime) {
  Graph g = parse_graph(
      "graph(x: f32[1,2,4,4]) {\n"
      "  %w = constant f32[2,2,1,1]{1.0, 2.0, 3.0, 4.0}\n"
      "  %c = conv[strides=[1,1], dilations=[1,1], pads=[0,0,0,0]](x, %w)\n"
      "  %d = conv[strides=[1,1], dilations=[1,1], pads=[0,0,0,0]](%c, constant f32[2,2,1,1]{1.0, "
      "2.0, 3.0, 4.0})\n"
      "  return y = mul(add(%d, constant f32[2,1,1]{1.0, 2.0}), constant f32[2,1,1]{3.0, 4.0})\n"
      "}");
  std::string once = print(simplify(g), {.all_constants = true});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(print(simplify(g), {.all_constants = true}), once);
  EXPECT_EQ(print(simplify(simplify(g)), {.all_constants = true}), once);
}

TEST(Simplify, NeverInflatesBeyondTheBudget) {
  Graph g = parse_graph(
      "graph(x: f32[1000,1000]) {\n"
      "  return y = matmul(x, broadcast[shape=[1000,1000]](constant f32[]{2.0}))\n"
      "}");
  auto bytes = [](const Graph& s) {
    size_t n = 0;
    for (const Tensor& t : s.constants) n += t.bytes().size();
    return n;
  };
  EXPECT_EQ(bytes(simplify(g, {.fold_bytes = 1 << 20})), 4u);
  EXPECT_EQ(bytes(simplify(g, {.fold_bytes = 1 << 22})), 4000000u);
}

TEST(Simplify, FoldingChangesNoBit) {
  Graph g = parse_graph(
      "graph(x: f32[3]) {\n"
      "  %c = exp(sigmoid(constant f32[3]{0.1, 0.7, -1.3}))\n"
      "  return y = div(x, %c)\n"
      "}");
  std::vector<Value> x = {Tensor::of_reals(DType::f32, {3}, std::vector<double>{1, 2, 3})};
  EXPECT_EQ(evaluate(g, x), evaluate(simplify(g), x));
}

TEST(Simplify, DoesNotCopyWhatIsHeavy) {
  // The scale of one user of the convolution stays outside, since the other wants it unscaled.
  SimplifyReport report;
  simplify(parse_graph("graph(x: f32[1,1,2,2]) {\n"
                       "  %c = conv[strides=[1,1], dilations=[1,1], pads=[0,0,0,0]](x, constant "
                       "f32[1,1,1,1]{3.0})\n"
                       "  return y = mul(%c, constant f32[]{2.0}), z = relu(%c)\n"
                       "}"),
           {}, &report);
  EXPECT_EQ(times(report, "scale-into-conv"), 0);
}

TEST(Simplify, CleansTheBodiesOfLoopsAndBranches) {
  Graph then_body = parse_graph("graph(x: f32[2]) { return y = neg(neg(exp(x))) }");
  Graph else_body = parse_graph("graph(x: f32[2]) { return y = tanh(x) }");
  Graph clean = parse_graph("graph(x: f32[2]) { return y = exp(x) }");
  GraphBuilder b;
  NodeId c = b.input("c", Type::tensor(DType::boolean, {}));
  NodeId x = b.input("x", Type::tensor(DType::f32, {2}));
  NodeId both = b.op("if", {c, x}, If{GraphRef(then_body), GraphRef(else_body)});
  b.output("y", b.get(both, 0));
  SimplifyReport report;
  Graph s = simplify(std::move(b).build(), {}, &report);
  EXPECT_EQ(times(report, "neg-neg"), 1);
  int branches = 0;
  for (const Node& n : s.nodes) {
    const AttrValue* body = n.attrs.find("then_body");
    if (!body) continue;
    ++branches;
    EXPECT_EQ(**body->as<GraphRef>(), clean);
  }
  EXPECT_EQ(branches, 1);
}

TEST(ConstantIndex, KnowsContentAndType) {
  ConstantIndex index;
  Tensor a = Tensor::of_reals(DType::f32, {2}, std::vector<double>{1, 2});
  Tensor same = Tensor::of_reals(DType::f32, {2}, std::vector<double>{1, 2});
  Tensor shaped = Tensor::of_reals(DType::f32, {2, 1}, std::vector<double>{1, 2});
  EXPECT_EQ(index.canonical(a).data(), a.data());
  EXPECT_EQ(index.canonical(same).data(), a.data());
  EXPECT_EQ(index.canonical(shaped).data(), shaped.data());
}

// Moves of weights may stay, since kernels read through them; a sum of such weights may not.
TEST(Simplify, WhatIsComputedFromMovedWeightsIsFolded) {
  Graph g = parse_graph(R"(graph(x: f32[1,2]) {
    %a = constant f32[2,2]{1.0, 2.0, 3.0, 4.0}
    %b = constant f32[2,2]{5.0, 6.0, 7.0, 8.0}
    return matmul(x, add(transpose[perm=[1,0]](%a), transpose[perm=[1,0]](%b)))
  })");
  Graph out = simplify(g, {.fold_moves_below = 1});
  EXPECT_EQ(std::ranges::count_if(out.nodes,
                                  [](const Node& n) { return op_def(n).kind != Kind::structure; }),
            1)
      << print(out);
  Graph kept = simplify(parse_graph(R"(graph(x: f32[1,2]) {
    %a = constant f32[2,2]{1.0, 2.0, 3.0, 4.0}
    return matmul(x, transpose[perm=[1,0]](%a))
  })"),
                        {.fold_moves_below = 1});
  EXPECT_NE(print(kept).find("transpose"), std::string::npos);
  Graph filled = simplify(parse_graph(R"(graph(x: f32[1,2]) {
    %a = constant f32[1,3]{1.0, 2.0, 3.0}
    return matmul(x, view[map="[2, 2] <- [0, a+2b]"](%a))
  })"),
                          {.fold_moves_below = 1});
  EXPECT_EQ(print(filled).find("view"), std::string::npos) << print(filled);
  Graph joined = simplify(parse_graph(R"(graph(x: f32[1,2]) {
    %a = constant f32[2,2]{1.0, 2.0, 3.0, 4.0}
    %b = constant f32[2,2]{5.0, 6.0, 7.0, 8.0}
    return matmul(x, concat[axis=1](%a, %b))
  })"),
                          {.fold_moves_below = 1});
  EXPECT_EQ(print(joined).find("concat"), std::string::npos) << print(joined);
}

}  // namespace
}  // namespace emend
