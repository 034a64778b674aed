// Repairs of mutants: programs computed in a box only, boxes that few cover, and that what is wrong
// with a repair is found out.
#include "mutate/correct.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "ops/patch.h"
#include "ops/table.h"
#include "rules/draw.h"
#include "support/mutants.h"
#include "text/text.h"

namespace emend {
namespace {

using Outcome = MutateReport::Mutant::Outcome;

PositionBox some_box(const Dims& shape, Rng& rng) {
  PositionBox box;
  for (int64_t n : shape) {
    box.low.push_back(rng.between(0, 2) ? rng.between(0, n - 1) : 0);
    box.high.push_back(rng.between(0, 2) ? rng.between(box.low.back() + 1, n) : n);
  }
  return box;
}

std::optional<Graph> in_box(const Graph& g, const PositionBox& box) {
  GraphBuilder b;
  std::vector<NodeId> inputs;
  for (const GraphInput& i : g.inputs) inputs.push_back(b.input(i.name, g.type(i.node)));
  auto part = restricted(b, g, inputs, box);
  if (!part) return std::nullopt;
  b.output("y", *part);
  return std::move(b).build();
}

// The program, with a box cut out of what it computes.
Graph cut_out(const Graph& g, const PositionBox& box) {
  GraphBuilder b;
  std::vector<NodeId> inputs;
  for (const GraphInput& i : g.inputs) inputs.push_back(b.input(i.name, g.type(i.node)));
  b.output("y", b.op("slice", {splice(b, g, inputs)[0]},
                     Attrs({{"starts", box.low},
                            {"sizes", box.shape()},
                            {"steps", Dims(box.low.size(), 1)}})));
  return std::move(b).build();
}

int64_t count_of(const Graph& g, const char* op) {
  return std::ranges::count_if(g.nodes, [&](const Node& n) { return op_def(n).name == op; });
}

// Convolutions, pools, products, elementwise operators, moves and sums, in random boxes.
TEST(Restricted, IsTheProgramInTheBox) {
  // Rules are drawn from for their shapes: their left sides are the programs.
  const std::pair<const char*, const char*> programs[] = {
      {"(conv[?a] ?x ?w)", "x:[n,c*g,h,w] w:[f*g,c,r,s] | x:[n,c*g,h] w:[f*g,c,r]"},
      {"(sum_pool[?a] ?x)", "x:[n,c,h,w] | x:[n,c,h]"},
      {"(avg_pool[?a] ?x)", "x:[n,c,h,w] | x:[n,c,h]"},
      {"(matmul ?x ?y)", "x:[a,b,c] y:[c,d] | x:[b,c] y:[a,c,d] | x:[a,b,c] y:[a,c,d]"},
      {"(add (mul ?x ?y) ?x)", "x:[a,b,c] y:~[a,b,c]"},
      {"(view[?a] ?x)", "x:[a,b,6]"},
      {"(reshape[?a] ?x)", "x:[2,a,6] | x:[4,6]"},
      {"(transpose[?a] (slice[?c] ?x))", "x:[a,b,c]"},
      {"(pad[?a] (neg ?x))", "x:[a,b]"},
      {"(concat[?a] ?x ?y)", "x:[a,b] y:[a,b]"},
      {"(reduce_sum[?a] ?x)", "x:[a,b,c]"},
      {"(conv[?a] (conv[?c] ?x ?w) ?v)", "x:[n,c,h,w] w:[f,c,r,s] v:[k,f,2,2]"},
  };
  for (auto [lhs, draw] : programs) {
    Rule shapes = rule("drawn", lhs, "?x", {}, draw);
    Rng rng(11);
    int made = 0, refused = 0;
    for (int draws = 0; made < 60 && draws < 20000; ++draws) {
      auto drawn = draw_instance(shapes, DrawnSizes::different, rng);
      if (!drawn) continue;
      drawn->builder.output("y", drawn->left[0]);
      Graph g = std::move(drawn->builder).build();
      const Dims shape = g.type(g.outputs[0].node).shape;
      if (count(shape) == 0) continue;
      const PositionBox box = some_box(shape, rng);
      auto part = in_box(g, box);
      refused += !part;
      if (!part) continue;
      ++made;
      bool equal;
      try {
        equal = equal_everywhere(cut_out(g, box), *part);
      } catch (const Inexact&) {
        continue;  // averages over nothing
      }
      ASSERT_TRUE(equal) << print(g) << shape_text(box.low) << " to " << shape_text(box.high)
                         << "\n"
                         << print(*part);
    }
    EXPECT_GE(made, 60) << lhs;
    EXPECT_LT(refused, made) << lhs;
  }
}

// Boxes of a convolution that are alike, beside one that is not: each is what it is alone.
TEST(Restricted, ToSeveralBoxesAtOnce) {
  Rule shapes = rule("drawn", "(conv[?a] ?x ?w)", "?x", {},
                     "x:[n,c*g,h,w] w:[f*g,c,r,s] | x:[n,c*g,h] w:[f*g,c,r]");
  Rng rng(13);
  int made = 0, joined = 0;
  for (int draws = 0; made < 100 && draws < 20000; ++draws) {
    auto drawn = draw_instance(shapes, DrawnSizes::different, rng);
    if (!drawn) continue;
    drawn->builder.output("y", drawn->left[0]);
    Graph g = std::move(drawn->builder).build();
    const Dims shape = g.type(g.outputs[0].node).shape;
    std::vector<PositionBox> boxes = {some_box(shape, rng), some_box(shape, rng)};
    for (int more = 0; more < 2; ++more) {  // the first one, elsewhere
      PositionBox moved = boxes[0];
      for (size_t d = 0; d < shape.size(); ++d) {
        if (d == 1) continue;
        const int64_t n = moved.high[d] - moved.low[d];
        moved.low[d] = rng.between(0, shape[d] - n);
        moved.high[d] = moved.low[d] + n;
      }
      boxes.push_back(moved);
    }
    GraphBuilder b;
    std::vector<NodeId> inputs;
    for (const GraphInput& i : g.inputs) inputs.push_back(b.input(i.name, g.type(i.node)));
    auto parts = restricted(b, g, inputs, boxes, true);
    ASSERT_TRUE(parts) << parts.error();
    ++made;
    for (size_t i = 0; i < boxes.size(); ++i) {
      GraphBuilder one = b;
      one.output("y", (*parts)[i]);
      Graph part = std::move(one).build();
      ASSERT_TRUE(equal_everywhere(cut_out(g, boxes[i]), part)) << print(g) << print(part);
      joined += i == 0 && count_of(part, "concat") == 1;
    }
  }
  EXPECT_EQ(made, 100);
  EXPECT_EQ(joined, 100);
}

// An operator that needs all of its operand says so; one that gathers does not pretend.
TEST(Restricted, RefusesWhatHasNoParts) {
  GraphBuilder b;
  Graph g = parse_graph("graph(x: f32[4,6]) { return cum_sum[axis=1](x) }");
  NodeId x[] = {b.input("x", Type::tensor(DType::f32, {4, 6}))};
  auto part = restricted(b, g, x, {{0, 2}, {4, 3}});
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error(), "cum_sum is not computed in part");
}

// Positions of random boxes of a few digits: covered, and nothing else is.
TEST(Disagreement, IsCoveredExactly) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(5, seed);
    const Dims shape = {rng.between(1, 3), rng.between(2, 7), rng.between(2, 7)};
    Agreement a{.digits = digits_of(shape)};
    Dims at(shape.size(), 0);
    std::set<Dims> wrong;
    const int64_t stripe = rng.between(1, 3);
    const bool slanted = seed % 2 == 1;
    for (int64_t n = count(shape); n > 0; --n) {
      Agreement::Box box{at, at, true};
      for (int64_t& h : box.high) ++h;
      box.agree = (at[1] + (slanted ? at[2] : 0)) % 4 >= stripe;
      if (!box.agree) wrong.insert(at);
      a.boxes.push_back(box);
      for (size_t d = at.size(); d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
    }
    auto boxes = disagreement(a, shape, 64);
    ASSERT_TRUE(boxes) << boxes.error();
    std::set<Dims> covered;
    for (const PositionBox& b : *boxes) {
      Dims p = b.low;
      for (int64_t n = count(b.shape()); n > 0; --n) {
        covered.insert(p);
        for (size_t d = p.size(); d-- > 0 && ++p[d] == b.high[d];) p[d] = b.low[d];
      }
    }
    EXPECT_EQ(covered, wrong);
    EXPECT_LE(boxes->size(), slanted ? 49u : 2u);
  }
}

