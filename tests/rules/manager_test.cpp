// What the mutation manager answers is what a proof would have: every mutation over many shapes,
// one manager for all of them, against proofs made anew and against the field at every position.
#include "mutate/manager.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <set>

#include "base/hash.h"
#include "equiv/natural_form.h"
#include "mutate/mutate.h"
#include "rules/draw.h"
#include "support/mutants.h"
#include "text/text.h"

namespace emend {
namespace {

// --- Forms ---

Graph with_extent(std::string text, int n) {
  for (size_t at; (at = text.find('@')) != std::string::npos;)
    text.replace(at, 1, std::to_string(n));
  return parse_graph(text);
}

struct FormCase {
  const char *inputs, *left, *right;
  bool free;  // the extent @ does not matter
};

const std::string kConv = "conv[strides=[1], dilations=[1], pads=[1,1]]";

const FormCase kForms[] = {
    // Carried through, and summed over.
    {"x: f32[@,5]", "relu(x)", "relu(x)", true},
    {"x: f32[@,6]", "view[map=\"[@, 6] <- [a, b]\"](x)", "view[map=\"[@, 6] <- [a, b+1]\"](x)",
     true},
    {"x: f32[@,5], w: f32[5,3]", "matmul(x, w)", "neg(neg(matmul(x, w)))", true},
    {"x: f32[4,@], w: f32[@,3]", "matmul(x, w)",
     "transpose[perm=[1,0]](matmul(transpose[perm=[1,0]](w), transpose[perm=[1,0]](x)))", true},
    {"x: f32[2,@,6], w: f32[3,@,3]", "conv[strides=[1], dilations=[1], pads=[1,1]](x, w)",
     "view[map=\"[2, 3, 6] <- [a, b, c]\"](conv[strides=[1], dilations=[1], "
     "pads=[1,1]](view[map=\"[2, @, 6] <- [a, b, c]\"](x), w))",
     true},
    // Its own axis moves.
    {"x: f32[@,5]", "transpose[perm=[1,0]](x)", "transpose[perm=[1,0]](relu(x))", true},
    // A window along it; a part of it; it and another as one.
    {"x: f32[2,3,@], w: f32[3,3,3]", "conv[strides=[1], dilations=[1], pads=[1,1]](x, w)",
     "conv[strides=[1], dilations=[1], pads=[1,1]](x, w)", false},
    {"x: f32[@,5]", "slice[starts=[0,0], sizes=[2,5], steps=[1,1]](x)",
     "slice[starts=[0,0], sizes=[2,5], steps=[1,1]](relu(x))", false},
    {"x: f32[@,5]", "reshape[shape=[@,5]](reshape[shape=[5,@]](x))", "x", false},
    // Carried here, summed there; the sum multiplied by what carries it, or more than moved.
    {"x: f32[@,@]", "reduce_sum[axes=[0], keepdims=false](x)",
     "reduce_sum[axes=[1], keepdims=false](x)", false},
    {"x: f32[@,5]", "mul(x, reduce_sum[axes=[0], keepdims=true](x))", "x", false},
    {"x: f32[@,5]", "relu(reduce_sum[axes=[0], keepdims=true](x))",
     "reduce_sum[axes=[0], keepdims=true](relu(x))", false},
    {"x: f32[@,5]", "reduce_max[axes=[0], keepdims=true](x)",
     "reduce_max[axes=[0], keepdims=true](x)", false},
    // Both of its places are one.
    {"x: f32[@,@]", "matmul(x, x)", "matmul(x, x)", false},
};

TEST(NaturalForms, KnowWhichExtentsDoNotMatter) {
  for (const FormCase& c : kForms) {
    SCOPED_TRACE(std::string(c.left) + " and " + c.right);
    auto pair = [&](int n) {
      auto program = [&](const char* body) {
        return with_extent(std::string("graph(") + c.inputs + ") { return " + body + " }", n);
      };
      return natural_form(program(c.left), program(c.right)).value_or_throw();
    };
    NaturalForm seven = pair(7), eleven = pair(11);
    EXPECT_EQ(seven.any == eleven.any, c.free);
    EXPECT_NE(seven.exact, eleven.exact);
    EXPECT_EQ(pair(7).exact, seven.exact);
  }
}

TEST(NaturalForms, HoldEverythingElse) {
  auto form = [](const char* body) {
    Graph g = parse_graph(std::string("graph(x: f32[4,8]) { return ") + body + " }");
    return natural_form(g, parse_graph("graph(x: f32[4,8]) { return relu(x) }")).value_or_throw();
  };
  const char* kOthers[] = {"relu(x)",
                           "neg(x)",
                           "relu(relu(x))",
                           "add(x, x)",
                           "mul(x, x)",
                           "view[map=\"[4, 8] <- [a, b]\"](x)",
                           "view[map=\"[4, 8] <- [a, b+1]\"](x)",
                           "view[map=\"[4, 2*4] <- [a, b+2c]\"](x)",
                           "view[map=\"[4, 2*4] <- [a, 4b+c-1]\"](x)"};
  std::set<NaturalForm::Key> seen;
  for (const char* other : kOthers) EXPECT_TRUE(seen.insert(form(other).any).second) << other;
}

// --- Answers ---

std::string text_of(const MutateReport::Mutant& m) {
  return str(m.mutation, " ", m.parameters, ": ", to_text(m.outcome), " ", m.method, " ",
             std::round(m.share * 1e6), " ", m.reason);
}

// The same operator with other extents where they are not the groups', nor the kernel's: of the
// batch, of channels and of filters.
PricedNode resized(const PricedNode& site, Rng& rng) {
  std::vector<Dims> shapes;
  for (const Type& t : site.operands) shapes.push_back(t.shape);
  int64_t batch = rng.between(1, 3), channels = rng.between(1, 6), filters = rng.between(1, 5);
  if (shapes.size() == 2) {
    int64_t groups = site.attrs.get<int64_t>("group");
    shapes[1][0] = groups * filters;
    shapes[1][1] = channels;
    shapes[0][1] = groups * channels;
  } else {
    shapes[0][1] = channels;
  }
  shapes[0][0] *= batch;
  GraphBuilder b;
  std::vector<NodeId> x;
  for (size_t i = 0; i < shapes.size(); ++i)
    x.push_back(b.input(str("x", i), Type::tensor(DType::f32, shapes[i])));
  NodeId y = b.try_op(site.op, x, site.attrs).value_or_throw();
  return site_of(b.graph(), y);
}

class Managed : public testing::TestWithParam<size_t> {};

TEST_P(Managed, AnswersAsAProofWould) {
  const Mutation& m = all_mutations()[GetParam()];
  Rng rng(GetParam() + 77);
  MutationManager manager;
  size_t shapes = 0, proofs = 0, known = 0, equal = 0;
  auto check = [&](const PricedNode& site) {
    MutateReport direct, managed;
    mutate({site}, {.mutations = {m}}, &direct);
    std::vector<Rule> others = mutate({site}, {.mutations = {m}, .manager = &manager}, &managed);
    if (direct.mutants.empty() && managed.mutants.empty()) return;
    ++shapes;
    proofs += managed.proofs;
    known += managed.known;
    ASSERT_EQ(managed.mutants.size(), direct.mutants.size());
    for (size_t i = 0; i < direct.mutants.size(); ++i) {
      // What was too long to be proven here may have been proven at another shape.
      bool refused = direct.mutants[i].outcome == MutateReport::Mutant::Outcome::refused;
      if (refused && direct.mutants[i].method.empty()) continue;
      ASSERT_EQ(text_of(managed.mutants[i]), text_of(direct.mutants[i])) << direct.mutants[i].site;
    }
    Graph original = program_of(site, nullptr);
    for (const Rule& r : others) {
      ++equal;
      ASSERT_TRUE(equal_everywhere(original, program_of(site, &r))) << to_text(r);
    }
  };
  for (int draws = 0; shapes < cases(60) && draws < 200000; ++draws) {
    auto drawn = draw_instance(m.rule, draws % 2 ? DrawnSizes::different : DrawnSizes::alike, rng);
    if (!drawn) continue;
    PricedNode site = site_of(drawn->builder.graph(), drawn->left[0]);
    check(site);
    for (int i = 0; i < 4 && !testing::Test::HasFatalFailure(); ++i) check(resized(site, rng));
    if (testing::Test::HasFatalFailure()) return;
  }
  std::cout << m.rule.name << ": " << shapes << " shapes, " << equal << " equal, " << proofs
            << " proofs, " << known << " known\n";
  EXPECT_GE(shapes, cases(60));
  EXPECT_GT(known, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Managed, testing::Range<size_t>(0, all_mutations().size()),
                         [](const auto& info) {
                           std::string name = all_mutations()[info.param].rule.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

Conv plain_conv(size_t axes, int64_t stride, int64_t dilation, int64_t pad) {
  return {Dims(axes, stride), Dims(axes, dilation), Dims(2 * axes, pad), 1};
}

// Channels and filters, whatever they are.
TEST(Manager, OneProofServesAllChannels) {
  struct Pattern {
    Dims image, kernel;
    Conv attrs;
    std::vector<std::string> mutations;
  };
  const Pattern kPatterns[] = {
      {{14, 14},
       {3, 3},
       plain_conv(2, 1, 2, 2),
       {"dilation-into-mosaic", "dilation-into-batch", "space-into-batch", "strips-into-batch"}},
      {{38, 38}, {5, 5}, plain_conv(2, 1, 1, 2), {"space-into-batch", "strips-into-batch"}},
      {{8, 9, 10}, {3, 3, 3}, plain_conv(3, 1, 2, 2), {"dilation-into-batch", "space-into-batch"}},
  };
  Rng rng(5);
  for (const Pattern& p : kPatterns) {
    MutationManager manager;
    MutateOptions options{.enable = p.mutations, .disable = {"*"}, .manager = &manager};
    std::string first;
    for (int i = 0; i < 20; ++i) {
      Dims x = {1, rng.between(2, 600)}, w = {rng.between(2, 600), x[1]};
      x.insert(x.end(), p.image.begin(), p.image.end());
      w.insert(w.end(), p.kernel.begin(), p.kernel.end());
      MutateReport report;
      mutate({conv_site(x, w, p.attrs)}, options, &report);
      std::string said;
      for (const auto& m : report.mutants) said += text_of(m) + "\n";
      EXPECT_EQ(report.proofs > 0, i == 0) << said;
      if (i == 0) first = said;
      EXPECT_EQ(said, first);
    }
  }
}

// Scaled by a number that is 1 for 4 to 11 channels only; and a gap that grows with channels.
TEST(Manager, WhatDependsOnChannelsIsNotTakenOver) {
  const std::string conv = "(conv[strides=?s, dilations=?d, pads=?p, group=?g] ?x ?w)";
  const std::string at = "?x ?w ?s ?d ?p", gap = "(sum ?q (quotient (dim ?x 1) 8))";
  const Mutation planted[] = {
      mutation("scaled", conv,
               "(conv[strides=?s, dilations=?d, pads=?p, group=?g] ?x (mul ?w (number (quotient "
               "(sum (dim ?x 1) 4) 8))))",
               {}, {}, ""),
      mutation("gap", conv,
               "(view[map=(mosaic_back " + at + " " + gap +
                   ")] (conv[strides=?s, dilations=(repeated 1 (length ?s)), pads=(mosaic_pads " +
                   at + "), group=?g] (view[map=(mosaic " + at + " " + gap + ")] ?x) ?w))",
               {solve("q")}, {}, ""),
  };
  for (const Mutation& m : planted) {
    MutationManager manager;
    std::set<std::string> said;
    for (int round = 0; round < 2; ++round) {
      for (int64_t channels : {4, 16, 8, 2, 5, 24, 10, 3, 17}) {
        PricedNode site = conv_site({2, channels, 12}, {3, channels, 3}, plain_conv(1, 1, 2, 2));
        MutateReport direct, managed;
        mutate({site}, {.mutations = {m}}, &direct);
        auto rules = mutate({site}, {.mutations = {m}, .manager = &manager}, &managed);
        ASSERT_EQ(direct.mutants.size(), 1u);
        ASSERT_EQ(managed.mutants.size(), 1u);
        EXPECT_EQ(text_of(managed.mutants[0]), text_of(direct.mutants[0])) << channels;
        said.insert(text_of(direct.mutants[0]));
        Graph original = program_of(site, nullptr);
        for (const Rule& r : rules) EXPECT_TRUE(equal_everywhere(original, program_of(site, &r)));
        if (round > 0) {
          EXPECT_EQ(managed.proofs, 0u);
        }
      }
    }
    EXPECT_GT(said.size(), 1u) << "the error must depend on channels";
  }
}

TEST(Manager, IsKeptAsText) {
  const PricedNode site = conv_site({1, 8, 14, 14}, {8, 8, 3, 3}, plain_conv(2, 1, 2, 2));
  const PricedNode wide = conv_site({1, 64, 14, 14}, {32, 64, 3, 3}, plain_conv(2, 1, 2, 2));
  MutationManager first;
  MutateReport before, after;
  MutateOptions options{.disable = {"channels-*", "conv-*"}, .manager = &first};
  mutate({site}, options, &before);
  EXPECT_TRUE(first.grown());
  const std::string text = first.text("a");
  MutationManager second;
  ASSERT_TRUE(second.read(text, "a"));
  EXPECT_FALSE(second.grown());
  EXPECT_EQ(second.text("a"), text);
  options.manager = &second;
  mutate({wide}, options, &after);
  EXPECT_EQ(after.proofs, 0u);
  ASSERT_EQ(after.mutants.size(), before.mutants.size());
  for (size_t i = 0; i < after.mutants.size(); ++i)
    EXPECT_EQ(text_of(after.mutants[i]), text_of(before.mutants[i]));
  // Other versions, and what is damaged, are not taken.
  MutationManager third;
  EXPECT_FALSE(third.read(text, "b"));
  EXPECT_FALSE(third.read("", "a"));
  for (size_t at = 0; at < text.size(); at += 1 + text.size() / 97) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(third.read(damaged, "a")) << at;
    EXPECT_FALSE(third.read(text.substr(0, at), "a")) << at;
  }
  EXPECT_EQ(third.size(), 0u);
}

// As if it had been written so: the sums at its head are right.
std::string sealed(const std::string& text, const std::string& body) {
  std::string head = text.substr(0, text.find('\n'));
  for (int i = 0; i < 2; ++i) head.erase(head.rfind(' '));
  return str(head, " ", hash_text(body), " ", hash_text(body, 1), "\n", body);
}

TEST(Manager, LinesThatMakeNoSenseAreNotTaken) {
  MutationManager empty;
  const std::string text = empty.text("a");
  auto taken = [&](const std::string& body) {
    MutationManager m;
    bool read = m.read(sealed(text, body), "a");
    EXPECT_TRUE(read || m.size() == 0) << body;
    return read;
  };
  const std::string good = "v 1 2 0 0.5 symbols 1 2 0 0 3 4 0 \ns 3 4 -1\nm 5 *.\n";
  EXPECT_TRUE(taken(good));
  EXPECT_TRUE(taken("v 1 2 1 1 - 0 0 \n"));
  for (const char* bad : {"v 1 2 0 0.5 symbols 1 2 0 0 3\n",             // ends early
                          "v 1 2 0 0.5 symbols 1 2 0 0 3 4\n",           //
                          "v 1 2 0 0.5 symbols 2 2 0 0 3 4 0 \n",        // fewer boxes than it says
                          "v 1 2 0 0.5 symbols 2 2 0 0 3 4 1 0 3 0 \n",  // boxes of different ranks
                          "v 1 2 0 0.5 symbols 1 2 0 4 3 4 0 \n",        // a box that is empty
                          "v 1 2 0 0.5 symbols 1 2 -1 0 3 4 0 \n",       // that begins before all
                          "v 1 2 0 0.5 symbols 1 9000000000000000000 0 0 3 4 0 \n",
                          "v 1 2 0 0.5 symbols 9000000000000000000 2 0 0 3 4 0 \n",
                          "v 1 2 7 0.5 symbols 0 0 \n",          // no truth
                          "v 1 2 1 1 symbols 1 2 0 0 3 4 0 \n",  // equal, and differs
                          "v 1 2 0 x symbols 0 0 \n",            // no share
                          "v x 2 1 1 symbols 0 0 \n",            // no key
                          "s 3 4\n",
                          "s 3 4 x\n",
                          "s 3 4 -2\n",
                          "s 3 4 1 1\n",  // no solution
                          "m \n",
                          "m 5 *x\n",
                          "m 5 * *\n",  // no mask
                          "w 1\n",
                          "\n"}) {
    EXPECT_FALSE(taken(bad)) << bad;
    EXPECT_FALSE(taken(good + bad)) << bad;
  }
}

// Of another rank than the result that is asked about, or beyond it: a proof decides.
TEST(Manager, BoxesThatDoNotFitAreNotBelieved) {
  const Graph original =
      parse_graph("graph(x: f32[4,6]) { return view[map=\"[4, 6] <- [a, b]\"](x) }");
  const Graph mutant = parse_graph(
      "graph(x: f32[4,6]) { return view[map=\"[4, 6] <- [a, b]\"](view[map=\"[4, 5] <- [a, "
      "b]\"](x)) }");
  MutationManager learns;
  const std::vector<PositionBox> right = {{{0, 5}, {4, 6}}};
  ASSERT_EQ(learns.judge(original, mutant, 4).verdict.differ, right);
  const std::string text = learns.text("a"), body = text.substr(text.find('\n') + 1);
  const std::string box = " 1 2 0 5 4 6 ";
  ASSERT_NE(body.find(box), std::string::npos) << body;
  for (const char* other :
       {box.c_str(), " 1 1 0 4 ", " 1 3 0 5 0 4 6 1 ", " 1 2 0 5 4 7 ", " 1 2 1 5 4 6 "}) {
    std::string forged = body;
    for (size_t at = 0; (at = forged.find(box, at)) != std::string::npos; ++at)
      forged.replace(at, box.size(), other);
    MutationManager m;
    ASSERT_TRUE(m.read(sealed(text, forged), "a")) << other;
    const auto judged = m.judge(original, mutant, 4);
    EXPECT_EQ(judged.known, other == box) << other;
    EXPECT_EQ(judged.verdict.differ, right) << other;
  }
}

}  // namespace
}  // namespace emend
