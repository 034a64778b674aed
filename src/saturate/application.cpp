#include "saturate/application.h"

#include <algorithm>

#include "ops/table.h"

namespace emend {
namespace {

constexpr size_t kMostMerged = 32, kMostLeftOut = 4;

// Facts about places in a list of classes: so right sides are found for many lists at once.
TermFacts facts_at(const TensorEGraph& g, const std::vector<ClassId>& classes) {
  auto class_of = [&](Term t) { return g.engine().find(classes[t.value]); };
  return {.type = [=, &g](Term t) -> const Type& { return g.type(class_of(t)); },
          .constant = [=, &g](Term t) { return g.constant(class_of(t)); },
          .weight_only = [=, &g](Term t) { return g.weight_only(class_of(t)); },
          .scale = [=, &g](Term t) { return g.scale(class_of(t)); }};
}

void append(Substitution& all, const Substitution& one) {
  for (size_t v = 0; v < all.size(); ++v) {
    if (auto* terms = std::get_if<std::vector<Term>>(&all[v]))
      terms->push_back(std::get<std::vector<Term>>(one[v])[0]);
    if (auto* values = std::get_if<std::vector<AttrValue>>(&all[v]))
      values->push_back(std::get<std::vector<AttrValue>>(one[v])[0]);
  }
}

}  // namespace

// Items of groups that share what is not starred.
struct Application::Candidates {
  Substitution all;
  std::vector<ClassId> roots;
  std::vector<std::vector<ENodeId>> matched;
};

Application::Application(TensorEGraph& g, const Rule& rule, const FlatPattern& flat,
                         const NodeSeconds& seconds)
    : g_(g), rule_(rule), flat_(flat), seconds_(seconds), facts_(facts_at(g, classes_)) {}

const Recipe* Application::at(const Place& place) {
  classes_.assign(place.classes.begin(), place.classes.end());
  for (ClassId& c : classes_) c = g_.engine().find(c);
  auto [it, fresh] = known_.try_emplace(key_of(place.nodes));
  if (fresh) it->second = recipe_at(place.nodes);
  return it->second ? &*it->second : nullptr;
}

bool Application::fire(RuleId id, const Place& place, const Recipe& recipe) {
  classes_.assign(place.classes.begin(), place.classes.end());
  std::vector<ClassId> roots;
  for (int slot : flat_.roots) roots.push_back(classes_[static_cast<size_t>(slot)]);
  return add(id, recipe.steps, roots, place.nodes);
}

void Application::groups(const Rows& rows, const Mergers& mergers,
                         std::set<std::vector<uint32_t>>& done,
                         const std::function<bool(const Merge&)>& see) {
  std::vector<Candidates> all = candidates(rows, mergers);
  std::vector<uint32_t> depths = all.empty() ? std::vector<uint32_t>() : g_.depths();
  for (const Candidates& c : all) {
    for (const Group& alike : groups_of(rule_, c.all, facts_)) {
      // Of different depths, one may well need the other: what merges both cannot be computed.
      std::map<uint32_t, std::vector<uint32_t>> levels;
      for (uint32_t item : alike.items) levels[depths[c.roots[item].value]].push_back(item);
      for (const auto& [depth, items] : levels) {
        if (g_.engine().full() != Full::no) return;
        if (items.size() < 2 || items.size() > kMostMerged) continue;
        merge(c, items, done, see);
        // Not all of them may be wanted in the end: the last ones are left out, too.
        if (items.size() > kMostLeftOut) continue;
        for (size_t n = items.size() - 1; n >= 2; --n)
          merge(c, {items.begin(), items.begin() + static_cast<ptrdiff_t>(n)}, done, see);
      }
    }
  }
}

bool Application::fire(RuleId id, const Merge& merge) {
  classes_ = merge.classes;
  return add(id, merge.recipe.steps, merge.roots, merge.matched);
}

// Of all rows; their classes follow one another in classes_. Only where there are two at least.
std::vector<Application::Candidates> Application::candidates(const Rows& rows,
                                                             const Mergers& mergers) {
  classes_.clear();
  for (size_t i = 0; i < rows.size(); ++i)
    classes_.insert(classes_.end(), rows.classes(i).begin(), rows.classes(i).end());
  for (ClassId& c : classes_) c = g_.engine().find(c);
  std::vector<Candidates> out;
  for (const auto& [shared, together] : rows_by_shared(rows, mergers)) {
    if (together.size() < 2) continue;
    size_t begin = out.size();  // they may still differ in attributes
    for (size_t i : together) {
      size_t first = i * flat_.slots.size();
      auto s = bound(rows.nodes(i), first);
      if (!s) continue;
      ClassId root = classes_[first + static_cast<size_t>(flat_.roots[0])];
      auto it = std::find_if(out.begin() + static_cast<ptrdiff_t>(begin), out.end(),
                             [&](const Candidates& c) { return shares(c.all, *s); });
      if (it == out.end()) it = out.insert(out.end(), {*s, {}, {}});
      if (std::ranges::find(it->roots, root) != it->roots.end()) continue;  // another way to say it
      if (!it->roots.empty()) append(it->all, *s);
      it->roots.push_back(root);
      it->matched.emplace_back(rows.nodes(i).begin(), rows.nodes(i).end());
    }
  }
  std::erase_if(out, [](const Candidates& c) { return c.roots.size() < 2; });
  return out;
}

// Which rows have the same classes where items of a group must.
std::map<std::vector<ClassId>, std::vector<size_t>> Application::rows_by_shared(
    const Rows& rows, const Mergers& mergers) const {
  std::vector<size_t> slots;
  for (size_t k = 0; k < flat_.slots.size(); ++k) {
    int variable = flat_.slots[k].variable;
    if (variable >= 0 && !rule_.variables.starred(variable)) slots.push_back(k);
  }
  std::map<std::vector<ClassId>, std::vector<size_t>> out;
  std::vector<ClassId> shared(slots.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    // What was merged is not merged again with its own parts.
    if (std::ranges::any_of(rows.nodes(i), [&](ENodeId n) { return made_by(n, mergers); }))
      continue;
    for (size_t k = 0; k < slots.size(); ++k)
      shared[k] = classes_[i * flat_.slots.size() + slots[k]];
    out[shared].push_back(i);
  }
  return out;
}

void Application::merge(const Candidates& c, const std::vector<uint32_t>& items,
                        std::set<std::vector<uint32_t>>& done,
                        const std::function<bool(const Merge&)>& see) {
  Merge m;
  std::vector<Type> types;
  std::vector<uint32_t> key;
  for (uint32_t item : items) {
    m.roots.push_back(c.roots[item]);
    types.push_back(g_.type(g_.engine().find(c.roots[item])));
    key.push_back(c.roots[item].value);
    m.matched.insert(m.matched.end(), c.matched[item].begin(), c.matched[item].end());
  }
  for (const Binding& b : c.all) {  // what they share tells groups of the same roots apart
    if (auto* shared = std::get_if<Term>(&b)) key.push_back(classes_[shared->value].value);
  }
  if (done.count(key)) return;
  // What does not apply may do so when more is known, and what was put off was not done.
  auto side = apply(rule_, chosen(c.all, items), facts_, types);
  if (!side) return;
  m.recipe.steps = g_.recipe_of(*side);
  m.recipe.more_s = seconds_of(m.recipe.steps) - seconds_of(m.matched);
  m.classes = classes_;
  if (see(m)) done.insert(std::move(key));
  classes_ = std::move(m.classes);
}

bool Application::made_by(ENodeId n, const Mergers& rules) const {
  const Provenance& p = g_.engine().provenance();
  return p.maker(n).valid() && rules.count(p.firing(p.maker(n)).rule.value);
}

// Everything that the answer at a place depends on.
std::vector<uint32_t> Application::key_of(std::span<const ENodeId> nodes) const {
  std::vector<uint32_t> key;
  key.reserve(flat_.atoms.size() + 4 * flat_.slots.size());
  for (ENodeId n : nodes) key.push_back(g_.engine().node(n).attr);
  for (ClassId c : classes_) {
    auto known = g_.known(c);
    key.insert(key.end(), {known.type, known.constant, known.weight_only, known.scale});
  }
  return key;
}

std::optional<Recipe> Application::recipe_at(std::span<const ENodeId> nodes) {
  auto s = bound(nodes, 0);
  if (!s) return std::nullopt;
  std::vector<Type> types;
  for (int slot : flat_.roots)
    types.push_back(g_.type(g_.engine().find(classes_[static_cast<size_t>(slot)])));
  auto side = apply(rule_, *s, facts_, types);
  if (!side) return std::nullopt;
  Recipe made{g_.recipe_of(*side)};
  made.more_s = seconds_of(made.steps) - seconds_of(nodes);
  return made;
}

double Application::seconds_of(const TensorEGraph::Recipe& recipe) const {
  using From = RightSide::Ref::From;
  struct Operand {
    Type type;
    bool weight;
  };
  std::vector<Operand> made;
  auto operand = [&](RightSide::Ref r) -> Operand {
    if (r.from == From::step) return made[r.index];
    if (r.from == From::constant) return {recipe.constants[r.index].type(), true};
    ClassId c = g_.engine().find(classes_[r.index]);
    return {g_.type(c), g_.weight_only(c)};
  };
  double sum = 0;
  for (const TensorEGraph::Recipe::Step& step : recipe.steps) {
    PricedNode n{.op = OpId(size_t{step.op}), .attrs = g_.attrs(step.attr)};
    n.result = g_.type_at(step.type);
    for (RightSide::Ref r : step.operands) {
      Operand o = operand(r);
      n.operands.push_back(std::move(o.type));
      n.weights.push_back(o.weight);
    }
    made.push_back({n.result, std::ranges::all_of(n.weights, [](bool w) { return w; })});
    if (!made.back().weight) sum += seconds_(n);
  }
  return sum;
}

// What stands there twice is computed once.
double Application::seconds_of(std::span<const ENodeId> nodes) const {
  double sum = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (std::ranges::count(nodes.subspan(0, i), nodes[i])) continue;
    PricedNode n = g_.priced(nodes[i]);
    if (!std::ranges::all_of(n.weights, [](bool w) { return w; })) sum += seconds_(n);
  }
  return sum;
}

