#include "synthesize/equation.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "ops/table.h"
#include "rules/functions.h"
#include "rules/instance.h"

namespace emend {
namespace {

void for_each_expr(Pattern& p, const std::function<void(AttrExpr&)>& visit) {
  for (auto& [name, e] : p.attrs) visit(e);
  for (Pattern& a : p.args) for_each_expr(a, visit);
}

void for_each_node(const Pattern& p, const std::function<void(const Pattern&)>& visit) {
  visit(p);
  for (const Pattern& a : p.args) for_each_node(a, visit);
}

std::set<int> operands_of(const Pattern& p) {
  std::set<int> out;
  for_each_node(p, [&](const Pattern& n) {
    if (n.kind == Pattern::Kind::variable) out.insert(n.variable);
  });
  return out;
}

void variables_of(const AttrExpr& e, std::set<int>& out) {
  if (e.kind == AttrExpr::Kind::variable) out.insert(e.variable);
  for (const AttrExpr& a : e.args) variables_of(a, out);
}

// Attribute variables that a side takes whole or by name.
std::set<int> attributes_of(const Pattern& p) {
  std::set<int> out;
  for_each_node(p, [&](const Pattern& n) {
    if (n.whole >= 0) out.insert(n.whole);
    for (const auto& [name, e] : n.attrs) {
      if (e.kind == AttrExpr::Kind::variable) out.insert(e.variable);
    }
  });
  return out;
}

AttrExpr call(std::string function, std::vector<AttrExpr> args) {
  AttrExpr e;
  e.kind = AttrExpr::Kind::call;
  e.callee = find_function(function);
  e.function = std::move(function);
  e.args = std::move(args);
  return e;
}

AttrExpr variable(int v) {
  AttrExpr e;
  e.kind = AttrExpr::Kind::variable;
  e.variable = v;
  return e;
}

AttrExpr literal(int64_t v) {
  AttrExpr e;
  e.literal = v;
  return e;
}

// (dim ?x k) for a size, by an operand among these.
std::optional<AttrExpr> dimension(const std::string& size, const std::vector<Input>& inputs,
                                  const std::set<int>& among) {
  for (int i : among) {
    const auto& extents = inputs[static_cast<size_t>(i)].extents;
    auto it = std::find(extents.begin(), extents.end(), size);
    if (it != extents.end()) return call("dim", {variable(i), literal(it - extents.begin())});
  }
  return std::nullopt;
}

class Resolver {
 public:
  Resolver(const std::vector<Input>& inputs, const Variables& variables, std::set<int> among)
      : inputs_(inputs), variables_(variables), among_(std::move(among)) {}

  bool resolve(Pattern& p) {
    for_each_expr(p, [&](AttrExpr& e) { resolve(e); });
    return good_;
  }

 private:
  void resolve(AttrExpr& e) {
    for (AttrExpr& a : e.args) resolve(a);
    if (e.kind != AttrExpr::Kind::variable || e.variable < static_cast<int>(inputs_.size())) return;
    auto d = dimension(variables_.names[static_cast<size_t>(e.variable)], inputs_, among_);
    good_ = good_ && d;
    if (d) e = *d;
  }