// Border of a frame: four boxes, and no fewer would do.
TEST(Disagreement, OfAFrameIsFourBoxes) {
  const Dims shape = {2, 8, 5, 6};
  Agreement a{.digits = digits_of(shape)};
  for (int64_t y : {0, 1, 4})
    for (int64_t x : {0, 1, 5})
      a.boxes.push_back(
          {{0, 0, y, x}, {2, 8, y == 1 ? 4 : y + 1, x == 1 ? 5 : x + 1}, y == 1 && x == 1});
  auto boxes = disagreement(a, shape, 8);
  ASSERT_TRUE(boxes) << boxes.error();
  EXPECT_EQ(boxes->size(), 4u);
  int64_t positions = 0;
  for (const PositionBox& b : *boxes) positions += count(b.shape());
  EXPECT_EQ(positions, 2 * 8 * (5 * 6 - 3 * 4));  // none twice
}

struct Found {
  MutateReport::Mutant about;
  Graph original, program;
};

// The only mutant of a graph's operator that was corrected.
std::optional<Found> corrected_by(const Graph& g, const char* mutation, const char* parameters) {
  const PricedNode site = site_of(g);
  MutateReport report;
  std::vector<Rule> rules =
      mutate({site}, {.enable = {mutation, "correct"}, .disable = {"*"}}, &report);
  size_t rule = 0;
  for (const auto& m : report.mutants) {
    if (m.outcome == Outcome::corrected && m.parameters == parameters)
      return Found{m, program_of(site, nullptr), program_of(site, &rules[rule])};
    rule += m.outcome != Outcome::refused;
  }
  return std::nullopt;
}

