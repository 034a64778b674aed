// Synthesis: what is false is refuted, what is true under a condition gets it, what follows is not
// said twice, and the same seed says the same.
#include "synthesize/synthesize.h"

#include <gtest/gtest.h>

#include "synthesize/axioms.h"

namespace emend {
namespace {

const Alternatives& alternatives() {
  static const Alternatives kAll = [] {
    std::vector<std::string> operations = more_operations();
    for (const Menu& m : default_menus())
      operations.insert(operations.end(), m.operations.begin(), m.operations.end());
    return alternatives_of(operations);
  }();
  return kAll;
}

Verified verified(const char* inputs, const char* left, const char* right) {
  Calculator calculator;
  return verify(parse_equation(inputs, left, right), alternatives(), {}, calculator);
}

void expect_refuted(const char* inputs, const char* left, const char* right) {
  Verified v = verified(inputs, left, right);
  EXPECT_FALSE(v.holds) << to_text(v.equation);
  EXPECT_NE(v.reason.find("the sides differ at"), std::string::npos) << v.reason;
}

constexpr const char* kConv = "conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1], group=1]";
constexpr const char* kHalves = "conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1], group=2]";

std::string conditions(const Verified& v) {
  std::string out;
  for (const AttrExpr& w : v.equation.where) out += to_text(w, v.equation.variables);
  return out;
}

TEST(Verify, RefutesWhatIsFalse) {
  expect_refuted("x:[a,b] y:[a,b]", "(add ?x ?y)", "(mul ?x ?y)");
  expect_refuted("x:[a,b] s:[]", "(relu (mul ?x ?s))", "(mul ?s (relu ?x))");
  // Among sixteen numbers of both signs one is hardly ever not above zero.
  expect_refuted("x:[n,c,h,w]",
                 "(max_pool[kernel=[4,4], strides=[1,1], dilations=[1,1], pads=[0,0,0,0]] ?x)",
                 "(relu (max_pool[kernel=[4,4], strides=[1,1], dilations=[1,1], pads=[0,0,0,0]] "
                 "?x))");
}

TEST(Verify, KnowsWhatLiesBetweenIntegers) {
  // True of every integer.
  expect_refuted("x:[a,b] J:ones[a,b]", "(relu (mul ?x (add ?x ?J)))", "(mul ?x (add ?x ?J))");
}

TEST(Verify, FindsThatSumsOfConvolutionsMustNotBroadcast) {
  std::string conv = kConv;
  Verified v = verified("x:[n,c,h,w] y:[n,c,h,w] k:filter[f,c,r,t]",
                        ("(" + conv + " (add ?x ?y) ?k)").c_str(),
                        ("(add (" + conv + " ?x ?k) (" + conv + " ?y ?k))").c_str());
  ASSERT_TRUE(v.holds) << v.reason;
  EXPECT_GT(v.failed, 0);
  EXPECT_EQ(conditions(v), "(same_shape ?x ?y)");
  // And that it holds for every other attribute.
  EXPECT_NE(to_text(v.equation).find("conv[?a0] (add"), std::string::npos) << to_text(v.equation);
}

// TASO's rule for grouped convolutions, which it checked on equal sizes only.
Verified merged_groups() {
  std::string conv = kConv, halves = kHalves;
  return verified("x:[n,c,h,w] y:[n,c,h,w] k:filter[f,c,r,t] l:filter[f,c,r,t]",
                  ("(concat[axis=1] (" + conv + " ?x ?k) (" + conv + " ?y ?l))").c_str(),
                  ("(" + halves + " (concat[axis=1] ?x ?y) (concat[axis=0] ?k ?l))").c_str());
}

TEST(Verify, FindsThatMergedGroupsNeedEquallyManyFilters) {
  Verified v = merged_groups();
  ASSERT_TRUE(v.holds) << v.reason;
  EXPECT_GT(v.failed, 0);
  std::string where = conditions(v);
  EXPECT_TRUE(where == "(same_shape ?k ?l)" || where == "(equal (dim ?k 0) (dim ?l 0))") << where;
}

TEST(Derive, DoesNotApplyMergedGroupsWhereFiltersDiffer) {
  Verified v = merged_groups();
  ASSERT_TRUE(v.holds) << v.reason;
  std::vector<Directed> rules = {*directed(v.equation, false, "merged")};
  std::string conv = kConv, halves = kHalves;
  Equation e = parse_equation("x:[n,c,h,w] y:[n,c,h,w] k:filter[f,c,r,t] l:filter[e,c,r,t]",
                              "(concat[axis=1] (" + conv + " ?x ?k) (" + conv + " ?y ?l))",
                              "(" + halves + " (concat[axis=1] ?x ?y) (concat[axis=0] ?k ?l))");
  SizeTable sizes = {{"n", 2}, {"c", 1}, {"h", 4}, {"w", 5},
                     {"r", 3}, {"t", 2}, {"f", 2}, {"e", 2}};
  EXPECT_TRUE(derivable(e, sizes, rules, {}));
  sizes["f"] = 1;
  sizes["e"] = 3;
  EXPECT_FALSE(derivable(e, sizes, rules, {}));
}

TEST(Verify, FindsThatAppendedFiltersWantOneGroup) {
  std::string conv = kConv;
  Verified v = verified("x:[n,c,h,w] k:filter[f,c,r,t] l:filter[e,c,r,t]",
                        ("(concat[axis=1] (" + conv + " ?x ?k) (" + conv + " ?x ?l))").c_str(),
                        ("(" + conv + " ?x (concat[axis=0] ?k ?l))").c_str());
  ASSERT_TRUE(v.holds) << v.reason;
  EXPECT_NE(to_text(v.equation).find("conv[?a0, group=1]"), std::string::npos)
      << to_text(v.equation);
}

TEST(Verify, KeepsSplitsAtTheirPlace) {
  Verified v =
      verified("x:[a,b] y:[a,c]",
               "(get[index=0] (split[axis=1, sizes=(list ?b ?c)] (concat[axis=1] ?x ?y)))", "?x");
  EXPECT_TRUE(v.holds) << v.reason;
  expect_refuted("x:[a,b] y:[a,b]",
                 "(get[index=1] (split[axis=1, sizes=(list ?b ?b)] (concat[axis=1] ?x ?y)))", "?x");
}

TEST(Derive, FollowsWhatIsImpliedAndNoMore) {
  std::vector<Directed> rules;
  auto know = [&](const char* left, const char* right) {
    Equation e = parse_equation("x:[a,b] y:[a,b] z:[a,b]", left, right);
    for (bool reversed : {false, true}) {
      if (auto r = directed(e, reversed, "known")) rules.push_back(*r);
    }
  };
  know("(add ?x ?y)", "(add ?y ?x)");
  Equation wanted =
      parse_equation("x:[a,b] y:[a,b] z:[a,b] u:[a,b]", "(add (add ?x ?y) (add ?z ?u))",
                     "(add ?u (add ?y (add ?z ?x)))");
  SizeTable sizes = {{"a", 2}, {"b", 3}};
  EXPECT_FALSE(derivable(wanted, sizes, rules, {}));
  know("(add ?x (add ?y ?z))", "(add (add ?x ?y) ?z)");
  EXPECT_TRUE(derivable(wanted, sizes, rules, {}));
  Equation other = parse_equation("x:[a,b] y:[a,b]", "(add ?x ?y)", "(mul ?x ?y)");
  EXPECT_FALSE(derivable(other, sizes, rules, {}));
}

TEST(Derive, OnlyTakesConstantsForWhatTheyAre) {
  Equation e = parse_equation("x:[a,b] I:identity[b,b]", "(matmul ?x ?I)", "?x");
  std::vector<Directed> rules = {*directed(e, false, "identity")};
  SizeTable sizes = {{"a", 2}, {"b", 3}};
  EXPECT_TRUE(derivable(e, sizes, rules, {}));
  Equation other = parse_equation("x:[a,b] y:[b,b]", "(matmul ?x ?y)", "?x");
  EXPECT_FALSE(derivable(other, sizes, rules, {}));
}

const Menu& tiny_menu() {
  static const Menu kMenu = {"tiny", "x:[a,b] y:[a,b] z:[a,b]", {"(add ?p ?q)", "(mul ?p ?q)"}};
  return kMenu;
}

std::string text_of(const SynthesizeReport& r) {
  std::string out;
  for (const Found& f : r.found) out += to_text(f.equation) + "\n";
  return out;
}

TEST(Synthesize, FindsTheLawsOfSumsAndProducts) {
  SynthesizeReport r = synthesize({.menus = {tiny_menu()}});
  // Commutative and associative both, and one distributes over the other.
  EXPECT_EQ(r.found.size(), 5u) << text_of(r);
  ASSERT_EQ(r.menus.size(), 1u);
  EXPECT_TRUE(r.menus[0].complete);
  EXPECT_GT(r.menus[0].derivable, 0);
  EXPECT_LT(r.menus[0].kept, r.menus[0].terms);
  std::vector<Axiom> axioms(taso_axioms().begin(), taso_axioms().begin() + 5);
  std::vector<Equation> equations;
  for (const Found& f : r.found) equations.push_back(f.equation);
  for (const AxiomReport& a : compare_axioms(axioms, equations, rules_of(r.found), {}, 1))
    EXPECT_NE(a.standing, Standing::missing) << a.text;
}

TEST(Synthesize, SaysTheSameTwice) {
  EXPECT_EQ(text_of(synthesize({.menus = {tiny_menu()}, .seed = 3})),
            text_of(synthesize({.menus = {tiny_menu()}, .seed = 3})));
}

TEST(Synthesize, FindsNothingThatIsKnown) {
  SynthesizeReport first = synthesize({.menus = {tiny_menu()}});
  SynthesizeReport second = synthesize({.menus = {tiny_menu()}, .known = rules_of(first.found)});
  EXPECT_EQ(text_of(second), "");
}

TEST(Synthesize, StopsAtItsLimit) {
  SynthesizeReport r = synthesize({.menus = {tiny_menu()}, .bank = {.terms = 20}});
  EXPECT_FALSE(r.menus[0].complete);
}

TEST(Synthesize, ReportsMistakesInMenus) {
  Menu menu = tiny_menu();
  menu.operations = {"(split[axis=0, sizes=(list ?a ?d)] ?p)"};
  EXPECT_THROW(synthesize({.menus = {menu}}), Error);
  menu.operations = {"(add ?p 1)"};
  EXPECT_THROW(synthesize({.menus = {menu}}), Error);
}

// The yardstick itself: 44 of them, none implied by nothing, all of them true.
TEST(Axioms, AreTrueAndNotForFree) {
  EXPECT_EQ(taso_axioms().size(), 44u);
  int missing = 0;
  for (const AxiomReport& a : compare_axioms(taso_axioms(), {}, {}, {}, 1))
    missing += a.standing == Standing::missing;
  EXPECT_EQ(missing, 43);  // one says x = x in our operators
  Calculator calculator;
  for (const Axiom& a : axiom_readings(taso_axioms())) {
    if (a.left == a.right) continue;
    Verified v = verify(parse_equation(a.inputs, a.left, a.right), {}, {.trials = 40}, calculator);
    EXPECT_TRUE(v.holds) << a.left << " = " << a.right << ": " << v.reason;
  }
}

}  // namespace
}  // namespace emend