// What the variables stand for: terms are places in classes_, from `first` on.
std::optional<Substitution> Application::bound(std::span<const ENodeId> nodes, size_t first) const {
  const Variables& v = rule_.variables;
  Substitution s(v.names.size());
  for (size_t i = 0; i < flat_.slots.size(); ++i) {
    const FlatPattern::Slot& slot = flat_.slots[i];
    if (slot.variable >= 0 && !bind_term(v, s, slot.variable, slot.repetition, Term(first + i)))
      return std::nullopt;
  }
  for (size_t i = 0; i < flat_.atoms.size(); ++i) {
    const FlatPattern::Atom& a = flat_.atoms[i];
    Attrs attrs = g_.attrs(g_.engine().node(nodes[i]).attr);
    bool fits = a.pattern->variable >= 0 ? bind_op(s, a.pattern->variable, {a.op, attrs})
                                         : bind_attrs(v, *a.pattern, attrs, a.repetition, s);
    if (!fits) return std::nullopt;
  }
  return s;
}

bool Application::same_term(const Binding& a, const Binding& b) const {
  auto *x = std::get_if<Term>(&a), *y = std::get_if<Term>(&b);
  return x && y ? classes_[x->value] == classes_[y->value] : a == b;
}

bool Application::shares(const Substitution& a, const Substitution& b) const {
  for (size_t v = 0; v < a.size(); ++v) {
    if (!rule_.variables.starred(static_cast<int>(v)) && !same_term(a[v], b[v])) return false;
  }
  return true;
}

bool Application::add(RuleId id, const TensorEGraph::Recipe& recipe, std::span<const ClassId> roots,
                      std::span<const ENodeId> matched) {
  EGraph& engine = g_.engine();
  size_t ids = engine.ids(), unions = engine.union_count();
  engine.begin_firing(id, matched);
  std::vector<ClassId> made = g_.add(recipe, classes_);
  for (size_t i = 0; i < made.size(); ++i) engine.unite(roots[i], made[i]);
  engine.end_firing();
  return engine.ids() != ids || engine.union_count() != unions;
}

}  // namespace emend
