#include "synthesize/bank.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "ops/build.h"
#include "ops/table.h"
#include "rules/instance.h"

namespace emend {
namespace {

constexpr size_t kPartners = 6;  // that a term is compared with; more say the same

// Operands in the places of ?p (the variable `first`) and the other one.
Pattern with_operands(const Pattern& p, int first, const Pattern& a, const Pattern* b) {
  if (p.kind == Pattern::Kind::variable) return p.variable == first ? a : *b;
  Pattern out = p;
  for (Pattern& arg : out.args) arg = with_operands(arg, first, a, b);
  return out;
}

uint64_t key_of(size_t assignment, int arithmetic, uint64_t print) {
  return hash_mix(hash_mix(assignment, static_cast<uint64_t>(arithmetic)), print);
}

}  // namespace

Bank::Bank(const Menu& menu, const BankOptions& options, Calculator& calculator)
    : menu_(menu), limit_(options.terms), calculator_(calculator) {
  inputs_ = parse_inputs(menu.inputs);
  for (const Input& in : inputs_) variables_.index(in.name);
  for (const std::string& size : size_names(inputs_)) {
    if (size_t before = variables_.names.size();
        static_cast<size_t>(variables_.index(size)) != before)
      throw Error(str("menu ", menu.name, ": ", size, " is an operand and a size"));
  }
  read_operations();
  draw_assignments(options);
  Rng rng(options.seed, hash_text(menu.name) + 1);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Term t;
    t.input = static_cast<int>(i);
    t.filter = inputs_[i].is_filter();
    t.scalar = inputs_[i].extents.empty();
    for (const Assignment& a : assignments_) {
      t.values.push_back(draw_value(inputs_[i].content, shape_of(inputs_[i], a.sizes), rng));
      t.prints.push_back(t.values.back() ? fingerprint(*t.values.back()) : Fingerprint{});
    }
    terms_.push_back(std::move(t));
    remember(terms_.size() - 1);
  }
}

void Bank::read_operations() {
  size_t known = variables_.names.size();
  int p = variables_.index("p"), q = variables_.index("q"), filter = variables_.index("filter");
  for (const std::string& text : menu_.operations) {
    Operation o;
    o.pattern = parse_pattern(text, variables_);
    const Pattern* inner = &o.pattern;
    while (inner->args.size() == 1 && inner->args[0].kind == Pattern::Kind::node)
      inner = &inner->args[0];
    o.operands = static_cast<int>(inner->args.size());
    o.takes_filter = o.operands == 2 && inner->args[1].variable == filter;
    bool plain = (o.operands == 1 || o.operands == 2) && inner->args[0].variable == p &&
                 (o.operands == 1 || o.takes_filter || inner->args[1].variable == q);
    if (!plain) throw Error(str("menu ", menu_.name, ": ", text, " is no operator on ?p and ?q"));
    operations_.push_back(std::move(o));
  }
  if (variables_.names.size() != known + 3) {
    throw Error(str("menu ", menu_.name, ": ?", variables_.names.back(),
                    " is neither an operand nor a size of its inputs"));
  }
}

Bank::Assignment Bank::assignment(SizeTable sizes, bool different) const {
  Rule rule;
  rule.variables = variables_;
  Substitution s(variables_.names.size());
  for (size_t v = 0; v < s.size(); ++v) {
    if (auto it = sizes.find(variables_.names[v]); it != sizes.end()) s[v] = AttrValue(it->second);
  }
  Assignment a{std::move(sizes), different, {}};
  for (const Operation& o : operations_) {
    std::vector<std::pair<OpId, Attrs>> steps;
    for (const Pattern* n = &o.pattern; n->kind == Pattern::Kind::node; n = &n->args[0]) {
      Attrs attrs;
      for (const auto& [name, e] : n->attrs) {
        AttrValue v = emend::value_of(e, rule, s, {}).value_or_throw();
        attrs = attrs.with(name, v);
      }
      steps.emplace_back(n->op, complete_attrs(op_def(n->op), attrs).value_or_throw());
    }
    std::reverse(steps.begin(), steps.end());
    a.steps.push_back(std::move(steps));
  }
  return a;
}

void Bank::draw_assignments(const BankOptions& options) {
  Rng rng(options.seed, hash_text(menu_.name));
  auto names = size_names(inputs_);
  auto draw = [&](SizeDraw how, int n) {
    for (int i = 0; i < n; ++i)
      assignments_.push_back(assignment(draw_sizes(names, how, rng), how == SizeDraw::different));
  };
  draw(SizeDraw::different, options.different);
  draw(SizeDraw::alike, options.alike);
  draw(SizeDraw::single, options.single);
}

std::optional<ExactValue> Bank::value_of(const Term& t, size_t assignment) {
  const ExactValue* args[2] = {};
  auto operands = static_cast<size_t>(operations_[static_cast<size_t>(t.operation)].operands);
  for (size_t i = 0; i < operands; ++i) {
    const auto& value = terms_[static_cast<size_t>(t.args[i])].values[assignment];
    if (!value) return std::nullopt;
    args[i] = &*value;
  }
  std::optional<ExactValue> result;
  std::span<const ExactValue* const> in(args, operands);
  ExactValue held;
  const ExactValue* one[1] = {&held};
  for (const auto& [op, attrs] : assignments_[assignment].steps[static_cast<size_t>(t.operation)]) {
    auto next = calculator_.apply(op, attrs, in);
    if (!next) return std::nullopt;
    result = next;
    held = std::move(*next);
    in = one;
  }
  return result;
}

