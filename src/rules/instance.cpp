#include "rules/instance.h"

#include <algorithm>
#include <optional>

#include "ops/build.h"
#include "ops/table.h"
#include "rules/functions.h"

namespace emend {
namespace {

template <class T>
bool bind_value(const Variables& v, Substitution& s, int variable, int repetition, T value) {
  Binding& b = s[static_cast<size_t>(variable)];
  if (repetition < 0 || !v.starred(variable)) {
    if (std::holds_alternative<std::monostate>(b)) b = value;
    auto* bound = std::get_if<T>(&b);
    return bound && *bound == value;
  }
  if (std::holds_alternative<std::monostate>(b)) b = std::vector<T>();
  auto* bound = std::get_if<std::vector<T>>(&b);
  if (!bound) return false;
  auto at = static_cast<size_t>(repetition);
  if (bound->size() == at) bound->push_back(value);
  return (*bound)[at] == value;
}

// Literals in rules are written as integers also where an attribute is a real or a flag.
AttrValue as_declared(const OpDef& def, const std::string& name, AttrValue v) {
  for (const AttrSpec& spec : def.attrs) {
    if (spec.name != name || !v.as<int64_t>()) continue;
    if (spec.fallback.as<double>()) return static_cast<double>(*v.as<int64_t>());
    if (spec.fallback.as<bool>()) return *v.as<int64_t>() != 0;
  }
  return v;
}

// How often a repeated pattern (or expression) stands: as often as its starred variables have
// items.
size_t items_of(int v, const Variables& variables, const Substitution& s) {
  if (v < 0 || !variables.starred(v)) return 0;
  const Binding& b = s[static_cast<size_t>(v)];
  if (auto* t = std::get_if<std::vector<Term>>(&b)) return t->size();
  if (auto* a = std::get_if<std::vector<AttrValue>>(&b)) return a->size();
  return 0;
}

size_t repetitions(const AttrExpr& e, const Variables& variables, const Substitution& s) {
  if (e.kind == AttrExpr::Kind::all) return 0;
  size_t n = items_of(e.variable, variables, s);
  for (const AttrExpr& a : e.args) n = std::max(n, repetitions(a, variables, s));
  return n;
}

size_t repetitions(const Pattern& p, const Variables& variables, const Substitution& s) {
  size_t n = std::max(items_of(p.variable, variables, s), items_of(p.whole, variables, s));
  for (const auto& [name, e] : p.attrs) n = std::max(n, repetitions(e, variables, s));
  for (const Pattern& a : p.args) n = std::max(n, repetitions(a, variables, s));
  return n;
}

Result<RightSide::Ref> add_step(RightSide& plan, RightSide::Step step, const TermFacts& facts) {
  std::vector<Type> types;
  for (RightSide::Ref r : step.args) types.push_back(type_of(plan, r, facts));
  auto type = infer_type(op_def(step.op), step.attrs, types);
  if (!type) return Failure{type.error()};
  step.type = *type;
  // What a repeated part says again is there already.
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const RightSide::Step& other = plan.steps[i];
    if (other.op == step.op && other.attrs == step.attrs && other.args == step.args)
      return RightSide::Ref{RightSide::Ref::From::step, static_cast<uint32_t>(i)};
  }
  plan.steps.push_back(std::move(step));
  return RightSide::Ref{RightSide::Ref::From::step, static_cast<uint32_t>(plan.steps.size() - 1)};
}

// A literal may be written as an integer where the attribute is a real or a flag.
bool same(const AttrValue& v, const AttrValue& literal) {
  const int64_t* i = literal.as<int64_t>();
  if (i && v.as<double>()) return *v.as<double>() == static_cast<double>(*i);
  if (i && v.as<bool>()) return *v.as<bool>() == (*i != 0);
  return v == literal;
}

class Planner {
 public:
  Planner(const Rule& rule, const Substitution& s, const TermFacts& facts, DType scalars)
      : rule_(rule), s_(s), facts_(facts), scalars_(scalars) {}

