#include "rules/rule.h"

#include <algorithm>
#include <set>

#include "ops/table.h"
#include "rules/functions.h"
#include "rules/instance.h"

namespace emend {
namespace {

void collect(const AttrExpr& e, std::set<int>& out) {
  if (e.kind == AttrExpr::Kind::variable) out.insert(e.variable);
  for (const AttrExpr& a : e.args) collect(a, out);
}

void collect(const Pattern& p, std::set<int>& out) {
  if (p.variable >= 0) out.insert(p.variable);
  if (p.whole >= 0) out.insert(p.whole);
  for (const auto& [name, e] : p.attrs) collect(e, out);
  collect(p.index, out);
  for (const Pattern& a : p.args) collect(a, out);
}

// Looks functions up, and whether they take what they are given.
void resolve(AttrExpr& e) {
  using Kind = AttrExpr::Kind;
  if (e.kind == Kind::each || e.kind == Kind::alike)
    throw Error(str(e.function, " stands at the top of a guard"));
  auto n = static_cast<int>(e.args.size());
  int least = e.kind == Kind::all, most = least;  // position takes nothing
  if (e.kind == Kind::call) {
    e.callee = find_function(e.function);
    if (!e.callee) throw Error(str("no function is called ", e.function));
    least = e.callee->min_args;
    most = e.callee->max_args < 0 ? n : e.callee->max_args;
  }
  if (n < least || n > most) throw Error(str(e.function, " does not take ", n, " arguments"));
  for (AttrExpr& a : e.args) resolve(a);
}

// A guard; those about every item stand at the top.
void resolve_guard(AttrExpr& e) {
  if (!is_each(e) && !is_alike(e)) return resolve(e);
  if (e.args.size() != 1) throw Error(str(e.function, " takes one expression"));
  resolve(e.args[0]);
}

// Several roots: all written out, or a group that is one pattern repeated.
void check_roots(const Rule& r) {
  if (!r.several_roots()) {
    if (r.rhs.kind == Pattern::Kind::tuple) throw Error("only the right side has several roots");
    return;
  }
  auto repeats = std::count_if(r.lhs.args.begin(), r.lhs.args.end(),
                               [](const Pattern& p) { return p.repeated; });
  if (r.lhs.args.empty() || (repeats && r.lhs.args.size() != 1))
    throw Error("a tuple on the left is a list of patterns, or one that is repeated");
}

// The left side is matched: it has no functions.
void check_side(Pattern& p, bool left) {
  if (left && p.kind == Pattern::Kind::at) throw Error("'at' stands on the right only");
  auto plain = [](const AttrExpr& e) {
    return e.kind == AttrExpr::Kind::literal || e.kind == AttrExpr::Kind::variable;
  };
  bool made = p.kind == Pattern::Kind::identity || p.kind == Pattern::Kind::constant;
  if (left && (!plain(p.index) || made)) throw Error("functions stand on the right only");
  resolve(p.index);
  for (auto& [name, e] : p.attrs) {
    if (left && !plain(e)) throw Error("functions stand on the right only");
    resolve(e);
  }
  for (Pattern& a : p.args) check_side(a, left);
}

Rule parse(std::string name, std::string_view lhs, std::string_view rhs, const Where& where,
           std::string draw, const std::vector<std::string>& parameters = {}) {
  Rule r;
  r.name = std::move(name);
  with_note([&] { return "rule " + r.name; },
            [&] {
              r.lhs = parse_pattern(lhs, r.variables);
              std::set<int> bound, used;
              collect(r.lhs, bound);
              for (const std::string& p : parameters) bound.insert(r.variables.index(p));
              r.rhs = parse_pattern(rhs, r.variables);
              collect(r.rhs, used);
              for (const char* w : where) {
                r.where.push_back(resolved_expr(w, r.variables));
                collect(r.where.back(), used);
              }
              for (int v : used) {
                if (!bound.count(v)) {
                  throw Error(str("?", r.variables.names[static_cast<size_t>(v)],
                                  " does not occur on the left"));
                }
              }
              check_side(r.lhs, true);
              check_side(r.rhs, false);
              check_roots(r);
            });
  r.draw = std::move(draw);
  return r;
}

Rule with_use(Rule r, Use use) {
  r.use = use;
  return r;
}

std::vector<Rule> make_table() {
  std::vector<Rule> all;
  std::set<std::string> names;
  constexpr std::pair<const char*, std::vector<Rule> (*)()> kThemes[] = {
      {"algebra", algebra_rules}, {"movement", movement_rules}, {"conv", conv_rules},
      {"linear", linear_rules},   {"norm", norm_rules},         {"window", window_rules},
      {"merge", merge_rules},     {"reduce", reduce_rules},     {"quantize", quantize_rules},
      {"view", view_rules},       {"patch", patch_rules},       {"forms", form_rules},
  };
  for (auto [theme, rules] : kThemes) {
    for (Rule& r : rules()) {
      EMEND_ASSERT(names.insert(r.name).second, "two rules are called ", r.name);
      r.theme = theme;
      all.push_back(std::move(r));
    }
  }
  return all;
}

}  // namespace

std::string_view to_text(Use use) {
  static constexpr std::string_view kNames[] = {"search", "always", "finish", "form"};
  return kNames[static_cast<size_t>(use)];
}

std::string_view to_text(Numerics n) {
  return n == Numerics::exact ? "exact" : "reassociating";
}

std::string to_text(const Rule& r) {
  std::string out =
      str(to_text(r.lhs, r.variables), r.both ? "  =  " : "  ->  ", to_text(r.rhs, r.variables));
  for (size_t i = 0; i < r.where.size(); ++i)
    out += str(i ? ", " : "   where ", to_text(r.where[i], r.variables));
  return out;
}

Rule reversed(const Rule& r) {
  Rule back = r;
  std::swap(back.lhs, back.rhs);
  return back;
}

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> kTable = make_table();
  return kTable;
}

