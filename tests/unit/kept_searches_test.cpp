#include "pipeline/kept_searches.h"

#include <gtest/gtest.h>

#include "ops/build.h"
#include "ops/contraction.h"
#include "pipeline/optimize.h"
#include "rules/functions.h"
#include "support/made_up_prices.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

Tensor filled(Dims shape, float from, float step) {
  return Tensor::make(DType::f32, shape, [&](std::byte* out) {
    for (int64_t i = 0; i < count(shape); ++i)
      store_real(DType::f32, out, static_cast<size_t>(i), from + step * static_cast<float>(i % 17));
  });
}

// Two products of one operand, whose sum is one product.
Graph two_products(float from, float step) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {4, 512}));
  b.set_origin("y");
  NodeId v = b.constant(filled({512, 64}, from, step));
  NodeId w = b.constant(filled({512, 64}, from + 1, step));
  b.output("y", b.op("tanh", {b.op("add", {b.op("matmul", {x, v}), b.op("matmul", {x, w})})}));
  return std::move(b).build();
}

struct Searched {
  Graph graph;
  ImproveReport report;
};

struct KeptSearch : testing::Test {
  Scratch scratch;
  ImproveOptions options{.prices = back_end_prices(Target{})};

  Searched search(const Graph& g, bool again = false) {
    Searched s;
    s.graph = improved(g, options, {scratch / "searches", again}, &s.report);
    return s;
  }
};

TEST_F(KeptSearch, IsNotMadeAgain) {
  Graph g = two_products(0, 1);
  Searched first = search(g), second = search(g);
  EXPECT_FALSE(first.report.recalled);
  EXPECT_TRUE(second.report.recalled);
  EXPECT_LT(first.report.after_s, first.report.before_s);
  EXPECT_EQ(print(first.graph), print(second.graph));
  EXPECT_EQ(first.graph, second.graph);
  EXPECT_EQ(first.report.trail, second.report.trail);
  EXPECT_EQ(first.report.priced_s, second.report.priced_s);
  EXPECT_EQ(first.report.after_s, second.report.after_s);
  EXPECT_EQ(first.report.saturated.nodes, second.report.saturated.nodes);
  EXPECT_EQ(first.report.saturated.stopped, second.report.saturated.stopped);
  EXPECT_FALSE(search(g, true).report.recalled);
}

TEST_F(KeptSearch, RemembersThatNothingIsBetter) {
  Graph g = parse_graph("graph(x: f32[8,8]) { return y = tanh(x) }");
  search(g);
  Searched second = search(g);
  EXPECT_TRUE(second.report.recalled);
  EXPECT_EQ(second.graph, g);
}

TEST_F(KeptSearch, AnswersOnlyForWhatItDependsOn) {
  search(two_products(0, 1));
  // Weights that rules can tell from these; the same program under other names.
  EXPECT_FALSE(search(two_products(0, 0)).report.recalled);
  Graph named = two_products(0, 1);
  for (std::string& name : named.names) name += "'";
  Searched other = search(named);
  EXPECT_FALSE(other.report.recalled);
  EXPECT_NE(print(other.graph).find("y'"), std::string::npos);
  options.saturate.disable = {"merge*"};
  EXPECT_FALSE(search(two_products(0, 1)).report.recalled);
  options = {.prices = back_end_prices(Target{.threads = 7})};
  EXPECT_FALSE(search(two_products(0, 1)).report.recalled);
  options = {.saturate = {.rules = all_rules()}, .prices = back_end_prices(Target{})};
  search(two_products(0, 1));
  EXPECT_FALSE(search(two_products(0, 1)).report.recalled);  // such rules have no key
}

TEST_F(KeptSearch, IsMadeAgainWhereItsFileIsDamaged) {
  Graph g = two_products(0, 1);
  Graph better = search(g).graph;
  for (std::string_view damage : {"cut", "changed", "emptied"}) {
    auto file = fs::directory_iterator(scratch / "searches")->path();
    std::string text = file_text(file);
    if (damage == "cut") text.resize(text.size() - 9);
    if (damage == "changed") text[text.find("matmul")] = '?';
    if (damage == "emptied") text.clear();
    put_file(file, text);
    Searched s = search(g);
    EXPECT_FALSE(s.report.recalled) << damage;
    EXPECT_EQ(s.graph, better) << damage;
  }
}

TEST_F(KeptSearch, AFolderInThePlaceOfTheFileIsNoFile) {
  Graph g = two_products(0, 1);
  Graph better = search(g).graph;
  fs::remove_all(scratch / "searches" / "mutants");
  fs::create_directory(scratch / "searches" / "mutants");
  EXPECT_EQ(search(g, true).graph, better);
}

TEST_F(KeptSearch, IsNotTakenFromAFolderOfOthers) {
  Graph g = two_products(0, 1);
  search(g);
  fs::permissions(scratch / "searches", fs::perms::all);
  EXPECT_FALSE(search(g).report.recalled);
}