  Result<RightSide> plan(const Pattern& p) {
    if (p.kind == Pattern::Kind::tuple) {
      auto roots = add_all(p.args, -1);
      if (!roots) return Failure{roots.error()};
      plan_.results = std::move(*roots);
    } else {
      auto result = add(p, -1);
      if (!result) return Failure{result.error()};
      plan_.results = {*result};
    }
    return std::move(plan_);
  }

 private:
  using Ref = RightSide::Ref;

  Result<Ref> add(const Pattern& p, int repetition) {
    switch (p.kind) {
      case Pattern::Kind::number: {
        if (p.index.kind != AttrExpr::Kind::call) return scalar(p.number);
        auto value = value_of(p.index, rule_, s_, facts_, repetition);
        if (!value) return Failure{value.error()};
        if (auto* i = value->as<int64_t>()) return scalar(static_cast<double>(*i));
        return scalar(*value->as<double>());
      }
      case Pattern::Kind::identity: {
        auto shape = value_of(p.index, rule_, s_, facts_, repetition);
        if (!shape) return Failure{shape.error()};
        return identity(*shape->as<Dims>());
      }
      case Pattern::Kind::constant: {
        auto value = value_of(p.index, rule_, s_, facts_, repetition);
        if (!value) return Failure{value.error()};
        return constant(*value->as<Tensor>());
      }
      case Pattern::Kind::variable:
        return variable(p.variable, repetition);
      case Pattern::Kind::at: {
        auto index = value_of(p.index, rule_, s_, facts_, repetition);
        if (!index) return Failure{index.error()};
        return variable(p.variable, static_cast<int>(*index->as<int64_t>()));
      }
      case Pattern::Kind::node:
        return node(p, repetition);
      case Pattern::Kind::tuple:
        break;
    }
    return fail("a tuple stands at the top only");
  }

  Ref scalar(double v) { return constant(Tensor::of_real(v, scalars_)); }

  Ref identity(const Dims& shape) {
    // Where the first indices agree and the others are in the middle, see on_diagonal.
    int64_t step = 0, at = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
      if (d < 2)
        step += stride;
      else
        at += stride * ((shape[d] - 1) / 2);
    }
    int64_t ones = shape.size() < 2 ? 1 : std::min(shape[0], shape[1]);
    return constant(Tensor::make(scalars_, shape, [&](std::byte* out) {
      for (int64_t i = 0; i < std::min(ones, count(shape)); ++i)
        store_real(scalars_, out, static_cast<size_t>(at + i * step), 1);
    }));
  }

  Ref constant(Tensor t) {
    plan_.constants.push_back(std::move(t));
    return {Ref::From::constant, static_cast<uint32_t>(plan_.constants.size() - 1)};
  }

  Result<Ref> variable(int v, int repetition) {
    const Binding& b = s_[static_cast<size_t>(v)];
    if (auto* t = std::get_if<Term>(&b)) return Ref{Ref::From::matched, t->value};
    if (auto* many = std::get_if<std::vector<Term>>(&b)) {
      auto at = static_cast<size_t>(repetition);
      if (repetition < 0 || at >= many->size()) return fail("no operand ", repetition);
      return Ref{Ref::From::matched, (*many)[at].value};
    }
    const AttrValue* value = std::get_if<AttrValue>(&b);
    if (value && value->as<double>()) return scalar(*value->as<double>());
    if (value && value->as<int64_t>()) return scalar(static_cast<double>(*value->as<int64_t>()));
    return fail("?", rule_.variables.names[static_cast<size_t>(v)], " is no operand");
  }

  Result<Ref> node(const Pattern& p, int repetition) {
    RightSide::Step step;
    auto head = operator_of(p, repetition);
    if (!head) return Failure{head.error()};
    step.op = head->op;
    step.attrs = head->attrs;
    auto args = add_all(p.args, repetition);
    if (!args) return Failure{args.error()};
    step.args = std::move(*args);
    return add_step(plan_, std::move(step), facts_);
  }

  // Operands (or roots), the repeated ones as often as they stand.
  Result<std::vector<Ref>> add_all(std::span<const Pattern> patterns, int repetition) {
    std::vector<Ref> out;
    for (const Pattern& p : patterns) {
      int n = p.repeated ? static_cast<int>(repetitions(p, rule_.variables, s_)) : 1;
      for (int i = 0; i < n; ++i) {
        auto ref = add(p, p.repeated ? i : repetition);
        if (!ref) return Failure{ref.error()};
        out.push_back(*ref);
      }
    }
    return out;
  }