  const std::vector<Input>& inputs_;
  const Variables& variables_;
  std::set<int> among_;
  bool good_ = true;
};

void renumber(AttrExpr& e, const std::vector<int>& to) {
  if (e.kind == AttrExpr::Kind::variable) e.variable = to[static_cast<size_t>(e.variable)];
  for (AttrExpr& a : e.args) renumber(a, to);
}

void renumber(Pattern& p, const std::vector<int>& to) {
  if (p.kind == Pattern::Kind::variable) p.variable = to[static_cast<size_t>(p.variable)];
  for (auto& [name, e] : p.attrs) renumber(e, to);
  for (Pattern& a : p.args) renumber(a, to);
}

// Of the operands, in the syntax of rules/draw.h; empty where it cannot say them.
std::string draw_text(const Equation& e) {
  std::string out;
  for (const Input& in : e.operands) {
    if (in.is_constant()) return "";
    out += str(out.empty() ? "" : " ", in.name, ":[", join(in.extents, ","), "]");
  }
  return out;
}

}  // namespace

int operator_count(const Pattern& p) {
  int n = 0;
  for_each_node(p, [&](const Pattern& node) { n += node.kind == Pattern::Kind::node; });
  return n;
}

std::optional<Equation> make_equation(const std::vector<Input>& inputs, Variables variables,
                                      Pattern left, Pattern right) {
  std::set<int> on_left = operands_of(left), on_right = operands_of(right), shared, all = on_left;
  all.insert(on_right.begin(), on_right.end());
  std::set_intersection(on_left.begin(), on_left.end(), on_right.begin(), on_right.end(),
                        std::inserter(shared, shared.end()));
  // Where one side lacks an operand, the other is the one that is matched.
  bool right_less = std::includes(on_left.begin(), on_left.end(), on_right.begin(), on_right.end());
  Resolver resolver(inputs, variables, right_less ? on_left : on_right);
  if (!resolver.resolve(left) || !resolver.resolve(right)) return std::nullopt;
  Equation e;
  std::vector<int> to(variables.names.size(), -1);
  for (int i : all) {
    to[static_cast<size_t>(i)] = static_cast<int>(e.operands.size());
    e.operands.push_back(inputs[static_cast<size_t>(i)]);
    e.variables.index(e.operands.back().name);
  }
  renumber(left, to);
  renumber(right, to);
  e.left = std::move(left);
  e.right = std::move(right);
  return e;
}

Equation parse_equation(std::string_view inputs, std::string_view left, std::string_view right) {
  auto operands = parse_inputs(inputs);
  Variables variables;
  for (const Input& in : operands) variables.index(in.name);
  Pattern l = parse_pattern(left, variables), r = parse_pattern(right, variables);
  auto e = make_equation(operands, variables, std::move(l), std::move(r));
  if (!e) throw Error(str("a size in ", left, " = ", right, " is not one of ", inputs));
  return *e;
}

std::string to_text(const Equation& e) {
  std::string out = str(to_text(e.left, e.variables), " = ", to_text(e.right, e.variables));
  for (size_t i = 0; i < e.operands.size(); ++i) {
    if (e.operands[i].is_constant())
      out += str(" where (", to_text(e.operands[i].content), " ?", e.operands[i].name, ")");
  }
  for (const AttrExpr& w : e.where) out += " where " + to_text(w, e.variables);
  return out;
}

std::optional<Directed> directed(const Equation& e, bool reversed, std::string name) {
  Directed out;
  Rule& r = out.rule;
  r.name = std::move(name);
  r.variables = e.variables;
  r.lhs = reversed ? e.right : e.left;
  r.rhs = reversed ? e.left : e.right;
  if (r.lhs.kind != Pattern::Kind::node) return std::nullopt;
  auto includes = [](const std::set<int>& a, const std::set<int>& b) {
    return std::includes(a.begin(), a.end(), b.begin(), b.end());
  };
  std::set<int> bound = operands_of(r.lhs), taken = attributes_of(r.lhs), guarded;
  for (const AttrExpr& w : e.where) variables_of(w, guarded);
  bound.insert(taken.begin(), taken.end());
  if (!includes(bound, operands_of(r.rhs)) || !includes(bound, attributes_of(r.rhs)) ||
      !includes(bound, guarded))
    return std::nullopt;
  r.where = e.where;
  for (const Input& in : e.operands) out.contents.push_back(in.content);
  // What is computed on the right is demanded on the left.
  for_each_expr(r.lhs, [&](AttrExpr& expr) {
    if (expr.kind != AttrExpr::Kind::call) return;
    AttrExpr taken_as = variable(r.variables.index(str("e", r.variables.names.size())));
    r.where.push_back(call("equal", {taken_as, expr}));
    expr = taken_as;
  });
  r.draw = draw_text(e);
  return out;
}

namespace {

// What the derivation can look for.
bool is_plain(const Pattern& p) {
  bool good = p.kind == Pattern::Kind::variable || p.kind == Pattern::Kind::node ||
              (p.kind == Pattern::Kind::number && p.index.kind != AttrExpr::Kind::call);
  return good && std::all_of(p.args.begin(), p.args.end(), is_plain);
}

std::set<int> operators_of(const Pattern& p) {
  std::set<int> out;
  for_each_node(p, [&](const Pattern& n) {
    if (n.kind == Pattern::Kind::node && n.variable >= 0) out.insert(n.variable);
  });
  return out;
}

std::vector<std::vector<int>> repetitions_of(const Pattern& p) {
  size_t repeated = 0;
  for_each_node(p, [&](const Pattern& n) { repeated += n.repeated; });
  std::vector<std::vector<int>> all = {{}};
  for (size_t i = 0; i < repeated; ++i) {
    std::vector<std::vector<int>> longer;
    for (const auto& some : all) {
      for (int n = repeated > 1 ? 0 : 2; n <= 2; ++n) {
        longer.push_back(some);
        longer.back().push_back(n);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

std::vector<Directed> directed(const std::vector<Rule>& table, const std::vector<OpId>& operators) {
  std::vector<Directed> out;
  auto add = [&](const Rule& r) {
    auto variables = operators_of(r.lhs);
    if (r.lhs.kind != Pattern::Kind::node || !is_plain(r.lhs) || variables.size() > 1) return;
    for (const auto& repetitions : repetitions_of(r.lhs)) {
      if (variables.empty()) out.push_back({r, {}, {}, repetitions});
      for (int v : variables) {
        for (OpId op : operators) {
          if (in_class(r.variables.classes[static_cast<size_t>(v)], op_def(op)))
            out.push_back({r, {}, {{v, op}}, repetitions});
        }
      }
    }
  };
  for (const Rule& r : table) {
    if (r.several_roots()) continue;
    add(r);
    if (r.both) add(reversed(r));
  }
  return out;
}

}  // namespace emend