// Four images side by side without a gap: wrong where one meets the next, and nowhere else.
TEST(Corrected, BatchIntoSpaceAtTheSeams) {
  Graph g = parse_graph(
      "graph(x: f32[4,8,14,14], w: f32[8,8,3,3]) {"
      " return conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1]](x, w) }");
  auto found = corrected_by(g, "batch-into-space", "a=1, k=4, q=0");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->about.patches, 2u);
  EXPECT_EQ(found->about.method, "terms");
  EXPECT_NEAR(found->about.share, 1 - 2 * 3.0 / (4 * 14), 1e-9);
  // A column of 14 pixels reads two columns and borders: all taps are computed, by one convolution.
  EXPECT_NEAR(found->about.repaired, 2 * 3.0 / (4 * 14), 1e-9);
  EXPECT_EQ(count_of(found->program, "conv"), 2);
  EXPECT_TRUE(equal_everywhere(found->original, found->program));
}

// Averages that count their elements only are sums over fewer at the border.
TEST(Corrected, AveragePoolAtTheBorder) {
  Graph g = parse_graph(
      "graph(x: f32[1,16,28,28]) { return avg_pool[kernel=[3,3], strides=[1,1], dilations=[1,1], "
      "pads=[1,1,1,1]](x) }");
  auto found = corrected_by(g, "avg-pool-as-conv", "");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->about.patches, 4u);
  EXPECT_EQ(found->about.method, "terms");
  EXPECT_LT(found->about.repaired, 0.15);
  EXPECT_TRUE(equal_everywhere(found->original, found->program));
}

TEST(Corrected, IsRefusedWhereRepairsAreTheWholeWork) {
  Graph g = parse_graph(
      "graph(x: f32[4,8,3,3], w: f32[8,8,3,3]) {"
      " return conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1]](x, w) }");
  MutateReport report;
  mutate({site_of(g)}, {.enable = {"batch-into-space", "correct"}, .disable = {"*"}}, &report);
  int refused = 0;
  for (const auto& m : report.mutants) {
    EXPECT_NE(m.outcome, Outcome::corrected);
    refused += m.reason.find("not repaired: repairs take") != std::string::npos;
  }
  EXPECT_GT(refused, 0);
}

