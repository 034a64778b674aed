// The rule set of TENSAT (Yang et al., MLSys 2021), for comparison with it: its families of
// directed rules over concat, add, mul, conv (stride one, SAME), relu and matmul, and its
// multi-patterns, two roots at a time. No part of all_rules(). Where its own rules are wrong
// (groups of unequal filters, sums that broadcast, splits without a position) the guards say what
// they mean; activations are operators here, so that its fusion of them needs no rule; twelve of
// its rules, that permute a sum of three used as input and as weights, cannot match anything and
// are left out.
#include "rules/rule.h"

namespace emend {
namespace {

constexpr const char* kSame = "strides=[1,1], dilations=[1,1], pads=?p";
// SAME, as pads that are explicit.
constexpr const char* kCentred = "(centred ?p ?w [1,1])";

std::string conv(const std::string& x, const std::string& w, const std::string& group = "1") {
  return str("(conv[", kSame, ", group=", group, "] ", x, " ", w, ")");
}
std::string concat(int axis, const std::string& operands) {
  return str("(concat[axis=", axis, "] ", operands, ")");
}
std::string halves(int axis, const std::string& a, const std::string& b, int of_axis,
                   const std::string& merged) {
  return str("(split[axis=", axis, ", sizes=(list (dim ", a, " ", of_axis, ") (dim ", b, " ",
             of_axis, "))] ", merged, ")");
}

// The five ways to bracket four factors, and every step between them that is not one of (a b) c ->
// a (b c) alone.
void add_bracketings(std::vector<Rule>& out) {
  const auto m = [](const std::string& x, const std::string& y) {
    return "(matmul " + x + " " + y + ")";
  };
  const std::string ab = m("?a", "?b"), bc = m("?b", "?c"), cd = m("?c", "?d");
  const std::string ways[] = {m(m(ab, "?c"), "?d"), m(m("?a", bc), "?d"), m(ab, cd),
                              m("?a", m(bc, "?d")), m("?a", m("?b", cd))};
  const auto is_one_step = [](int i, int j) {
    constexpr std::pair<int, int> kSteps[] = {{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 4}};
    for (auto [from, to] : kSteps) {
      if (i == from && j == to) return true;
    }
    return false;
  };
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 5; ++j) {
      if (i == j || is_one_step(i, j)) continue;
      out.push_back(reassociating(rule(str("four-factors-", i, "-", j), ways[i], ways[j], {},
                                       "a:[a,b] b:[b,c] c:[c,d] d:[d,e]")));
    }
  }
}

