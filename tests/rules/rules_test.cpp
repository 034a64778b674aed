// Every rule of the table is true over varied shapes and would not pass if it were wrong; rules
// that are known to be wrong are refused.
#include <gtest/gtest.h>

#include "ops/build.h"
#include "rules/check.h"
#include "rules/match.h"

namespace emend {
namespace {

// The table, with rules that hold both ways once for each.
const std::vector<Rule>& directions() {
  static const std::vector<Rule> kAll = [] {
    std::vector<Rule> all;
    for (const Rule& r : all_rules()) {
      all.push_back(r);
      if (r.both) all.push_back(reversed(r));
    }
    return all;
  }();
  return kAll;
}

class EveryRule : public testing::TestWithParam<size_t> {};

TEST_P(EveryRule, HoldsAndItsTwinsDoNot) {
  const Rule& rule = directions()[GetParam()];
  RuleCheck check = check_rule(rule);
  EXPECT_TRUE(check.holds) << to_text(rule) << "\n" << check.reason;
  EXPECT_GE(check.assignments, 8);
  EXPECT_GE(check.refuted, 1);
}

std::string name_of(const testing::TestParamInfo<size_t>& info) {
  std::string name = directions()[info.param].name;
  for (char& c : name) c = c == '-' ? '_' : c;
  bool back = info.param > 0 && directions()[info.param - 1].name == directions()[info.param].name;
  return name + (back ? "_back" : "");
}

INSTANTIATE_TEST_SUITE_P(Table, EveryRule, testing::Range(size_t{0}, directions().size()), name_of);

// The sides differ somewhere, and that is why it is refused.
void expect_refuted(const Rule& rule) {
  RuleCheck check = check_rule(rule);
  EXPECT_FALSE(check.holds) << to_text(rule);
  EXPECT_NE(check.reason.find("the sides differ"), std::string::npos) << check.reason;
}

TEST(WrongRule, GroupedConvolutionsMergedWithoutEqualGroups) {
  // TASO's rule: the merged convolution's groups divide evenly, but filters meet other channels.
  expect_refuted(
      rule("concat-conv-any-groups",
           "(concat[axis=1] (conv[strides=?s, dilations=?d, pads=?p, group=?g] ?x ?w)"
           " (conv[strides=?s, dilations=?d, pads=?p, group=?h] ?y ?v))",
           "(conv[strides=?s, dilations=?d, pads=?p, group=(sum ?g ?h)] (concat[axis=1] ?x ?y)"
           " (concat[axis=0] ?w ?v))",
           {}, "x:[n,c*g,h,w] w:[f*g,c,r,s] y:[n,c*k,h,w] v:[d*k,c,r,s]"));
}

TEST(WrongRule, FiltersOfGroupedConvolutionsAppended) {
  expect_refuted(rule("concat-grouped-filters", "(concat[axis=1] (conv[?a] ?x ?w*)...)",
                      "(conv[?a] ?x (concat[axis=0] ?w*...))", {}, "x:[n,c*g,h,w] w*:[f*g,c,r,s]"));
}

TEST(WrongRule, ConvolutionOfABroadcastSum) {
  expect_refuted(rule("conv-adds-broadcast", "(conv[?a] (add ?x ?y) ?w)",
                      "(add (conv[?a] ?x ?w) (conv[?a] ?y ?w))", {},
                      "x:[n,c,h,w] y:[n,c,1,1] w:[f,c,r,s]"));
}

TEST(WrongRule, SplitAtAnotherPosition) {
  // Parts of equal size, so that the types agree whatever order they come in.
  expect_refuted(rule("split-other-part",
                      "(get[index=1] (split[axis=0, sizes=?s] (concat[axis=0] ?x ?y)))", "?x", {},
                      "x:[a,b] y:[a,b]"));
}

TEST(WrongRule, ReluOfAnyMultiple) {
  expect_refuted(
      rule("relu-any-scale", "(relu (mul ?a ?x))", "(mul ?a (relu ?x))", {}, "a:~[a,b] x:[a,b]"));
}

TEST(WrongRule, PaddingWithOnesIntoConvolution) {
  expect_refuted(rule("pad-ones-into-conv", "(conv[?a, pads=?p] (pad[pads=?q, value=1] ?x) ?w)",
                      "(conv[?a, pads=(sum ?p (spatial ?q))] ?x ?w)",
                      {"(spatial_only ?q)", "(at_least ?q 0)"}, "x:[n,c,h,w] w:[f,c,r,s]"));
}

TEST(WrongRule, TransposesComposedTheWrongWay) {
  expect_refuted(rule("transpose-swapped", "(transpose[perm=?p] (transpose[perm=?q] ?x))",
                      "(transpose[perm=(gather ?p ?q)] ?x)"));
}

TEST(WrongRule, MergedProductsInTheWrongOrder) {
  expect_refuted(rule("merge-swapped", "(tuple (matmul ?x ?w) (matmul ?x ?v))",
                      "(split[axis=1, sizes=(list (dim ?v 1) (dim ?w 1))]"
                      " (matmul ?x (concat[axis=1] ?v ?w)))",
                      {}, "x:[a,b] w:[b,c] v:[b,c]"));
}

TEST(Groups, AreThoseThatPassPartedByWhatMustBeAlike) {
  const Rule& merge = *find_rule("merge-convs-input");
  ASSERT_TRUE(merge.merges_group());
  GraphBuilder b;
  auto input = [&](const char* name, Dims shape) {
    return b.input(name, Type::tensor(DType::f32, std::move(shape)));
  };
  NodeId x = input("x", {1, 4, 8, 8});
  std::vector<NodeId> weights = {input("a", {2, 4, 3, 3}), input("b", {3, 4, 1, 1}),
                                 input("c", {5, 4, 3, 3}), input("d", {6, 4, 5, 5})};
  Match all;
  all.substitution.resize(merge.variables.names.size());
  Variables names = merge.variables;
  bind_term(names, all.substitution, names.index("x"), -1, Term(x.value));
  for (size_t i = 0; i < weights.size(); ++i) {
    bind_term(names, all.substitution, names.index("w*"), static_cast<int>(i),
              Term(weights[i].value));
  }
  Dims ones = {1, 1};
  NodeId conv = b.op("conv", {x, weights[0]},
                     Attrs({{"strides", ones}, {"dilations", ones}, {"pads", Dims{0, 0, 0, 0}}}));
  Attrs attrs = b.graph().nodes[conv].attrs;
  bind_attr(names, all.substitution, names.index("a"), -1, attrs);
  TermFacts facts = facts_of(b.graph());
  auto groups = groups_of(merge, all.substitution, facts);
  ASSERT_EQ(groups.size(), 1u);  // the first and the third; the others are alone
  EXPECT_EQ(groups[0].items, (std::vector<uint32_t>{0, 2}));
  Type small = Type::tensor(DType::f32, {1, 2, 6, 6}),
       large = Type::tensor(DType::f32, {1, 5, 6, 6});
  auto plan = apply(merge, groups[0].substitution, facts, std::vector{small, large});
  ASSERT_TRUE(plan) << plan.error();
  EXPECT_EQ(plan->results.size(), 2u);
  EXPECT_EQ(type_of(*plan, plan->results[1], facts), large);
  // All four as they are do not pass the guard.
  EXPECT_FALSE(holds(merge, all.substitution, facts));
}

TEST(Facts, WeightsDependOnNoInput) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {2}));
  NodeId c = b.constant(Tensor::of_real(2, DType::f32));
  NodeId w = b.op("sqrt", {c}), y = b.op("mul", {x, w});
  TermFacts facts = facts_of(b.graph());
  EXPECT_TRUE(facts.weight_only(Term(c.value)));
  EXPECT_TRUE(facts.weight_only(Term(w.value)));
  EXPECT_FALSE(facts.weight_only(Term(x.value)));
  EXPECT_FALSE(facts.weight_only(Term(y.value)));
  EXPECT_EQ(facts.constant(Term(w.value)), nullptr);
}

TEST(RuleText, SaysWhatIsWrong) {
  auto message = [](auto make) {
    try {
      make();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message([] { rule("r", "(add ?x 0)", "?y"); }).find("?y does not occur on the left"),
            std::string::npos);
  EXPECT_NE(message([] { rule("r", "(ad ?x 0)", "?x"); }).find("no operator is called ad"),
            std::string::npos);
  EXPECT_NE(message([] { rule("r", "(reshape[shap=?s] ?x)", "?x"); }).find("no attribute shap"),
            std::string::npos);
  EXPECT_NE(message([] { rule("r", "(add ?x 0)", "?x", {"(big ?x)"}); }).find("called big"),
            std::string::npos);
  EXPECT_NE(message([] { rule("r", "(tuple (neg ?x) (abs ?y*)...)", "?x"); }).find("list of"),
            std::string::npos);
  EXPECT_NE(message([] { rule("r", "(neg ?x)", "(tuple ?x)"); }).find("only the right side"),
            std::string::npos);
}

}  // namespace
}  // namespace emend
