#include "saturate/saturate.h"

#include <gtest/gtest.h>

#include "ops/table.h"
#include "text/text.h"

namespace emend {
namespace {

// Are these the same class?
bool joined(const TensorEGraph& g) {
  auto roots = g.roots();
  return roots.size() == 2 && roots[0] == roots[1];
}

SaturateOptions only(std::vector<std::string> rules) {
  return {.enable = std::move(rules), .disable = {"*"}};
}

}  // namespace

TEST(Flatten, OperandsThatCommuteAreMetInEitherOrder) {
  Rule r = rule("r", "(add (mul ?x ?y) 1)", "(add 1 (mul ?x ?y))");
  Vocabulary words{{op_named("add"), {2}}, {op_named("mul"), {2}}};
  EXPECT_EQ(flatten(r.lhs, r.variables, words).size(), 4u);
  words.erase(op_named("mul"));
  EXPECT_TRUE(flatten(r.lhs, r.variables, words).empty());
}

TEST(Flatten, RepeatedPartsTakeTheNumbersThatOccur) {
  Rule r = rule("r", "(concat[?a] (relu ?x*)...)", "(relu (concat[?a] ?x*...))");
  Vocabulary words{{op_named("concat"), {2, 3}}, {op_named("relu"), {1}}};
  auto flat = flatten(r.lhs, r.variables, words);
  ASSERT_EQ(flat.size(), 2u);
  EXPECT_EQ(flat[0].atoms.size(), 3u);
  EXPECT_EQ(flat[1].atoms.size(), 4u);
}

TEST(Flatten, OperatorVariablesStandForOneOperatorAtATime) {
  Rule r = rule("r", "(?f:unary (reshape[?a] ?x))", "(reshape[?a] (?f ?x))");
  Vocabulary words{{op_named("relu"), {1}}, {op_named("exp"), {1}}, {op_named("reshape"), {1}}};
  EXPECT_EQ(flatten(r.lhs, r.variables, words).size(), 2u);
}

TEST(Saturate, EqualProgramsBecomeOneClass) {
  Graph g = parse_graph(
      "graph(a: f32[4,5], b: f32[5,6], c: f32[6,7]) {\n"
      "  return matmul(matmul(a, b), c), matmul(a, matmul(b, c))\n}\n");
  EXPECT_FALSE(joined(*saturate(g, only({}))));
  EXPECT_TRUE(joined(*saturate(g, only({"matmul-associates"}))));
  EXPECT_EQ(saturate(g, only({"matmul-associates"}))->engine().faults(),
            std::vector<std::string>());
}

// True, and of no use: each says the same sum in a way that nobody asked for.
std::vector<Rule> useless_rules(int count) {
  std::vector<Rule> rules;
  for (int i = 0; i < count; ++i) {
    std::string number = str(2 + i);
    rules.push_back(rule("useless-" + number, "(add ?x ?y)",
                         "(sub (add ?x (add ?y " + number + ")) " + number + ")"));
  }
  return rules;
}

// What is near is looked at before what is far, however much there is of the latter.
TEST(Saturate, UselessRulesDoNotCrowdOutUsefulOnes) {
  std::string body, sum = "x0";
  std::string inputs = "x0: f32[8]";
  for (int i = 1; i < 12; ++i) {
    inputs += str(", x", i, ": f32[8]");
    sum = str("add(", sum, ", x", i, ")");
  }
  // Two steps apart: both products are moved outwards.
  Graph g = parse_graph("graph(" + inputs +
                        ", a: f32[4,5], b: f32[5,6], c: f32[6,7], d: f32[7,8], e: f32[8,9]) {\n"
                        "  return " +
                        sum +
                        ",\n    matmul(matmul(matmul(matmul(a, b), c), d), e), "
                        "matmul(a, matmul(b, matmul(c, matmul(d, e))))\n}\n");
  for (int useless : {0, 30, 200}) {
    SaturateOptions options{.nodes = 600};
    options.rules = useless_rules(useless);
    options.rules.push_back(*find_rule("matmul-associates"));
    auto found = saturate(g, options);
    auto roots = found->roots();
    EXPECT_EQ(roots[1], roots[2]) << useless << " useless rules";
  }
}

TEST(Saturate, GroupsAreMergedWhole) {
  Graph g = parse_graph(
      "graph(x: f32[4,5], u: f32[5,2], v: f32[5,3], w: f32[5,4]) {\n"
      "  return matmul(x, u), matmul(x, v), matmul(x, w)\n}\n");
  SaturateReport report;
  auto egraph = saturate(g, only({"merge-matmuls-left"}), &report);
  EXPECT_EQ(report.stopped, StopReason::saturated);
  ASSERT_EQ(report.fired.size(), 1u);
  EXPECT_EQ(report.fired[0].times, 2u);
  // A product of all three and one of the first two; what was merged is not merged again.
  EXPECT_EQ(egraph->vocabulary().at(op_named("concat")), (std::set<size_t>{2, 3}));
}

TEST(Saturate, TheSameProductsAreMergedOverEachOperandTheyShare) {
  Graph g = parse_graph(
      "graph(x: f32[4,5], a: f32[5,6], u: f32[6,2], v: f32[6,3]) {\n"
      "  return matmul(matmul(x, a), u), matmul(matmul(x, a), v)\n}\n");
  SaturateReport report;
  auto egraph = saturate(g, only({"merge-matmuls-left", "matmul-associates"}), &report);
  auto merged = std::ranges::find(report.fired, "merge-matmuls-left", &SaturateReport::Fired::rule);
  ASSERT_NE(merged, report.fired.end());
  EXPECT_GE(merged->times, 2u);  // over x a, and over x once products are associated
}

TEST(Saturate, NodeLimitEndsItWithoutLosingAnything) {
  Graph g = parse_graph(
      "graph(a: f32[4], b: f32[4], c: f32[4], d: f32[4], e: f32[4], f: f32[4]) {\n"
      "  return add(a, add(b, add(c, add(d, add(e, f)))))\n}\n");
  SaturateOptions options = only({"add-associates"});
  options.nodes = 40;
  SaturateReport report;
  auto egraph = saturate(g, options, &report);
  EXPECT_EQ(report.stopped, StopReason::nodes);
  EXPECT_LE(report.nodes, g.size() + 40);
  EXPECT_EQ(egraph->engine().faults(), std::vector<std::string>());
}

// What a sum of seven is in any order and any brackets are few classes, and very many ways to
// choose three levels of them.
TEST(Saturate, ARuleWithMoreMatchesThanThereIsRoomForIsGivenUp) {
  Graph g = parse_graph(
      "graph(a: f32[4], b: f32[4], c: f32[4], d: f32[4], e: f32[4], f: f32[4], h: f32[4]) {\n"
      "  return add(a, add(b, add(c, add(d, add(e, add(f, h))))))\n}\n");
  SaturateOptions options;
  options.rules = {*find_rule("add-associates"), *find_rule("add-commutes"),
                   rule("deep", "(add (add (add ?a ?b) (add ?c ?d)) (add ?e ?f))",
                        "(add (add (add ?a ?c) (add ?b ?d)) (add ?e ?f))")};
  options.back_off = {.matches = 200, .rounds = 100};  // it is looked at when all the rest is there
  options.bytes = size_t{1} << 20;
  SaturateReport report;
  auto egraph = saturate(g, options, &report);
  EXPECT_EQ(report.stopped, StopReason::bytes);
  EXPECT_EQ(egraph->vocabulary().at(op_named("add")), std::set<size_t>{2});
  EXPECT_LT(egraph->engine().bytes(), options.bytes) << "there is room for the e-graph itself";
  options.bytes <<= 10;
  saturate(g, options, &report);
  EXPECT_EQ(report.stopped, StopReason::saturated);
}

}  // namespace emend
