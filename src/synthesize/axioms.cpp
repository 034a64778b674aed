#include "synthesize/axioms.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace emend {
namespace {

struct Placeholder {
  std::string name;
  std::vector<std::string> readings;
};

const std::vector<Placeholder>& placeholders() {
  static const std::vector<Placeholder> kAll = {
      {"{k}", {"0", "1"}},
      {"{conv}",
       {"strides=[1,1], dilations=[1,1], pads=[1,1,1,1], group=1",
        "strides=[2,2], dilations=[1,1], pads=[0,0,0,0], group=1"}},
      {"{window}",
       {"strides=[1,1], dilations=[1,1], pads=[1,1,1,1]",
        "strides=[2,2], dilations=[1,1], pads=[1,1,1,1]"}},
      {"{pool}",
       {"kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1]",
        "kernel=[2,2], strides=[2,2], dilations=[1,1], pads=[0,0,0,0]"}}};
  return kAll;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::vector<Axiom> readings_of(const Axiom& axiom) {
  std::vector<Axiom> all = {axiom};
  for (const Placeholder& p : placeholders()) {
    std::vector<Axiom> next;
    for (const Axiom& a : all) {
      if ((a.left + a.right).find(p.name) == std::string::npos) {
        next.push_back(a);
        continue;
      }
      for (const std::string& by : p.readings) {
        next.push_back(
            {a.name, a.inputs, replaced(a.left, p.name, by), replaced(a.right, p.name, by)});
      }
    }
    all = std::move(next);
  }
  return all;
}

// The equation's text with operands called in the order in which they occur.
std::string canonical(const Equation& e, bool reversed) {
  Equation c = e;
  std::vector<std::string> names(e.variables.names.size());
  int next = 0;
  std::function<void(const Pattern&)> visit = [&](const Pattern& p) {
    if (p.kind == Pattern::Kind::variable && names[static_cast<size_t>(p.variable)].empty())
      names[static_cast<size_t>(p.variable)] = str("v", next++);
    for (const Pattern& a : p.args) visit(a);
  };
  visit(reversed ? e.right : e.left);
  visit(reversed ? e.left : e.right);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) names[i] = str("a", i);
  }
  c.variables.names = names;
  const Pattern &l = reversed ? c.right : c.left, &r = reversed ? c.left : c.right;
  return to_text(l, c.variables) + " = " + to_text(r, c.variables);
}

bool says(const Equation& known, const Equation& wanted) {
  std::string text = canonical(wanted, false);
  return canonical(known, false) == text || canonical(known, true) == text;
}

}  // namespace

std::string_view to_text(Standing s) {
  switch (s) {
    case Standing::same:
      return "found";
    case Standing::follows:
      return "follows";
    case Standing::trivial:
      return "trivial";
    case Standing::missing:
      break;
  }
  return "MISSING";
}

