// Every mutation on random shapes: what is proven equals the original at every position, by the
// interpreter over the prime field, which knows nothing of terms or boxes.
#include "mutate/mutate.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "base/rng.h"
#include "equiv/compare.h"
#include "ops/contraction.h"
#include "ops/table.h"
#include "pipeline/improve.h"
#include "rules/draw.h"
#include "rules/match.h"
#include "support/made_up_prices.h"
#include "support/mutants.h"
#include "text/text.h"

namespace emend {
namespace {

class EveryMutation : public testing::TestWithParam<size_t> {};

TEST_P(EveryMutation, IsEqualWhereverItIsSaidToBe) {
  const Mutation& m = all_mutations()[GetParam()];
  Rng rng(GetParam() + 1);
  size_t shapes = 0, proven = 0, tried = 0;
  std::map<std::string, int> outcomes;
  for (int draws = 0; shapes < cases(60) && draws < 200000; ++draws) {
    auto drawn = draw_instance(m.rule, draws % 2 ? DrawnSizes::different : DrawnSizes::alike, rng);
    if (!drawn) continue;
    PricedNode site = site_of(drawn->builder.graph(), drawn->left[0]);
    MutateReport report;
    std::vector<Rule> rules = mutate({site}, {.mutations = {m}}, &report);
    if (report.mutants.empty()) continue;
    ++shapes;
    tried += report.mutants.size();
    for (const auto& one : report.mutants) ++outcomes[str(to_text(one.outcome), " ", one.method)];
    Graph original = program_of(site, nullptr);
    for (const Rule& r : rules) {
      ++proven;
      ASSERT_TRUE(equal_everywhere(original, program_of(site, &r))) << to_text(r) << "\n"
                                                                    << print(original);
    }
  }
  std::cout << m.rule.name << ": " << shapes << " shapes, " << tried << " mutants, " << proven
            << " proven";
  for (const auto& [what, n] : outcomes) std::cout << "; " << what << " " << n;
  std::cout << "\n";
  EXPECT_GE(shapes, cases(60));
  EXPECT_GT(proven, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, EveryMutation, testing::Range<size_t>(0, all_mutations().size()),
                         [](const auto& info) {
                           std::string name = all_mutations()[info.param].rule.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Mutants, TilesWithAHaloAreOffered) {
  MutateReport report;
  mutate({conv_site({1, 48, 38, 38}, {64, 48, 5, 5}, {{1, 1}, {1, 1}, {2, 2, 2, 2}, 1})}, {},
         &report);
  auto found = std::find_if(report.mutants.begin(), report.mutants.end(), [](const auto& m) {
    return m.mutation == "space-into-batch" && m.parameters == "t=4, q=4";
  });
  ASSERT_NE(found, report.mutants.end());
  EXPECT_EQ(found->outcome, MutateReport::Mutant::Outcome::equal);
  EXPECT_EQ(found->method, "terms");
}

TEST(Mutants, WhatIsTooDearIsNotProposed) {
  PricedNode site = conv_site({1, 8, 12, 12}, {8, 8, 3, 3}, {{1, 1}, {2, 2}, {2, 2, 2, 2}, 1});
  site.seconds = 1;
  MutateOptions options{.price = [](const Graph&, const std::vector<bool>&, bool) { return 2.0; }};
  MutateReport report;
  EXPECT_TRUE(mutate({site}, options, &report).empty());
  ASSERT_FALSE(report.mutants.empty());
  for (const auto& m : report.mutants) EXPECT_NE(m.reason.find("takes"), std::string::npos);
}

TEST(Mutants, AreSwitchedOffByName) {
  PricedNode site = conv_site({1, 8, 12, 12}, {8, 8, 3, 3}, {{1, 1}, {2, 2}, {2, 2, 2, 2}, 1});
  MutateReport report;
  mutate({site}, {.enable = {"dilation-into-batch"}, .disable = {"*"}}, &report);
  ASSERT_EQ(report.mutants.size(), 1u);
  EXPECT_EQ(report.mutants[0].mutation, "dilation-into-batch");
}

// Only a dilated convolution is dear, and a view is dearer than what stands between two.
SearchPrices dilation_is_dear() {
  return made_up([](const PricedNode& n) {
    const OpDef& def = op_def(n.op);
    if (def.kind == Kind::structure) return 0.0;
    if (def.name == "conv") return n.attrs.get<Dims>("dilations")[0] > 1 ? 1e-2 : 1e-3;
    return def.name == "view" ? 1e-4 : 1e-6;
  });
}

TEST(Mutants, ALayoutIsKeptFromTheFirstLayerToTheLast) {
  GraphBuilder b;
  NodeId y = b.input("x", Type::tensor(DType::f32, {1, 4, 14, 14}));
  Rng rng(3);
  for (int layer = 0; layer < 6; ++layer) {
    auto some = [&](Dims shape) {
      std::vector<double> v(static_cast<size_t>(count(shape)));
      for (double& x : v) x = static_cast<double>(rng.between(-3, 3));
      return b.constant(Tensor::of_reals(DType::f32, std::move(shape), v));
    };
    y = b.op("conv", {y, some({4, 4, 3, 3})}, Conv{{1, 1}, {2, 2}, {2, 2, 2, 2}, 1});
    y = b.op("relu", {b.op("add", {y, some({4, 1, 1})})});
  }
  b.output("y", y);
  Graph g = std::move(b).build();
  for (const char* how : {"dilation-into-batch", "dilation-into-mosaic"}) {
    ImproveReport report;
    Graph better = improve(
        g, {.mutate = {.enable = {how}, .disable = {"*"}}, .prices = dilation_is_dear()}, &report);
    int views = 0, dilated = 0, masks = 0;
    for (const Node& n : better.nodes) {
      views += op_def(n).name == "view";
      masks += op_def(n).name == "where";
      dilated += op_def(n).name == "conv" && n.attrs.get<Dims>("dilations")[0] > 1;
    }
    EXPECT_EQ(views, 2) << how << "\n" << print(better);
    EXPECT_EQ(dilated, 0) << how;
    EXPECT_EQ(masks, std::string(how) == "dilation-into-mosaic" ? 5 : 0);
    EXPECT_EQ(to_text(compare(g, better).kind), "equal") << how;
  }
}

}  // namespace
}  // namespace emend