TEST(Corrected, IsSwitchedOff) {
  Graph g = parse_graph(
      "graph(x: f32[1,16,28,28]) { return avg_pool[kernel=[3,3], strides=[1,1], dilations=[1,1], "
      "pads=[1,1,1,1]](x) }");
  MutateReport report;
  EXPECT_TRUE(mutate({site_of(g)}, {.disable = {"correct"}}, &report).empty());
  ASSERT_EQ(report.mutants.size(), 1u);
  EXPECT_EQ(report.mutants[0].outcome, Outcome::refused);
}

// A program whose patches were tampered with.
template <class Change>
Graph with_changed_patch(const Graph& g, const Change& change) {
  GraphBuilder b;
  std::vector<NodeId> made(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    const Node& n = g.nodes[NodeId(i)];
    std::vector<NodeId> args;
    for (NodeId a : n.args) args.push_back(made[a.value]);
    if (n.op == kInputOp)
      made[i] = b.input(str("x", i), g.type(NodeId(i)));
    else if (g.is_constant(NodeId(i)))
      made[i] = b.constant(g.constant(NodeId(i)));
    else if (op_def(n).name == "patch")
      made[i] = change(b, args[0], args[1], n.attrs.as<Patch>());
    else
      made[i] = b.try_op(n.op, args, n.attrs).value_or_throw();
  }
  b.output("y", made[g.outputs[0].node.value]);
  return std::move(b).build();
}

// A box one too small, a fix at the wrong place, a patch left out, the fix of another box.
TEST(Corrected, PlantedErrorsAreFound) {
  const std::tuple<const char*, const char*, const char*> mutants[] = {
      {"graph(x: f32[4,2,7,9], w: f32[3,2,3,3]) {"
       " return conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1]](x, w) }",
       "batch-into-space", "a=1, k=4, q=0"},
      {"graph(x: f32[1,2,12,16], w: f32[4,2,3,3]) {"
       " return conv[strides=[1,1], dilations=[2,2], pads=[2,2,2,2]](x, w) }",
       "dilation-into-mosaic", "q=0"},
      {"graph(x: f32[1,3,16,16]) { return avg_pool[kernel=[3,3], strides=[1,1], dilations=[1,1], "
       "pads=[1,1,1,1]](x) }",
       "avg-pool-as-conv", ""},
  };
  for (auto [text, mutation, parameters] : mutants) {
    auto found = corrected_by(parse_graph(text), mutation, parameters);
    if (!found) {
      ADD_FAILURE() << mutation;
      continue;
    }
    const auto differs = [&](const char* what, const Graph& g) {
      auto shown = agreement(found->original, g, {.only_everywhere = true});
      ASSERT_TRUE(shown) << shown.error();
      EXPECT_FALSE(shown->everywhere()) << what << "\n" << print(g);
      EXPECT_FALSE(equal_everywhere(found->original, g)) << what;
    };
    const auto slice = [](GraphBuilder& b, NodeId x, size_t d, int64_t start, int64_t size) {
      Dims starts(b.shape(x).size(), 0), sizes = b.shape(x);
      starts[d] = start;
      sizes[d] = size;
      return b.op("slice", {x},
                  Attrs({{"starts", starts}, {"sizes", sizes}, {"steps", Dims(sizes.size(), 1)}}));
    };
    for (size_t d : {size_t{1}, size_t{2}, size_t{3}}) {
      differs("too small", with_changed_patch(found->program, [&](GraphBuilder& b, NodeId base,
                                                                  NodeId fix, Patch a) {
                int64_t n = b.shape(fix)[d];
                if (n == 1) return base;
                return b.op("patch", {base, slice(b, fix, d, 0, n - 1)}, a);
              }));
      differs("shifted", with_changed_patch(found->program, [&](GraphBuilder& b, NodeId base,
                                                                NodeId fix, Patch a) {
                int64_t n = b.shape(fix)[d];
                if (n == 1) return base;
                Attrs turned({{"axis", static_cast<int64_t>(d)}});
                NodeId moved =
                    b.op("concat", {slice(b, fix, d, 1, n - 1), slice(b, fix, d, 0, 1)}, turned);
                return b.op("patch", {base, moved}, a);
              }));
    }
    differs("left out", with_changed_patch(found->program, [&](GraphBuilder&, NodeId base, NodeId,
                                                               const Patch&) { return base; }));
  }
}

}  // namespace
}  // namespace emend