std::vector<Rule> make_table() {
  const std::string picture = "x:[n,c,h,w] w:[f,c,r,s]", again = " v:[f,c,r,s]";
  const Where matrices = {"(has_rank ?x 2)", "(has_rank ?w 2)"};
  const std::string pads = "(largest ?p ?q)";
  const std::string cat = "(concat[axis=?k] ", quads = "a:[a,b] b:[a,b] c:[c,b] d:[c,b]";
  // clang-format off
  std::vector<Rule> all = {
      reassociating(rule("add-turns",     "(add ?a (add ?b ?c))", "(add ?b (add ?a ?c))")),
      reassociating(rule("add-associates-left", "(add ?a (add ?b ?c))", "(add (add ?a ?b) ?c)")),
      reassociating(rule("mul-turns",     "(mul ?a (mul ?b ?c))", "(mul ?b (mul ?a ?c))")),
      reassociating(rule("mul-associates-left", "(mul ?a (mul ?b ?c))", "(mul (mul ?a ?b) ?c)")),
      reassociating(rule("add-shared",    "(add (add ?x ?y) (add ?x ?z))", "(add ?x (add ?x (add ?y ?z)))")),
      reassociating(rule("mul-shared",    "(mul (mul ?x ?y) (mul ?x ?z))", "(mul ?x (mul ?x (mul ?y ?z)))")),
      reassociating(rule("mul-over-add",  "(mul ?z (add ?x ?y))", "(add (mul ?x ?z) (mul ?y ?z))")),
      reassociating(rule("factor-out",    "(add (mul ?x ?y) (mul ?z (mul ?x ?y)))", "(mul ?x (add ?y (mul ?y ?z)))")),
      reassociating(rule("factor-in",     "(mul ?x (add ?y (mul ?y ?z)))", "(add (mul ?x ?y) (mul ?z (mul ?x ?y)))")),

      reassociating(rule("matmul-right",  "(matmul (matmul ?a ?b) ?c)", "(matmul ?a (matmul ?b ?c))", {"(has_rank ?a 2)", "(has_rank ?b 2)", "(has_rank ?c 2)"}, "a:[a,b] b:[b,c] c:[c,d]")),
      reassociating(rule("matmul-add-right", "(add (matmul ?x ?w) (matmul ?x ?v))", "(matmul ?x (add ?w ?v))", {"(same_shape ?w ?v)"}, "x:[a,b] w:[b,c] v:[b,c]")),
      reassociating(rule("matmul-add-left",  "(add (matmul ?x ?w) (matmul ?y ?w))", "(matmul (add ?x ?y) ?w)", {"(same_shape ?x ?y)"}, "x:[a,b] y:[a,b] w:[b,c]")),
      reassociating(rule("matmul-add-chain", "(add (matmul ?x ?w) (matmul (matmul ?x ?w) ?v))", "(matmul ?x (add ?w (matmul ?w ?v)))", matrices, "x:[a,b] w:[b,c] v:[c,c]")),
      reassociating(rule("matmul-add-chain-left", "(add (matmul ?x ?w) (matmul ?v (matmul ?x ?w)))", "(matmul (add ?x (matmul ?v ?x)) ?w)", matrices, "x:[a,b] w:[b,c] v:[a,a]")),
      reassociating(rule("matmul-add-cat",   "(add (matmul ?x ?w) (matmul ?y ?v))", "(matmul " + concat(1, "?x ?y") + " " + concat(0, "?w ?v") + ")", matrices, "x:[a,b] w:[b,c] y:[a,d] v:[d,c]")),
      rule("cat-matmul-columns", concat(1, "(matmul ?x ?w) (matmul ?x ?v)"), "(matmul ?x " + concat(1, "?w ?v") + ")", matrices, "x:[a,b] w:[b,c] v:[b,d]"),
      rule("cat-matmul-rows",    concat(0, "(matmul ?x ?w) (matmul ?y ?w)"), "(matmul " + concat(0, "?x ?y") + " ?w)", matrices, "x:[a,b] y:[d,b] w:[b,c]"),
      reassociating(rule("cat-matmul-chain", concat(1, "(matmul ?x ?w) (matmul (matmul ?x ?w) ?v)"), "(matmul ?x " + concat(1, "?w (matmul ?w ?v)") + ")", matrices, "x:[a,b] w:[b,c] v:[c,d]")),

      rule("cat-add",  cat + "(add ?a ?b) (add ?c ?d))", "(add " + cat + "?a ?c) " + cat + "?b ?d))", {"(same_shape ?a ?b)", "(same_shape ?c ?d)"}, quads),
      rule("cat-mul",  cat + "(mul ?a ?b) (mul ?c ?d))", "(mul " + cat + "?a ?c) " + cat + "?b ?d))", {"(same_shape ?a ?b)", "(same_shape ?c ?d)"}, quads),
      rule("cat-relu", cat + "(relu ?a) (relu ?b))", "(relu " + cat + "?a ?b))", {}, "a:[a,b] b:[c,b]"),
      rule("relu-cat-conv", "(relu " + cat + "?y " + conv("?x", "?w") + "))", cat + "(relu ?y) (relu " + conv("?x", "?w") + "))", {kCentred}, picture + " y:[n,d,h,w]"),
      rule("cat-cat",  concat(0, concat(1, "?a ?b") + " " + concat(1, "?c ?d")), concat(1, concat(0, "?a ?c") + " " + concat(0, "?b ?d")), {}, "a:[n,m] b:[n,k] c:[l,m] d:[l,k]"),
      rule("cat-add-turns", "(add " + cat + "?a ?b) " + cat + "?c ?d))", "(add " + cat + "?a ?d) " + cat + "?c ?b))", {"(same_shape ?a ?c)", "(same_shape ?b ?d)"}, "a:[a,b] c:[a,b] b:[c,b] d:[c,b]"),
      rule("cat-mul-turns", "(mul " + cat + "?a ?b) " + cat + "?c ?d))", "(mul " + cat + "?a ?d) " + cat + "?c ?b))", {"(same_shape ?a ?c)", "(same_shape ?b ?d)"}, "a:[a,b] c:[a,b] b:[c,b] d:[c,b]"),

      reassociating(rule("conv-add-inputs",  conv("(add ?x ?y)", "?w"), "(add " + conv("?x", "?w") + " " + conv("?y", "?w") + ")", {kCentred, "(same_shape ?x ?y)"}, picture + " y:[n,c,h,w]")),
      reassociating(rule("conv-add-weights", conv("?x", "(add ?w ?v)"), "(add " + conv("?x", "?w") + " " + conv("?x", "?v") + ")", {kCentred, "(same_shape ?w ?v)"}, picture + again)),
      reassociating(rule("conv-add-cat", "(add " + conv("?x", "?w") + " " + conv("?y", "?v") + ")", conv(concat(1, "?x ?y"), concat(1, "?w ?v")), {kCentred}, picture + " y:[n,d,h,w] v:[f,d,r,s]")),
      rule("cat-conv-batch",   concat(0, conv("?x", "?w") + " " + conv("?y", "?w")), conv(concat(0, "?x ?y"), "?w"), {kCentred}, picture + " y:[m,c,h,w]"),
      rule("cat-conv-filters", concat(1, conv("?x", "?w") + " " + conv("?x", "?v")), conv("?x", concat(0, "?w ?v")), {kCentred}, picture + " v:[d,c,r,s]"),
      rule("cat-conv-groups",  concat(1, conv("?x", "?w", "?g") + " " + conv("?y", "?v", "?h")), conv(concat(1, "?x ?y"), concat(0, "?w ?v"), "(sum ?g ?h)"),
           {kCentred, "(equal (quotient (dim ?w 0) ?g) (quotient (dim ?v 0) ?h))"}, "x:[n,c*g,h,w] w:[f*g,c,r,s] y:[n,c*k,h,w] v:[f*k,c,r,s]"),
      *find_rule("conv-groups-paired"),

      // Two roots at a time.
      rule("pair-matmuls-left",  "(tuple (matmul ?x ?w) (matmul ?x ?v))", halves(1, "?w", "?v", 1, "(matmul ?x " + concat(1, "?w ?v") + ")"), matrices, "x:[a,b] w:[b,c] v:[b,d]"),
      rule("pair-matmuls-right", "(tuple (matmul ?x ?w) (matmul ?y ?w))", halves(0, "?x", "?y", 0, "(matmul " + concat(0, "?x ?y") + " ?w)"), matrices, "x:[a,b] y:[d,b] w:[b,c]"),
      rule("pair-convs-input",   "(tuple " + conv("?x", "?w") + " " + conv("?x", "?v") + ")", halves(1, "?w", "?v", 0, conv("?x", concat(0, "?w ?v"))), {kCentred}, picture + " v:[d,c,r,s]"),
      rule("pair-convs-weights", "(tuple " + conv("?x", "?w", "?g") + " " + conv("?y", "?w", "?g") + ")", halves(0, "?x", "?y", 0, conv(concat(0, "?x ?y"), "?w", "?g")), {kCentred}, "x:[n,c*g,h,w] y:[m,c*g,h,w] w:[f*g,c,r,s]"),
      rule("pair-relus-0",       "(tuple (relu ?a) (relu ?b))", halves(0, "?a", "?b", 0, "(relu " + concat(0, "?a ?b") + ")"), {}, "a:[a,b] b:[c,b]"),
      rule("pair-relus-1",       "(tuple (relu ?a) (relu ?b))", halves(1, "?a", "?b", 1, "(relu " + concat(1, "?a ?b") + ")"), {}, "a:[b,a] b:[b,c]"),
      reassociating(rule("pair-products", "(tuple (matmul (matmul ?a ?b) ?a) (matmul ?b (matmul ?a ?b)))", "(tuple (matmul ?a (matmul ?b ?a)) (matmul (matmul ?b ?a) ?b))", {"(has_rank ?a 2)", "(has_rank ?b 2)"}, "a:[a,b] b:[b,a]")),
      reassociating(rule("pair-convs-enlarged", "(tuple (conv[strides=[1,1], dilations=[1,1], pads=?p, group=1] ?x ?w) (conv[strides=[1,1], dilations=[1,1], pads=?q, group=1] ?x ?v))",
           halves(1, "?w", "?v", 0, "(conv[strides=[1,1], dilations=[1,1], pads=" + pads + ", group=1] ?x " + concat(0, "(pad[pads=(enlarging ?p " + pads + " [1,1])] ?w) (pad[pads=(enlarging ?q " + pads + " [1,1])] ?v)") + ")"),
           {kCentred, "(centred ?q ?v [1,1])"}, "x:[n,c,h,w] w:[f,c,3,1] v:[d,c,1,3] | x:[n,c,h,w] w:[f,c,3,3] v:[d,c,1,1]")),
  };
  // clang-format on
  add_bracketings(all);
  for (Rule& r : all) r.theme = "tensat";
  return all;
}

}  // namespace

const std::vector<Rule>& tensat_rules() {
  static const std::vector<Rule> kTable = make_table();
  return kTable;
}

}  // namespace emend
