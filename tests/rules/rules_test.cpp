// Every rule of the table is true over varied shapes and would not pass if it were wrong; rules
// that are known to be wrong are refused.
#include <gtest/gtest.h>

#include "rules/check.h"

namespace emend {
namespace {

class EveryRule : public testing::TestWithParam<size_t> {};

TEST_P(EveryRule, HoldsAndItsTwinsDoNot) {
  const Rule& rule = all_rules()[GetParam()];
  RuleCheck check = check_rule(rule);
  EXPECT_TRUE(check.holds) << to_text(rule) << "\n" << check.reason;
  EXPECT_GE(check.assignments, 8);
  EXPECT_GE(check.refuted, 1);
}

std::string name_of(const testing::TestParamInfo<size_t>& info) {
  std::string name = all_rules()[info.param].name;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryRule, testing::Range(size_t{0}, all_rules().size()), name_of);

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
}

}  // namespace
}  // namespace emend