// Bodies have constants of their own.
TEST_F(KeptSearch, HoldsBodiesOfLoops) {
  GraphBuilder body;
  NodeId i = body.input("i", Type::tensor(DType::i64, {}));
  NodeId s = body.input("s", Type::tensor(DType::f32, {4, 512}));
  static_cast<void>(i);
  NodeId y = body.op("tanh", {body.op("matmul", {s, body.constant(filled({512, 256}, 0, 1))})});
  NodeId z = body.op("tanh", {body.op("matmul", {s, body.constant(filled({512, 256}, 1, 1))})});
  body.output("s", body.op("concat", {y, z}, Attrs({{"axis", 1}})));
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {4, 512}));
  NodeId loop =
      b.op("loop", {x},
           Attrs({{"body", GraphRef(std::move(body).build())}, {"trips", 3}, {"states", 1}}));
  b.output("y", b.op("get", {loop}, Attrs({{"index", 0}})));
  Graph g = std::move(b).build();
  Searched first = search(g), second = search(g);
  EXPECT_TRUE(second.report.recalled);
  EXPECT_EQ(first.graph, second.graph);
}

TEST_F(KeptSearch, AreFew) {
  KeptSearches kept(scratch / "searches", 5);
  for (size_t i = 0; i < 8; ++i) {
    GraphBuilder b;
    b.output("y",
             b.op("tanh", {b.input("x", Type::tensor(DType::f32, {static_cast<int64_t>(i)}))}));
    Graph g = std::move(b).build();
    kept.keep(g, options, {g, {}});
  }
  EXPECT_EQ(kept.files().use().count, 5u);
  EXPECT_EQ(kept.files().clear().count, 5u);
  EXPECT_EQ(kept.files().use().count, 0u);
}

TEST(SeenByRules, TellsApartWhatRulesCanTellApart) {
  Dims large{512, 512};
  uint64_t mixed = seen_by_rules(filled(large, -3, 1));
  EXPECT_EQ(mixed, seen_by_rules(filled(large, -4, 1)));  // nothing to be known of either
  EXPECT_NE(mixed, seen_by_rules(filled(large, 1, 1)));   // above zero
  EXPECT_NE(seen_by_rules(filled(large, 1, 0)), seen_by_rules(filled(large, 2, 0)));  // uniform
  Tensor identity = Tensor::make(DType::f32, large, [&](std::byte* out) {
    for (int64_t i = 0; i < count(large); ++i)
      store_real(DType::f32, out, static_cast<size_t>(i), on_diagonal(large, i) ? 1 : 0);
  });
  EXPECT_NE(mixed, seen_by_rules(identity));
  auto mask = [&](int64_t hole) {
    return Tensor::make(DType::boolean, large, [&](std::byte* out) {
      for (int64_t i = 0; i < count(large); ++i)
        store_int(DType::boolean, out, static_cast<size_t>(i), i != hole);
    });
  };
  EXPECT_NE(seen_by_rules(mask(5)), seen_by_rules(mask(6)));  // views forget masks they do not read
  EXPECT_NE(seen_by_rules(filled({8}, -3, 1)), seen_by_rules(filled({8}, -4, 1)));
}

// Masks of a mosaic are among what is found, and no weights of what was given.
TEST_F(KeptSearch, KeepsMasksAndWhatIsSaidOfMutants) {
  GraphBuilder b;
  NodeId y = b.input("x", Type::tensor(DType::f32, {1, 4, 14, 14}));
  for (int i = 0; i < 2; ++i) {
    NodeId w = b.constant(filled({4, 4, 3, 3}, static_cast<float>(i), 1));
    y = b.op("relu", {b.op("conv", {y, w}, Conv{{1, 1}, {2, 2}, {2, 2, 2, 2}, 1})});
  }
  b.output("y", y);
  Graph g = std::move(b).build();
  auto price = [](const PricedNode& n) {
    const OpDef& def = op_def(n.op);
    if (def.name == "conv") return n.attrs.get<Dims>("dilations")[0] > 1 ? 1e-2 : 1e-3;
    return def.name == "view" ? 1e-4 : 1e-6;
  };
  options.prices = made_up(price, "made up");
  options.mutate = {.enable = {"dilation-into-mosaic"}, .disable = {"*"}};
  Searched first = search(g), second = search(g);
  EXPECT_FALSE(first.report.recalled);
  EXPECT_TRUE(second.report.recalled);
  EXPECT_NE(print(first.graph).find("where"), std::string::npos);
  EXPECT_EQ(print(first.graph, {.all_constants = true}),
            print(second.graph, {.all_constants = true}));
  const auto &before = first.report.mutated.mutants, &after = second.report.mutated.mutants;
  ASSERT_FALSE(before.empty());
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].mutation, before[i].mutation);
    EXPECT_EQ(after[i].site, before[i].site);
    EXPECT_EQ(after[i].parameters, before[i].parameters);
    EXPECT_EQ(after[i].outcome, before[i].outcome);
    EXPECT_EQ(after[i].reason, before[i].reason);
    EXPECT_EQ(after[i].share, before[i].share);
  }
  // What was proven is known to the next search, of another program of these layers.
  EXPECT_GT(first.report.mutated.proofs, 0u);
  Searched again = search(g, true);
  EXPECT_EQ(again.report.mutated.proofs, 0u);
  EXPECT_GT(again.report.mutated.known, 0u);
}

}  // namespace
}  // namespace emend