const Rule* find_rule(std::string_view name) {
  for (const Rule& r : all_rules()) {
    if (r.name == name) return &r;
  }
  return nullptr;
}

Rule rule(std::string name, std::string_view lhs, std::string_view rhs, const Where& where,
          std::string draw) {
  return parse(std::move(name), lhs, rhs, where, std::move(draw));
}

Rule both(std::string name, std::string_view lhs, std::string_view rhs, const Where& where,
          std::string draw) {
  Rule r = parse(std::move(name), lhs, rhs, where, std::move(draw));
  r.both = true;
  with_note([&] { return "rule " + r.name + ", right to left"; },
            [&] {
              std::set<int> left, right;
              collect(r.lhs, left);
              collect(r.rhs, right);
              if (left != right) throw Error("the sides have different variables");
              check_side(r.rhs, true);
              check_roots(reversed(r));
            });
  return r;
}

Rule always(std::string name, std::string_view lhs, std::string_view rhs, const Where& where,
            std::string draw) {
  return with_use(parse(std::move(name), lhs, rhs, where, std::move(draw)), Use::always);
}

Rule form(std::string name, std::string_view lhs, std::string_view rhs, const Where& where,
          std::string draw) {
  return with_use(parse(std::move(name), lhs, rhs, where, std::move(draw)), Use::form);
}

Rule finish(std::string name, std::string_view lhs, std::string_view rhs, const Where& where,
            std::string draw) {
  return with_use(parse(std::move(name), lhs, rhs, where, std::move(draw)), Use::finish);
}

Rule parametric(std::string name, std::string_view lhs, std::string_view rhs, const Where& where,
                const std::vector<std::string>& parameters, std::string draw) {
  return parse(std::move(name), lhs, rhs, where, std::move(draw), parameters);
}

AttrExpr resolved_expr(std::string_view text, Variables& variables) {
  AttrExpr e = parse_expr(text, variables);
  resolve_guard(e);
  return e;
}

Rule reassociating(Rule r) {
  r.numerics = Numerics::reassociating;
  return r;
}

Rule also_true(int twins, Rule r) {
  r.true_twins = twins;
  return r;
}

}  // namespace emend