const std::vector<Axiom>& taso_axioms() {
  static const char* const kSame = "x:[a,b] y:[a,b] z:[a,b] s:[] t:[]";
  static const char* const kGrid = "x:[a,b] y:[a,c] z:[d,b] u:[d,c]";
  static const char* const kPictures =
      "x:[n,c,h,w] y:[n,c,h,w] k:filter[f,c,r,t] l:filter[f,c,r,t] s:[]";
  // clang-format off
  static const std::vector<Axiom> kAxioms = {
      {"add-associates", kSame, "(add ?x (add ?y ?z))", "(add (add ?x ?y) ?z)"},
      {"add-commutes", kSame, "(add ?x ?y)", "(add ?y ?x)"},
      {"mul-associates", kSame, "(mul ?x (mul ?y ?z))", "(mul (mul ?x ?y) ?z)"},
      {"mul-commutes", kSame, "(mul ?x ?y)", "(mul ?y ?x)"},
      {"mul-distributes", kSame, "(mul (add ?x ?y) ?z)", "(add (mul ?x ?z) (mul ?y ?z))"},

      {"scales-combine", kSame, "(mul (mul ?x ?s) ?t)", "(mul ?x (mul ?s ?t))"},
      {"scale-add", kSame, "(mul (add ?x ?y) ?s)", "(add (mul ?x ?s) (mul ?y ?s))"},
      {"scale-mul", kSame, "(mul (mul ?x ?y) ?s)", "(mul ?x (mul ?y ?s))"},
      {"scale-transpose", kSame, "(mul (transpose[perm=[1,0]] ?x) ?s)", "(transpose[perm=[1,0]] (mul ?x ?s))"},
      {"scale-matmul", "x:[a,b] y:[b,c] s:[]", "(mul (matmul ?x ?y) ?s)", "(matmul ?x (mul ?y ?s))"},
      {"scale-concat", kSame, "(mul (concat[axis={k}] ?x ?y) ?s)", "(concat[axis={k}] (mul ?x ?s) (mul ?y ?s))"},
      {"scale-in-conv", kPictures, "(conv[{conv}] (mul ?x ?s) ?k)", "(conv[{conv}] ?x (mul ?k ?s))"},
      {"scale-conv", kPictures, "(mul (conv[{conv}] ?x ?k) ?s)", "(conv[{conv}] (mul ?x ?s) ?k)"},

      {"relu-of-conv", kPictures, "(relu (conv[{conv}] ?x ?k))", "(relu (conv[{conv}] ?x ?k))"},
      {"relu-concat", kSame, "(relu (concat[axis={k}] ?x ?y))", "(concat[axis={k}] (relu ?x) (relu ?y))"},
      {"relu-transpose", kSame, "(relu (transpose[perm=[1,0]] ?x))", "(transpose[perm=[1,0]] (relu ?x))"},

      {"conv-adds-inputs", kPictures, "(conv[{conv}] (add ?x ?y) ?k)", "(add (conv[{conv}] ?x ?k) (conv[{conv}] ?y ?k))"},
      {"conv-adds-filters", kPictures, "(conv[{conv}] ?x (add ?k ?l))", "(add (conv[{conv}] ?x ?k) (conv[{conv}] ?x ?l))"},
      {"conv-concat-channels", "x:[n,c,h,w] y:[n,d,h,w] k:filter[f,c,r,t] l:filter[f,d,r,t]",
       "(add (conv[{conv}] ?x ?k) (conv[{conv}] ?y ?l))", "(conv[{conv}] (concat[axis=1] ?x ?y) (concat[axis=1] ?k ?l))"},

      {"matmul-inner-concat", "x:[a,b] y:[a,d] u:[b,c] v:[d,c]", "(add (matmul ?x ?u) (matmul ?y ?v))", "(matmul (concat[axis=1] ?x ?y) (concat[axis=0] ?u ?v))"},
      {"matmul-associates", "x:[a,b] y:[b,c] z:[c,d]", "(matmul ?x (matmul ?y ?z))", "(matmul (matmul ?x ?y) ?z)"},
      {"matmul-adds", "x:[a,b] u:[b,c] v:[b,c]", "(matmul ?x (add ?u ?v))", "(add (matmul ?x ?u) (matmul ?x ?v))"},
      {"matmul-concat", "x:[a,b] u:[b,c] v:[b,d]", "(matmul ?x (concat[axis=1] ?u ?v))", "(concat[axis=1] (matmul ?x ?u) (matmul ?x ?v))"},

      {"concat-adds", "x:[a,b] y:[a,b] z:[a,b] u:[a,b]", "(concat[axis={k}] (add ?x ?y) (add ?z ?u))", "(add (concat[axis={k}] ?x ?z) (concat[axis={k}] ?y ?u))"},
      {"concat-muls", "x:[a,b] y:[a,b] z:[a,b] u:[a,b]", "(concat[axis={k}] (mul ?x ?y) (mul ?z ?u))", "(mul (concat[axis={k}] ?x ?z) (concat[axis={k}] ?y ?u))"},
      {"concat-concat", kGrid, "(concat[axis=0] (concat[axis=1] ?x ?y) (concat[axis=1] ?z ?u))", "(concat[axis=1] (concat[axis=0] ?x ?z) (concat[axis=0] ?y ?u))"},

      {"conv-concat-batch", "x:[n,c,h,w] y:[m,c,h,w] k:filter[f,c,r,t]", "(concat[axis=0] (conv[{conv}] ?x ?k) (conv[{conv}] ?y ?k))", "(conv[{conv}] (concat[axis=0] ?x ?y) ?k)"},
      {"conv-concat-filters", "x:[n,c,h,w] k:filter[f,c,r,t] l:filter[e,c,r,t]", "(concat[axis=1] (conv[{conv}] ?x ?k) (conv[{conv}] ?x ?l))", "(conv[{conv}] ?x (concat[axis=0] ?k ?l))"},

      {"split-concat-first", kGrid, "(get[index=0] (split[axis=1, sizes=(list ?b ?c)] (concat[axis=1] ?x ?y)))", "?x"},
      {"split-concat-second", kGrid, "(get[index=1] (split[axis=1, sizes=(list ?b ?c)] (concat[axis=1] ?x ?y)))", "?y"},

      {"transpose-transpose", kSame, "(transpose[perm=[1,0]] (transpose[perm=[1,0]] ?x))", "?x"},
      {"matmul-transpose", "x:[a,b] y:[b,c]", "(transpose[perm=[1,0]] (matmul ?x ?y))", "(matmul (transpose[perm=[1,0]] ?y) (transpose[perm=[1,0]] ?x))"},
      {"concat-transpose", "x:[a,b] y:[d,b]", "(transpose[perm=[1,0]] (concat[axis=0] ?x ?y))", "(concat[axis=1] (transpose[perm=[1,0]] ?x) (transpose[perm=[1,0]] ?y))"},
      {"add-transpose", kSame, "(transpose[perm=[1,0]] (add ?x ?y))", "(add (transpose[perm=[1,0]] ?x) (transpose[perm=[1,0]] ?y))"},
      {"mul-transpose", kSame, "(transpose[perm=[1,0]] (mul ?x ?y))", "(mul (transpose[perm=[1,0]] ?x) (transpose[perm=[1,0]] ?y))"},

      {"avg-pool-channels", "x:[n,c,h,w] y:[n,d,h,w]", "(avg_pool[{pool}, count_include_pad=true, ceil_mode=false] (concat[axis=1] ?x ?y))",
       "(concat[axis=1] (avg_pool[{pool}, count_include_pad=true, ceil_mode=false] ?x) (avg_pool[{pool}, count_include_pad=true, ceil_mode=false] ?y))"},
      {"max-pool-batch", "x:[n,c,h,w] y:[m,c,h,w]", "(max_pool[{pool}] (concat[axis=0] ?x ?y))", "(concat[axis=0] (max_pool[{pool}] ?x) (max_pool[{pool}] ?y))"},
      {"max-pool-channels", "x:[n,c,h,w] y:[n,d,h,w]", "(max_pool[{pool}] (concat[axis=1] ?x ?y))", "(concat[axis=1] (max_pool[{pool}] ?x) (max_pool[{pool}] ?y))"},

      {"conv-averages", "x:[n,c,h,w] P:averaging_filter[c,c,3,3]", "(conv[{window}, group=1] ?x ?P)", "(avg_pool[kernel=[3,3], {window}, count_include_pad=true, ceil_mode=false] ?x)"},
      {"conv-identity", "x:[n,c,h,w] K:identity_filter[c,c,3,3]", "(conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1], group=1] ?x ?K)", "?x"},
      {"matmul-identity", "x:[a,b] I:identity[b,b]", "(matmul ?x ?I)", "?x"},
      {"mul-ones", "x:[a,b] J:ones[a,b]", "(mul ?x ?J)", "?x"},
      {"average-of-identity", "K:identity_filter[c,c,3,3] P:averaging_filter[c,c,3,3]",
       "(avg_pool[kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], count_include_pad=true, ceil_mode=false] ?K)", "?P"},
      {"enlarge", "x:[n,c,h,w] k:filter[f,c,r,t]", "(conv[strides=[1,1], dilations=[1,1], pads=[0,0,0,0], group=1] ?x ?k)",
       "(conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1], group=1] ?x (pad[pads=[0,0,1,1,0,0,1,1], value=0] ?k))"},
  };
  // clang-format on
  return kAxioms;
}