  Result<BoundOp> operator_of(const Pattern& p, int repetition) {
    if (p.variable >= 0) {
      const auto* bound = std::get_if<BoundOp>(&s_[static_cast<size_t>(p.variable)]);
      EMEND_ASSERT(bound, "an operator variable is not bound in rule ", rule_.name);
      return *bound;
    }
    const OpDef& def = op_def(p.op);
    Attrs attrs;
    if (p.whole >= 0) {
      auto whole = value_of(AttrExpr{.kind = AttrExpr::Kind::variable, .variable = p.whole}, rule_,
                            s_, facts_, repetition);
      if (!whole) return Failure{whole.error()};
      attrs = *whole->as<Attrs>();
    }
    for (const auto& [name, e] : p.attrs) {
      auto value = value_of(e, rule_, s_, facts_, repetition);
      if (!value) return Failure{value.error()};
      attrs = attrs.with(name, as_declared(def, name, *value));
    }
    auto complete = complete_attrs(def, attrs);
    if (!complete) return Failure{complete.error()};
    return BoundOp{p.op, *complete};
  }

  const Rule& rule_;
  const Substitution& s_;
  const TermFacts& facts_;
  DType scalars_;
  RightSide plan_;
};

// The values of a starred attribute variable: integers as one list.
Fact as_fact(const std::vector<AttrValue>& items) {
  Dims out;
  for (const AttrValue& v : items) {
    if (!v.as<int64_t>()) return items;
    out.push_back(*v.as<int64_t>());
  }
  return AttrValue(std::move(out));
}

Result<Fact> fact_of(const AttrExpr& e, const Rule& rule, const Substitution& s,
                     const TermFacts& facts, int repetition) {
  if (e.kind == AttrExpr::Kind::all) return fact_of(e.args[0], rule, s, facts, -1);
  if (e.kind == AttrExpr::Kind::position) return Fact(AttrValue(int64_t{repetition}));
  if (e.kind != AttrExpr::Kind::variable) {
    auto v = value_of(e, rule, s, facts, repetition);
    if (!v) return Failure{v.error()};
    return Fact(*v);
  }
  auto known = [&](Term t) {
    const Tensor* value = facts.constant(t);
    return Operand{&facts.type(t), value, value || (facts.weight_only && facts.weight_only(t))};
  };
  const Binding& b = s[static_cast<size_t>(e.variable)];
  if (auto* t = std::get_if<Term>(&b)) return Fact(known(*t));
  if (auto* many = std::get_if<std::vector<Term>>(&b)) {
    if (repetition >= 0) return Fact(known((*many)[static_cast<size_t>(repetition)]));
    std::vector<Operand> all;
    for (Term t : *many) all.push_back(known(t));
    return Fact(all);
  }
  if (auto* v = std::get_if<AttrValue>(&b)) return Fact(*v);
  if (auto* many = std::get_if<std::vector<AttrValue>>(&b)) {
    if (repetition >= 0) return Fact((*many)[static_cast<size_t>(repetition)]);
    return as_fact(*many);
  }
  return fail("?", rule.variables.names[static_cast<size_t>(e.variable)], " is not bound");
}

// The items of a value that is a tuple.
Result<std::vector<RightSide::Ref>> add_items(RightSide& plan, RightSide::Ref tuple,
                                              const TermFacts& facts) {
  std::vector<RightSide::Ref> items;
  size_t n = type_of(plan, tuple, facts).items.size();
  for (size_t i = 0; i < n; ++i) {
    RightSide::Step get{.op = op_named("get"), .attrs = {}, .args = {tuple}, .type = {}};
    get.attrs = Attrs({{"index", static_cast<int64_t>(i)}});
    auto item = add_step(plan, std::move(get), facts);
    if (!item) return Failure{item.error()};
    items.push_back(*item);
  }
  return items;
}

}  // namespace

bool bind_term(const Variables& v, Substitution& s, int variable, int repetition, Term term) {
  return bind_value(v, s, variable, repetition, term);
}

