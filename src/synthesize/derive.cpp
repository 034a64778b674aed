#include "synthesize/derive.h"

#include <algorithm>

#include "ops/table.h"
#include "rules/instance.h"

namespace emend {

namespace {

// One atom per operator of the pattern, the root first.
class Compiler {
 public:
  explicit Compiler(const Directed& d) : directed_(d) { add(d.rule.lhs, -1); }

  struct Place {
    const Pattern* pattern;
    int repetition;
  };
  struct Variable {
    int variable, repetition;
    uint32_t slot;
  };
  Query query;
  std::vector<Place> places;  // per atom
  std::vector<Variable> variables;
  std::vector<std::pair<uint32_t, double>> numbers;  // slots that are constants

 private:
  uint32_t add(const Pattern& p, int repetition) {
    if (p.kind == Pattern::Kind::variable) {
      int r = directed_.rule.variables.starred(p.variable) ? repetition : -1;
      for (const Variable& v : variables) {
        if (v.variable == p.variable && v.repetition == r) return v.slot;
      }
      variables.push_back({p.variable, r, query.slots++});
      return variables.back().slot;
    }
    if (p.kind == Pattern::Kind::number) {
      numbers.emplace_back(query.slots, p.number);
      return query.slots++;
    }
    EMEND_ASSERT(p.kind == Pattern::Kind::node, "not a plain pattern");
    size_t at = query.atoms.size();
    query.atoms.emplace_back();
    places.push_back({&p, repetition});
    query.atoms[at].op = operator_of(p).value;
    query.atoms[at].result = query.slots++;
    for (const Pattern& a : p.args) {
      int times = a.repeated ? directed_.repetitions[repeated_++] : 1;
      for (int i = 0; i < times; ++i) {
        uint32_t slot = add(a, a.repeated ? i : repetition);
        query.atoms[at].children.push_back(slot);
      }
    }
    return query.atoms[at].result;
  }

  OpId operator_of(const Pattern& p) const {
    for (auto [variable, op] : directed_.operators) {
      if (p.variable == variable) return op;
    }
    return p.op;
  }

  const Directed& directed_;
  size_t repeated_ = 0;
};

}  // namespace

// A rule as a query. Holds the rule, since patterns are referred to.
struct Derivation::Compiled {
  explicit Compiled(const Directed& d) : directed(d), compiler(directed), plan(compiler.query) {}