// Do the operands have the kinds that the operator takes? Says what the term is.
bool Bank::takes(const Operation& o, Term& t) const {
  const Term& a = terms_[static_cast<size_t>(t.args[0])];
  t.filter = a.filter;
  t.scalar = a.scalar;
  if (o.operands == 1) return true;
  const Term& b = terms_[static_cast<size_t>(t.args[1])];
  if (o.takes_filter) return !a.filter && b.filter;
  t.filter = a.filter || b.filter;
  t.scalar = a.scalar && b.scalar;
  return a.filter == b.filter || a.scalar || b.scalar;
}

// False where it says nothing on every assignment of different sizes: illegal, or zero, as what
// reads nothing but borders is.
bool Bank::evaluate(Term& t) {
  bool general = false;
  for (size_t a = 0; a < assignments_.size(); ++a) {
    // Those of different sizes come first.
    if (!assignments_[a].different && !general) return false;
    t.values.push_back(value_of(t, a));
    t.prints.push_back(t.values.back() ? fingerprint(*t.values.back()) : Fingerprint{});
    general = general || (t.prints.back().legal() && !is_zero(*t.values.back()));
  }
  return general;
}

// Terms that agree with it on an assignment of different sizes, oldest first.
std::vector<size_t> Bank::partners(const Term& t) const {
  std::vector<size_t> out;
  for (size_t a = 0; a < assignments_.size() && assignments_[a].different; ++a) {
    for (auto [arithmetic, print] :
         {std::pair(0, t.prints[a].field), std::pair(1, t.prints[a].integer)}) {
      if (!print) continue;
      auto it = index_.find(key_of(a, arithmetic, print));
      if (it != index_.end()) out.insert(out.end(), it->second.begin(), it->second.end());
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (out.size() > kPartners) out.resize(kPartners);
  return out;
}

void Bank::remember(size_t id) {
  for (size_t a = 0; a < assignments_.size() && assignments_[a].different; ++a) {
    const Fingerprint& f = terms_[id].prints[a];
    if (f.field) index_[key_of(a, 0, f.field)].push_back(static_cast<uint32_t>(id));
    if (f.integer) index_[key_of(a, 1, f.integer)].push_back(static_cast<uint32_t>(id));
  }
}

Pattern Bank::pattern_of(const Term& t) const {
  if (t.input >= 0) {
    Pattern p;
    p.variable = t.input;
    return p;
  }
  const Operation& o = operations_[static_cast<size_t>(t.operation)];
  int first = static_cast<int>(std::find(variables_.names.begin(), variables_.names.end(), "p") -
                               variables_.names.begin());
  Pattern a = pattern_of(terms_[static_cast<size_t>(t.args[0])]);
  if (o.operands == 1) return with_operands(o.pattern, first, a, nullptr);
  Pattern b = pattern_of(terms_[static_cast<size_t>(t.args[1])]);
  return with_operands(o.pattern, first, a, &b);
}

void Bank::try_term(int operation, int first, int second, std::vector<Suggestion>& found) {
  Term t;
  t.operation = operation;
  t.args[0] = first;
  t.args[1] = second;
  t.leaves = 0;
  t.operators = 1;
  for (int a : t.args) {
    if (a < 0) continue;
    t.operators += terms_[static_cast<size_t>(a)].operators;
    t.leaves += terms_[static_cast<size_t>(a)].leaves;
  }
  if (t.leaves > menu_.leaves || !takes(operations_[static_cast<size_t>(operation)], t)) return;
  if (++tried_ > limit_) full_ = true;
  if (full_ || !evaluate(t)) return;
  bool subsumed = false;
  for (size_t id : partners(t)) {
    const Term& other = terms_[id];
    bool general = true, covered = true;
    size_t at = assignments_.size();
    for (size_t a = 0; a < assignments_.size(); ++a) {
      Agreement agreement = compare(t.prints[a], other.prints[a]);
      if (agreement == Agreement::different && assignments_[a].different) general = false;
      if (agreement != Agreement::equal && t.prints[a].legal()) covered = false;
      if (agreement == Agreement::equal && at == assignments_.size()) at = a;
    }
    if (!general) continue;
    subsumed = subsumed || covered;
    Operation& o = operations_[static_cast<size_t>(operation)];
    // Learned from two different inputs; other operands may agree for reasons of their own.
    bool swapped = other.operation == operation && t.operators == 1 && o.operands == 2 &&
                   first != second && other.args[0] == second && other.args[1] == first;
    if (swapped && covered) o.symmetric = true;
    Variables variables = variables_;
    auto e = make_equation(inputs_, variables, pattern_of(t), pattern_of(other));
    if (e) found.push_back({std::move(*e), assignments_[at].sizes, t.operators + other.operators});
  }
  if (subsumed) return;
  if (t.operators >= menu_.operators) t.values.clear();
  terms_.push_back(std::move(t));
  remember(terms_.size() - 1);
}

std::vector<Suggestion> Bank::grow(const Monitor& monitor) {
  std::vector<Suggestion> found;
  if (done()) return found;
  ++operators_;
  std::vector<std::vector<int>> by_operators(static_cast<size_t>(operators_));
  for (size_t i = 0; i < terms_.size(); ++i)
    by_operators[static_cast<size_t>(terms_[i].operators)].push_back(static_cast<int>(i));
  auto n = static_cast<size_t>(operators_);
  for (size_t o = 0; o < operations_.size(); ++o) {
    auto id = static_cast<int>(o);
    if (operations_[o].operands == 1) {
      for (int a : by_operators[n - 1]) try_term(id, a, -1, found);
      continue;
    }
    for (size_t left = 0; left < n; ++left) {
      for (int a : by_operators[left]) {
        if (full_ || monitor.stop_requested()) return found;
        for (int b : by_operators[n - 1 - left]) {
          if (!operations_[o].symmetric || a <= b) try_term(id, a, b, found);
        }
      }
    }
  }
  return found;
}

}  // namespace emend