bool bind_attr(const Variables& v, Substitution& s, int variable, int repetition, AttrValue value) {
  return bind_value(v, s, variable, repetition, std::move(value));
}

bool bind_op(Substitution& s, int variable, BoundOp op) {
  Binding& b = s[static_cast<size_t>(variable)];
  if (std::holds_alternative<std::monostate>(b)) b = op;
  auto* bound = std::get_if<BoundOp>(&b);
  return bound && *bound == op;
}

bool bind_attrs(const Variables& v, const Pattern& p, Attrs attrs, int repetition,
                Substitution& s) {
  if (p.whole >= 0 && !bind_attr(v, s, p.whole, repetition, attrs)) return false;
  size_t named = 0;
  for (const AttrSpec& spec : op_def(p.op).attrs) {
    const AttrValue* value = attrs.find(spec.name);
    const AttrExpr* e = nullptr;
    for (const auto& [name, expr] : p.attrs) {
      if (name == spec.name) e = &expr;
    }
    if (!e) {
      if (p.whole < 0 && !(*value == spec.fallback)) return false;
      continue;
    }
    ++named;
    bool fits = e->kind == AttrExpr::Kind::variable
                    ? bind_attr(v, s, e->variable, repetition, *value)
                    : same(*value, e->literal);
    if (!fits) return false;
  }
  return named == p.attrs.size();
}

bool is_number(const Tensor& t, double number) {
  if (t.dtype() == DType::string || is_complex(t.dtype()) || t.count() == 0) return false;
  // As near as the dtype comes: a rule says 0.1, a program the float next to it.
  double nearest = Tensor::of_real(number, t.dtype()).real(0);
  for (int64_t i = 0; i < t.count(); ++i) {
    if (t.real(i) != nearest) return false;
  }
  return true;
}

bool in_class(OpClass c, const OpDef& def) {
  if (def.kind != Kind::elementwise) return false;
  switch (c) {
    case OpClass::unary:
      return def.max_args == 1;
    case OpClass::binary:
      return def.min_args == 2 && def.max_args == 2;
    case OpClass::idempotent_unary:
      return def.max_args == 1 && def.has(idempotent);
    case OpClass::zero_keeping_unary:
      return def.max_args == 1 && def.has(zero_to_zero);
  }
  return false;
}

Type type_of(const RightSide& plan, RightSide::Ref ref, const TermFacts& facts) {
  switch (ref.from) {
    case RightSide::Ref::From::matched:
      return facts.type(Term(ref.index));
    case RightSide::Ref::From::step:
      return plan.steps[ref.index].type;
    case RightSide::Ref::From::constant:
      return plan.constants[ref.index].type();
  }
  return Type::any();
}

Result<RightSide> plan_of(const Pattern& p, const Rule& rule, const Substitution& s,
                          const TermFacts& facts, DType scalars) {
  return Planner(rule, s, facts, scalars).plan(p);
}

bool is_each(const AttrExpr& guard) {
  return guard.kind == AttrExpr::Kind::each;
}
bool is_alike(const AttrExpr& guard) {
  return guard.kind == AttrExpr::Kind::alike;
}

bool holds(const Rule& rule, const Substitution& s, const TermFacts& facts) {
  auto is_true = [&](const AttrExpr& e, int repetition) {
    auto v = value_of(e, rule, s, facts, repetition);
    return v && v->as<bool>() && *v->as<bool>();
  };
  for (const AttrExpr& e : rule.where) {
    if (!is_each(e) && !is_alike(e)) {
      if (!is_true(e, -1)) return false;
      continue;
    }
    std::optional<AttrValue> first;
    auto n = static_cast<int>(repetitions(e, rule.variables, s));
    for (int i = 0; i < n; ++i) {
      if (is_each(e) && !is_true(e.args[0], i)) return false;
      if (is_each(e)) continue;
      auto v = value_of(e.args[0], rule, s, facts, i);
      if (!v || (first && !(*first == *v))) return false;
      first = *v;
    }
  }
  return true;
}

