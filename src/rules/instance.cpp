#include "rules/instance.h"

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

class Planner {
 public:
  Planner(const Rule& rule, const Substitution& s, const TermFacts& facts, DType scalars)
      : rule_(rule), s_(s), facts_(facts), scalars_(scalars) {}

  Result<Plan> plan(const Pattern& p) {
    auto result = add(p, -1);
    if (!result) return Failure{result.error()};
    plan_.result = *result;
    return std::move(plan_);
  }

 private:
  using Ref = Plan::Ref;

  Result<Ref> add(const Pattern& p, int repetition) {
    switch (p.kind) {
      case Pattern::Kind::number:
        return scalar(p.number);
      case Pattern::Kind::variable:
        return variable(p.variable, repetition);
      case Pattern::Kind::at: {
        auto index = value_of(p.index, rule_, s_, facts_, repetition);
        if (!index) return Failure{index.error()};
        return variable(p.variable, static_cast<int>(*index->as<int64_t>()));
      }
      case Pattern::Kind::node:
        return node(p, repetition);
    }
    return fail("no such pattern");
  }

  Ref scalar(double v) {
    plan_.constants.push_back(Tensor::of_real(v, scalars_));
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

  // How often a repeated pattern stands: as often as its starred variables have items.
  size_t repetitions(const Pattern& p) const {
    size_t n = 0;
    auto see = [&](int v) {
      if (v < 0 || !rule_.variables.starred(v)) return;
      const Binding& b = s_[static_cast<size_t>(v)];
      if (auto* t = std::get_if<std::vector<Term>>(&b)) n = std::max(n, t->size());
      if (auto* a = std::get_if<std::vector<AttrValue>>(&b)) n = std::max(n, a->size());
    };
    see(p.variable);
    see(p.whole);
    for (const auto& [name, e] : p.attrs) see(e.variable);
    for (const Pattern& a : p.args) n = std::max(n, repetitions(a));
    return n;
  }

  Result<Ref> node(const Pattern& p, int repetition) {
    Plan::Step step;
    auto head = operator_of(p, repetition);
    if (!head) return Failure{head.error()};
    step.op = head->op;
    step.attrs = head->attrs;
    for (const Pattern& a : p.args) {
      int n = a.repeated ? static_cast<int>(repetitions(a)) : 1;
      for (int i = 0; i < n; ++i) {
        auto ref = add(a, a.repeated ? i : repetition);
        if (!ref) return ref;
        step.args.push_back(*ref);
      }
    }
    std::vector<Type> types;
    for (Ref r : step.args) types.push_back(type_of(plan_, r, facts_));
    auto type = infer_type(op_def(step.op), step.attrs, types);
    if (!type) return Failure{type.error()};
    step.type = *type;
    plan_.steps.push_back(std::move(step));
    return Ref{Ref::From::step, static_cast<uint32_t>(plan_.steps.size() - 1)};
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
  Plan plan_;
};

// The integers of a starred attribute variable as one list.
Result<AttrValue> as_list(const std::vector<AttrValue>& items) {
  Dims out;
  for (const AttrValue& v : items) {
    if (!v.as<int64_t>()) return fail("not a list of integers");
    out.push_back(*v.as<int64_t>());
  }
  return AttrValue(std::move(out));
}

Result<Fact> fact_of(const AttrExpr& e, const Rule& rule, const Substitution& s,
                     const TermFacts& facts, int repetition) {
  if (e.kind != AttrExpr::Kind::variable) {
    auto v = value_of(e, rule, s, facts, repetition);
    if (!v) return Failure{v.error()};
    return Fact(*v);
  }
  auto known = [&](Term t) { return Operand{&facts.type(t), facts.constant(t)}; };
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
    auto list = as_list(*many);
    if (!list) return Failure{list.error()};
    return Fact(*list);
  }
  return fail("?", rule.variables.names[static_cast<size_t>(e.variable)], " is not bound");
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

bool in_class(OpClass c, const OpDef& def) {
  if (def.kind != Kind::elementwise) return false;
  switch (c) {
    case OpClass::unary:
      return def.max_args == 1;
    case OpClass::binary:
      return def.min_args == 2 && def.max_args == 2;
    case OpClass::idempotent_unary:
      return def.max_args == 1 && def.has(idempotent);
  }
  return false;
}

Type type_of(const Plan& plan, Plan::Ref ref, const TermFacts& facts) {
  switch (ref.from) {
    case Plan::Ref::From::matched:
      return facts.type(Term(ref.index));
    case Plan::Ref::From::step:
      return plan.steps[ref.index].type;
    case Plan::Ref::From::constant:
      return plan.constants[ref.index].type();
  }
  return Type::any();
}

Result<Plan> plan_of(const Pattern& p, const Rule& rule, const Substitution& s,
                     const TermFacts& facts, DType scalars) {
  return Planner(rule, s, facts, scalars).plan(p);
}

bool holds(const Rule& rule, const Substitution& s, const TermFacts& facts) {
  for (const AttrExpr& e : rule.where) {
    auto v = value_of(e, rule, s, facts);
    if (!v || !v->as<bool>() || !*v->as<bool>()) return false;
  }
  return true;
}

Result<Plan> apply(const Rule& rule, const Substitution& s, const TermFacts& facts,
                   const Type& root) {
  if (!holds(rule, s, facts)) return fail("the guard does not hold");
  auto plan = plan_of(rule.rhs, rule, s, facts, root.dtype);
  if (!plan) return plan;
  if (type_of(*plan, plan->result, facts) != root) return fail("the right side has another type");
  return plan;
}

Term add(const Plan& plan, const Adder& to) {
  std::vector<Term> made;
  auto term = [&](Plan::Ref r) {
    if (r.from == Plan::Ref::From::step) return made[r.index];
    if (r.from == Plan::Ref::From::constant) return to.constant(plan.constants[r.index]);
    return to.matched(Term(r.index));
  };
  for (const Plan::Step& step : plan.steps) {
    std::vector<Term> args;
    for (Plan::Ref r : step.args) args.push_back(term(r));
    made.push_back(to.node(step, args));
  }
  return term(plan.result);
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
  return find_function(e.function)->call(args);
}

}  // namespace emend