std::vector<Axiom> axiom_readings(const std::vector<Axiom>& axioms) {
  std::vector<Axiom> out;
  for (const Axiom& a : axioms) {
    for (Axiom& reading : readings_of(a)) out.push_back(std::move(reading));
  }
  return out;
}

std::vector<AxiomReport> compare_axioms(const std::vector<Axiom>& axioms,
                                        const std::vector<Equation>& equations,
                                        const std::vector<Directed>& rules,
                                        const DeriveOptions& options, uint64_t seed) {
  std::vector<AxiomReport> out;
  for (const Axiom& axiom : axioms) {
    AxiomReport report{axiom.name, axiom.left + " = " + axiom.right, Standing::same, {}};
    for (const Axiom& reading : readings_of(axiom)) {
      Equation e = parse_equation(reading.inputs, reading.left, reading.right);
      if (reading.left == reading.right) {
        report.standing = Standing::trivial;
        continue;
      }
      bool same = std::any_of(equations.begin(), equations.end(),
                              [&](const Equation& known) { return says(known, e); });
      if (same) continue;
      Rng rng(seed, 7);
      SizeTable sizes = draw_sizes(size_names(e.operands), SizeDraw::different, rng);
      if (derivable(e, sizes, rules, options)) {
        report.standing = Standing::follows;
      } else {
        report.missing.push_back(reading.left + " = " + reading.right);
      }
    }
    if (!report.missing.empty()) report.standing = Standing::missing;
    out.push_back(std::move(report));
  }
  return out;
}

}  // namespace emend