  const Directed directed;
  const Compiler compiler;
  const QueryPlan plan;
  uint32_t since = 0;
};

Derivation::Derivation(const DeriveOptions& options) : options_(options), graph_({}, false) {
  graph_.set_limits({.nodes = options.nodes});
}

uint32_t Derivation::attr_id(Attrs attrs) {
  for (uint32_t id : attr_ids_[attrs.hash()]) {
    if (attrs_[id] == attrs) return id;
  }
  attrs_.push_back(attrs);
  auto id = static_cast<uint32_t>(attrs_.size() - 1);
  attr_ids_[attrs.hash()].push_back(id);
  return id;
}

ClassId Derivation::add_node(uint32_t op, uint32_t attr, std::span<const ClassId> args,
                             Shaped shaped) {
  ClassId c = graph_.add(op, attr, args);
  if (graph_.ids() > shaped_.size()) shaped_.push_back(std::move(shaped));
  return c;
}

ClassId Derivation::operand(const Input& input, const SizeTable& sizes, bool& legal) {
  Dims shape = shape_of(input, sizes);
  auto constant = constant_of(input.content, shape);
  legal = legal && (constant || !input.is_constant());
  // The same constant by another name is the same.
  std::string name = constant ? std::string(to_text(input.content)) : input.name;
  auto [it, fresh] = operand_ids_.emplace(str(name, shape_text(shape)), operand_ids_.size());
  return add_node(kInputOp.value, it->second, {},
                  {Type::tensor(DType::f64, shape), input.content, std::move(constant)});
}

std::optional<ClassId> Derivation::add(const RightSide& plan) {
  std::vector<ClassId> steps;
  std::vector<ClassId> constants;
  for (const Tensor& t : plan.constants) {
    auto [it, fresh] = operand_ids_.emplace(str("constant", hash(t)), operand_ids_.size());
    ClassId c = add_node(kConstantOp.value, it->second, {}, {t.type(), Input::Content::any, t});
    if (!c.valid()) return std::nullopt;
    constants.push_back(c);
  }
  auto at = [&](RightSide::Ref r) {
    if (r.from == RightSide::Ref::From::constant) return constants[r.index];
    return r.from == RightSide::Ref::From::step ? steps[r.index] : ClassId(size_t{r.index});
  };
  for (const RightSide::Step& step : plan.steps) {
    std::vector<ClassId> args;
    for (RightSide::Ref r : step.args) args.push_back(at(r));
    ClassId c =
        add_node(step.op.value, attr_id(step.attrs), args, {step.type, Input::Content::any, {}});
    if (!c.valid()) return std::nullopt;
    steps.push_back(c);
  }
  return at(plan.results[0]);
}

std::optional<ClassId> Derivation::add(const Equation& e, const Pattern& side,
                                       const SizeTable& sizes) {
  Substitution s(e.variables.names.size());
  bool legal = true;
  for (size_t i = 0; i < e.operands.size(); ++i)
    s[i] = Term(size_t{operand(e.operands[i], sizes, legal).value});
  if (!legal) return std::nullopt;
  Rule rule;
  rule.variables = e.variables;
  TermFacts facts{.type = [&](Term t) -> const Type& { return shaped_[t.value].type; },
                  .constant = [](Term) -> const Tensor* { return nullptr; }};
  auto plan = plan_of(side, rule, s, facts, DType::f64);
  if (!plan) return std::nullopt;
  return add(*plan);
}

void Derivation::apply_row(const Compiled& c, std::span<const ClassId> classes,
                           std::span<const ENodeId> nodes) {
  const Rule& rule = c.directed.rule;
  const auto& contents = c.directed.contents;
  Substitution s(rule.variables.names.size());
  for (const auto& [variable, repetition, slot] : c.compiler.variables) {
    ClassId operand = graph_.find(classes[slot]);
    auto v = static_cast<size_t>(variable);
    auto content = v < contents.size() ? contents[v] : Input::Content::any;
    bool anything = content == Input::Content::any || content == Input::Content::filter;
    if (!anything && shaped_[operand.value].content != content) return;
    if (!bind_term(rule.variables, s, variable, repetition, Term(size_t{operand.value}))) return;
  }
  for (auto [slot, number] : c.compiler.numbers) {
    const auto& constant = shaped_[graph_.find(classes[slot]).value].constant;
    if (!constant || !is_number(*constant, number)) return;
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& [pattern, repetition] = c.compiler.places[i];
    ENode node = graph_.node(nodes[i]);
    Attrs attrs = attrs_[node.attr];
    if (pattern->variable >= 0 ? !bind_op(s, pattern->variable, {OpId(size_t{node.op}), attrs})
                               : !bind_attrs(rule.variables, *pattern, attrs, repetition, s))
      return;
  }
  // Repeated operands that stand nowhere are none.
  for (size_t v = 0; v < s.size(); ++v) {
    bool starred = rule.variables.starred(static_cast<int>(v));
    if (starred && std::holds_alternative<std::monostate>(s[v])) s[v] = std::vector<Term>();
  }
  TermFacts facts{.type = [&](Term t) -> const Type& { return shaped_[t.value].type; },
                  .constant = [&](Term t) -> const Tensor* {
                    const auto& constant = shaped_[t.value].constant;
                    return constant ? &*constant : nullptr;
                  }};
  ClassId root = graph_.find(classes[c.plan.query().atoms[0].result]);
  const Type type = shaped_[root.value].type;
  auto plan = emend::apply(rule, s, facts, type);
  if (!plan) return;
  auto result = add(*plan);
  if (result) graph_.unite(root, *result);
}

void Derivation::apply(Compiled& c) {
  Rows rows;
  bool all = search(graph_, c.plan, c.since, rows, options_.rows);
  c.since = graph_.time() + 1;
  if (!all) return;
  for (size_t i = 0; i < rows.size() && graph_.full() == Full::no; ++i)
    apply_row(c, rows.classes(i), rows.nodes(i));
}

void Derivation::saturate(const std::vector<Directed>& rules) {
  for (size_t i = compiled_.size(); i < rules.size(); ++i)
    compiled_.push_back(std::make_shared<Compiled>(rules[i]));
  for (int round = 0; round < options_.iterations && graph_.full() == Full::no; ++round) {
    graph_.refresh();
    size_t nodes = graph_.node_count(), unions = graph_.union_count();
    for (auto& c : compiled_) apply(*c);
    graph_.rebuild();
    if (graph_.node_count() == nodes && graph_.union_count() == unions) break;
  }
  graph_.rebuild();
}

bool derivable(const Equation& e, const SizeTable& sizes, const std::vector<Directed>& rules,
               const DeriveOptions& options) {
  Derivation d(options);
  auto left = d.add(e, e.left, sizes), right = d.add(e, e.right, sizes);
  if (!left || !right) return false;
  d.saturate(rules);
  return d.same(*left, *right);
}

}  // namespace emend
