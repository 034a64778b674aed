#include "synthesize/derive.h"

#include <algorithm>

#include "ops/table.h"
#include "rules/instance.h"

namespace emend {

namespace {

// One atom per operator of the pattern, the root first.
class Compiler {
 public:
  explicit Compiler(const Rule& rule) : slot_of_(rule.variables.names.size(), -1) { add(rule.lhs); }

  Query query;
  std::vector<const Pattern*> patterns;         // per atom
  std::vector<std::pair<int, uint32_t>> slots;  // of operand variables

 private:
  uint32_t add(const Pattern& p) {
    if (p.kind == Pattern::Kind::variable) {
      int& slot = slot_of_[static_cast<size_t>(p.variable)];
      if (slot < 0) {
        slot = static_cast<int>(query.slots++);
        slots.emplace_back(p.variable, static_cast<uint32_t>(slot));
      }
      return static_cast<uint32_t>(slot);
    }
    EMEND_ASSERT(p.kind == Pattern::Kind::node && p.op.valid(), "not a plain pattern");
    size_t at = query.atoms.size();
    query.atoms.emplace_back();
    patterns.push_back(&p);
    query.atoms[at].op = p.op.value;
    query.atoms[at].result = query.slots++;
    for (const Pattern& a : p.args) {
      uint32_t slot = add(a);
      query.atoms[at].children.push_back(slot);
    }
    return query.atoms[at].result;
  }

  std::vector<int> slot_of_;
};

}  // namespace

// A rule as a query. Holds the rule, since patterns are referred to.
struct Derivation::Compiled {
  explicit Compiled(const Directed& d)
      : rule(d.rule), contents(d.contents), compiler(rule), plan(compiler.query) {}

  const Rule rule;
  const std::vector<Input::Content> contents;
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

ClassId Derivation::operand(const Input& input, const Sizes& sizes, bool& legal) {
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
  auto at = [&](RightSide::Ref r) {
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

std::optional<ClassId> Derivation::add(const Equation& e, const Pattern& side, const Sizes& sizes) {
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
  const Rule& rule = c.rule;
  Substitution s(rule.variables.names.size());
  for (auto [variable, slot] : c.compiler.slots) {
    ClassId operand = graph_.find(classes[slot]);
    auto v = static_cast<size_t>(variable);
    auto content = v < c.contents.size() ? c.contents[v] : Input::Content::any;
    bool anything = content == Input::Content::any || content == Input::Content::filter;
    if (!anything && shaped_[operand.value].content != content) return;
    s[v] = Term(size_t{operand.value});
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    Attrs attrs = attrs_[graph_.node(nodes[i]).attr];
    if (!bind_attrs(rule.variables, *c.compiler.patterns[i], attrs, -1, s)) return;
  }
  // By value: what is added moves the records.
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

bool derivable(const Equation& e, const Sizes& sizes, const std::vector<Directed>& rules,
               const DeriveOptions& options) {
  Derivation d(options);
  auto left = d.add(e, e.left, sizes), right = d.add(e, e.right, sizes);
  if (!left || !right) return false;
  d.saturate(rules);
  return d.same(*left, *right);
}

}  // namespace emend