Substitution chosen(const Substitution& all, std::span<const uint32_t> items) {
  Substitution s = all;
  auto choose = [&](auto& many) {
    std::remove_reference_t<decltype(many)> some;
    for (uint32_t i : items) some.push_back(many[i]);
    many = std::move(some);
  };
  for (Binding& b : s) {
    if (auto* terms = std::get_if<std::vector<Term>>(&b)) choose(*terms);
    if (auto* values = std::get_if<std::vector<AttrValue>>(&b)) choose(*values);
  }
  return s;
}

std::vector<Group> groups_of(const Rule& rule, const Substitution& all, const TermFacts& facts) {
  std::vector<Group> out;
  std::vector<std::vector<AttrValue>> keys;
  auto n = static_cast<uint32_t>(repetitions(rule.lhs, rule.variables, all));
  for (uint32_t i = 0; i < n; ++i) {
    std::vector<AttrValue> key;
    bool fits = true;
    for (const AttrExpr& e : rule.where) {
      if (!is_each(e) && !is_alike(e)) continue;
      auto v = value_of(e.args[0], rule, all, facts, static_cast<int>(i));
      fits &= v && (is_alike(e) || (v->as<bool>() && *v->as<bool>()));
      if (fits && is_alike(e)) key.push_back(*v);
    }
    if (!fits) continue;
    auto at = static_cast<size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
    if (at == keys.size()) {
      keys.push_back(std::move(key));
      out.emplace_back();
    }
    out[at].items.push_back(i);
  }
  std::erase_if(out, [](const Group& g) { return g.items.size() < 2; });
  for (Group& g : out) g.substitution = chosen(all, g.items);
  return out;
}

Result<RightSide> apply(const Rule& rule, const Substitution& s, const TermFacts& facts,
                        std::span<const Type> roots) {
  if (!holds(rule, s, facts)) return fail("the guard does not hold");
  auto plan = plan_of(rule.rhs, rule, s, facts, roots[0].dtype);
  if (!plan) return plan;
  if (rule.several_roots() && rule.rhs.kind != Pattern::Kind::tuple) {
    auto items = add_items(*plan, plan->results[0], facts);
    if (!items) return Failure{items.error()};
    plan->results = std::move(*items);
  }
  bool same =
      std::equal(roots.begin(), roots.end(), plan->results.begin(), plan->results.end(),
                 [&](const Type& t, RightSide::Ref r) { return type_of(*plan, r, facts) == t; });
  if (!same) return fail("the right side has another type");
  if (facts.unbounded) return plan;
  auto before = plan_of(rule.lhs, rule, s, facts, roots[0].dtype);
  auto kept = keeps_range(before ? *before : RightSide(), *plan, facts);
  if (!kept) return Failure{kept.error()};
  return plan;
}

std::vector<Term> add(const RightSide& plan, const Adder& to) {
  std::vector<Term> made;
  auto term = [&](RightSide::Ref r) {
    if (r.from == RightSide::Ref::From::step) return made[r.index];
    if (r.from == RightSide::Ref::From::constant) return to.constant(plan.constants[r.index]);
    return to.matched(Term(r.index));
  };
  for (const RightSide::Step& step : plan.steps) {
    std::vector<Term> args;
    for (RightSide::Ref r : step.args) args.push_back(term(r));
    made.push_back(to.node(step, args));
  }
  std::vector<Term> results;
  for (RightSide::Ref r : plan.results) results.push_back(term(r));
  return results;
}

Result<AttrValue> value_of(const AttrExpr& e, const Rule& rule, const Substitution& s,
                           const TermFacts& facts, int repetition) {
  if (e.kind == AttrExpr::Kind::literal) return e.literal;
  if (e.kind == AttrExpr::Kind::variable) {
    auto fact = fact_of(e, rule, s, facts, repetition);
    if (!fact) return Failure{fact.error()};
    if (auto* v = std::get_if<AttrValue>(&*fact)) return *v;
    return fail("?", rule.variables.names[static_cast<size_t>(e.variable)], " is no attribute");
  }
  std::vector<Fact> args;
  for (const AttrExpr& a : e.args) {
    auto fact = fact_of(a, rule, s, facts, repetition);
    if (!fact) return Failure{fact.error()};
    args.push_back(std::move(*fact));
  }
  return (e.callee ? e.callee : find_function(e.function))->call(args);
}

}  // namespace emend
