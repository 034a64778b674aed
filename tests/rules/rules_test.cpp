// Every rule of the table is true over varied shapes and would not pass if it were wrong; rules
// that are known to be wrong are refused.
#include <gtest/gtest.h>

#include "ops/build.h"
#include "rules/check.h"
#include "rules/match.h"
#include "text/text.h"

namespace emend {
namespace {

// The tables, with rules that hold both ways once for each.
const std::vector<Rule>& directions() {
  static const std::vector<Rule> kAll = [] {
    std::vector<Rule> all;
    for (const Rule& r : all_rules()) {
      all.push_back(r);
      if (r.both) all.push_back(reversed(r));
    }
    for (const Rule& r : tensat_rules()) all.push_back(r);
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
  const Rule& rule = directions()[info.param];
  std::string name = (rule.theme == "tensat" ? "tensat_" : "") + rule.name;
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

TEST(WrongRule, SignsOfIntegersThatHaveNone) {
  // True of floats; -200 of u8 is 56.
  expect_refuted(rule("abs-neg-any", "(abs (neg ?x))", "(abs ?x)"));
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

TEST(WrongRule, ViewsOfWhatMakesSomethingOfNothing) {
  // exp(0) is 1, outside of a view is 0.
  expect_refuted(
      rule("view-through-any", "(view[map=?m] (exp ?x))", "(exp (view[map=?m] ?x))", {}));
  expect_refuted(rule("view-through-add", "(view[map=?m] (add ?x ?y))",
                      "(add (view[map=?m] ?x) ?y)", {"(passes_by ?m ?x ?y)"},
                      "x:[n,c,h,w] y:~[c,1,1]"));
}

TEST(WrongRule, ViewsThatForgetTheZerosBetween) {
  expect_refuted(rule("view-view-any", "(view[map=?m] (view[map=?n] ?x))",
                      "(view[map=(composed ?m ?n ?x)] ?x)", {}, "x:[a,b,6]"));
  expect_refuted(rule("view-forgets-any-mask", "(view[map=?m] (where ?c ?x 0))",
                      "(view[map=?m] ?x)", {}, "c:bool~[a,b] x:[a,b]"));
}

TEST(WrongRule, ABiasPastAViewOfItsOwnDimension) {
  // Equal sizes, so that the types agree although elements change places.
  expect_refuted(rule("view-through-bias", "(view[map=?m] (add ?x ?y))",
                      "(add (view[map=?m] ?x) ?y)", {"(total ?m ?x)"}, "x:[a,b] y:[1,b]"));
}

// --- Near misses: the table's own rules, where they must not fire ---

std::string repeated(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

// Does the rule apply at the program's result?
bool fires(const std::string& rule_name, const std::string& program) {
  Graph g = parse_graph(program);
  const Rule* rule = find_rule(rule_name);
  EXPECT_NE(rule, nullptr) << rule_name;
  NodeId root = g.outputs[0].node;
  TermFacts facts = facts_of(g);
  for (const Match& m : match(g, *rule, root)) {
    if (apply(*rule, m.substitution, facts, g.types[root])) return true;
  }
  return false;
}

std::string grouped(int first, int second) {
  const std::string window = "conv[strides=[1,1], dilations=[1,1], pads=[0,0,0,0], group=1]";
  return str("graph(x: f32[1,1,4,4], y: f32[1,1,4,4], w: f32[", first, ",1,3,3], v: f32[", second,
             ",1,3,3]) {\n  return z = concat[axis=1](", window, "(x, w), ", window,
             "(y, v))\n}\n");
}

TEST(NearMiss, GroupsOfUnequalFiltersAreNotMerged) {
  EXPECT_TRUE(fires("concat-conv-groups", grouped(2, 2)));
  // One filter and three: both divide evenly into two groups of two, and v's first meets x.
  EXPECT_FALSE(fires("concat-conv-groups", grouped(1, 3)));
}

TEST(NearMiss, ConvolutionOfABroadcastSumIsNotPulledApart) {
  auto sum = [](const char* y) {
    return str("graph(x: f32[1,2,4,4], y: f32", y,
               ", w: f32[3,2,3,3]) {\n  return z = conv[strides=[1,1], dilations=[1,1], "
               "pads=[1,1,1,1]](add(x, y), w)\n}\n");
  };
  EXPECT_TRUE(fires("conv-adds-inputs", sum("[1,2,4,4]")));
  EXPECT_FALSE(fires("conv-adds-inputs", sum("[1,2,1,1]")));
}

TEST(NearMiss, SplitAtAnotherPositionIsNotCancelled) {
  auto part = [](const char* sizes) {
    return str("graph(x: f32[2,3], y: f32[4,3]) {\n  return z = get[index=0](split[axis=0, sizes=",
               sizes, "](concat[axis=0](x, y)))\n}\n");
  };
  EXPECT_TRUE(fires("split-concat", part("[2,4]")));
  EXPECT_FALSE(fires("split-concat", part("[4,2]")));
  EXPECT_FALSE(fires("split-concat", part("[2,2,2]")));
}

// Two convolutions of one operand, a pixel and three by three, summed.
std::string pixel_and_three(const char* pads) {
  const char* const stride = "conv[strides=[2,2], dilations=[1,1], pads=";
  return str("graph(x: f32[1,2,6,6], w: f32[3,2,1,1], v: f32[3,2,3,3]) {\n  return z = add(",
             stride, "[0,0,0,0]](x, w), ", stride, pads, "](x, v))\n}\n");
}

TEST(NearMiss, KernelsAreNotEnlargedUnderSameUpper) {
  EXPECT_TRUE(fires("sum-of-convs-enlarged", pixel_and_three("[1,1,1,1]")));
  // What SAME_UPPER pads at stride two and even extents: nothing before, one behind.
  EXPECT_FALSE(fires("sum-of-convs-enlarged", pixel_and_three("[0,0,1,1]")));
}

TEST(WrongRule, KernelEnlargedAroundItsMiddleUnderSameUpper) {
  expect_refuted(rule("enlarge-centred",
                      "(add (conv[strides=[2,2], dilations=[1,1], pads=[0,0,0,0]] ?x ?w)"
                      " (conv[strides=[2,2], dilations=[1,1], pads=[0,0,1,1]] ?x ?v))",
                      "(conv[strides=[2,2], dilations=[1,1], pads=[0,0,1,1]] ?x"
                      " (add (pad[pads=[0,0,1,1,0,0,1,1]] ?w) ?v))",
                      {},
                      "x:[n,c,6,6] w:[f,c,1,1] v:[f,c,3,3] | x:[n,c,8,6] w:[f,c,1,1] v:[f,c,3,3]"));
}

TEST(NearMiss, ResidualsNeedTheMiddleTapOnTheElementItself) {
  auto residual = [](const char* pads) {
    return str("graph(x: f32[1,2,6,6]) {\n  %w = constant f32[2,2,3,3]{",
               "1.0" + repeated(", 0.5", 35),
               "}\n  return z = add(x, conv[strides=[1,1], "
               "dilations=[1,1], pads=",
               pads, "](x, %w))\n}\n");
  };
  EXPECT_TRUE(fires("conv-residual", residual("[1,1,1,1]")));
  EXPECT_FALSE(fires("conv-residual", residual("[0,0,2,2]")));
}

TEST(NearMiss, FactorsThatVaryAlongTheSumStayInside) {
  auto factor = [](const char* y) {
    return str("graph(x: f32[2,3], y: f32", y,
               ") {\n  return z = reduce_sum[axes=[1]](mul(x, y))\n}\n");
  };
  EXPECT_TRUE(fires("sum-pulls-factor", factor("[2,1]")));
  EXPECT_FALSE(fires("sum-pulls-factor", factor("[3]")));
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
