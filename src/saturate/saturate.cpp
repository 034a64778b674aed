#include "saturate/saturate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <set>

#include "ops/table.h"
#include "saturate/query.h"

namespace emend {
namespace {

// (f ?x ?y) = (f ?y ?x)
bool swaps_operands(const Rule& r) {
  auto of_two = [](const Pattern& p) {
    return p.kind == Pattern::Kind::node && p.variable < 0 && op_def(p.op).has(commutative) &&
           p.args.size() == 2 && p.args[0].kind == Pattern::Kind::variable &&
           p.args[1].kind == Pattern::Kind::variable;
  };
  return of_two(r.lhs) && of_two(r.rhs) && r.lhs.op == r.rhs.op &&
         r.lhs.args[0].variable == r.rhs.args[1].variable &&
         r.lhs.args[1].variable == r.rhs.args[0].variable;
}

// Each rule in each direction in which it is used. Composites that a file format wants are formed
// after the search, forms are asked for.
std::vector<Rule> directions(const SaturateOptions& o) {
  std::vector<Rule> out;
  for (const Rule& r : o.rules.empty() ? all_rules() : o.rules) {
    bool later = r.use == Use::finish || r.use == Use::form;
    if (later || !is_enabled(r.name, o.enable, o.disable)) continue;
    if (swaps_operands(r)) continue;  // commutative operators have no order here
    if (o.exact && r.numerics != Numerics::exact) continue;
    if (r.lhs.kind == Pattern::Kind::node || r.several_roots()) out.push_back(r);
    if (r.both && r.rhs.kind == Pattern::Kind::node) out.push_back(reversed(r));
  }
  return out;
}

// Nearly everybody wants all of them, and to copy them takes a while.
std::shared_ptr<const std::vector<Rule>> shared_directions(const SaturateOptions& o) {
  static const auto kAll = std::make_shared<const std::vector<Rule>>(directions({}));
  if (o.rules.empty() && o.disable.empty() && !o.exact) return kAll;
  return std::make_shared<const std::vector<Rule>>(directions(o));
}

// Says of attributes whether a pattern may take them; remembers, for any number of threads.
class AttrFilter {
 public:
  AttrFilter(const TensorEGraph& g, const Rule& rule, const Pattern& p)
      : g_(g), rule_(rule), pattern_(p), known_(std::make_shared<Known>()) {}

  // Does it ever refuse?
  static bool needed(const Pattern& p) {
    if (p.variable >= 0) return false;
    auto literal = [](const auto& a) { return a.second.kind == AttrExpr::Kind::literal; };
    return std::ranges::any_of(p.attrs, literal) ||
           (p.whole < 0 && p.attrs.size() < op_def(p.op).attrs.size());
  }

  bool operator()(uint32_t attr) const {
    if (attr >= kRemembered) return takes(attr);
    std::atomic<uint8_t>& known = (*known_)[attr];
    uint8_t answer = known.load(std::memory_order_relaxed);
    if (!answer) known.store(answer = takes(attr) ? 2 : 1, std::memory_order_relaxed);
    return answer == 2;
  }

 private:
  static constexpr uint32_t kRemembered = 4096;
  using Known = std::array<std::atomic<uint8_t>, kRemembered>;

  bool takes(uint32_t attr) const {
    Substitution s(rule_.variables.names.size());
    return bind_attrs(rule_.variables, pattern_, g_.attrs(attr), -1, s);
  }

  const TensorEGraph& g_;
  const Rule& rule_;
  const Pattern& pattern_;
  std::shared_ptr<Known> known_;
};

// The right side makes no node: one of the operands is the whole. Such rules are good even for
// weights: parts of what was merged are seen to be what they were, and not merged anew.
bool finds_operand(const Rule& r) {
  return r.rhs.kind == Pattern::Kind::variable || r.rhs.kind == Pattern::Kind::at;
}

// By pattern: all ways to meet a rule share them.
using AttrFilters = std::map<const Pattern*, AttrFilter>;

Query query_of(const TensorEGraph& g, const Rule& rule, const FlatPattern& flat,
               AttrFilters& filters) {
  Query q = query_of(g, flat);
  for (size_t i = 0; i < flat.atoms.size(); ++i) {
    const FlatPattern::Atom& a = flat.atoms[i];
    // What depends on no input costs nothing however it is written.
    if (!finds_operand(rule))
      q.slot_filters[static_cast<size_t>(a.result)] = [&g](ClassId c) { return !g.weight_only(c); };
    if (AttrFilter::needed(*a.pattern))
      q.atoms[i].attr_filter =
          filters.try_emplace(a.pattern, AttrFilter(g, rule, *a.pattern)).first->second;
  }
  return q;
}

// What became of a rule at places about which all that rules may ask was the same.
using Recipes = std::map<std::vector<uint32_t>, std::optional<TensorEGraph::Recipe>>;

// Facts about places in a list of classes: so right sides are found for many lists at once.
TermFacts facts_at(const TensorEGraph& g, const std::vector<ClassId>& classes) {
  auto class_of = [&](Term t) { return g.engine().find(classes[t.value]); };
  return {.type = [=, &g](Term t) -> const Type& { return g.type(class_of(t)); },
          .constant = [=, &g](Term t) { return g.constant(class_of(t)); },
          .weight_only = [=, &g](Term t) { return g.weight_only(class_of(t)); },
          .scale = [=, &g](Term t) { return g.scale(class_of(t)); }};
}

// One rule at the rows that were found for it.
class Application {
 public:
  Application(TensorEGraph& g, const Rule& rule, const FlatPattern& flat)
      : g_(g), rule_(rule), flat_(flat), facts_(facts_at(g, classes_)) {}

  // Of which rules the firings merge groups.
  using Mergers = std::set<uint32_t>;

  size_t apply_each(RuleId id, const Rows& rows, Recipes& recipes) {
    size_t changed = 0;
    std::vector<ClassId> roots;
    for (size_t i = 0; i < rows.size() && g_.engine().full() == Full::no; ++i) {
      classes_.assign(rows.classes(i).begin(), rows.classes(i).end());
      auto [it, fresh] = recipes.try_emplace(key_of(rows, i));
      if (fresh) it->second = recipe(rows, i);
      if (!it->second) continue;
      roots.clear();
      for (int slot : flat_.roots) roots.push_back(classes_[static_cast<size_t>(slot)]);
      matched_.assign(rows.nodes(i).begin(), rows.nodes(i).end());
      changed += add(id, *it->second, roots);
    }
    return changed;
  }

  // Rows are those of single items, all of them; groups are those that share everything else.
  size_t apply_groups(RuleId id, const Rows& rows, const Mergers& mergers,
                      std::set<std::vector<uint32_t>>& done) {
    std::vector<Candidates> all = candidates(rows, mergers);
    size_t changed = 0;
    std::vector<uint32_t> depths = all.empty() ? std::vector<uint32_t>() : g_.depths();
    for (const Candidates& c : all) {
      for (const Group& alike : groups_of(rule_, c.all, facts_)) {
        // Of different depths, one may well need the other: what merges both cannot be computed.
        std::map<uint32_t, std::vector<uint32_t>> levels;
        for (uint32_t item : alike.items) levels[depths[c.roots[item].value]].push_back(item);
        for (const auto& [depth, items] : levels) {
          if (g_.engine().full() != Full::no) return changed;
          if (items.size() < 2 || items.size() > kMostMerged) continue;
          changed += merge(id, c, items, done);
          // Not all of them may be wanted in the end: the last ones are left out, too.
          if (items.size() > kMostLeftOut) continue;
          for (size_t n = items.size() - 1; n >= 2; --n)
            changed +=
                merge(id, c, {items.begin(), items.begin() + static_cast<ptrdiff_t>(n)}, done);
        }
      }
    }
    return changed;
  }

 private:
  static constexpr size_t kMostMerged = 32, kMostLeftOut = 4;

  // Items of groups that share what is not starred.
  struct Candidates {
    Substitution all;
    std::vector<ClassId> roots;
    std::vector<std::vector<ENodeId>> matched;
  };

  // Of all rows; their classes follow one another in classes_. Only where there are two at least.
  std::vector<Candidates> candidates(const Rows& rows, const Mergers& mergers) {
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
        auto s = bound(rows, i, first);
        if (!s) continue;
        ClassId root = classes_[first + static_cast<size_t>(flat_.roots[0])];
        auto it = std::find_if(out.begin() + static_cast<ptrdiff_t>(begin), out.end(),
                               [&](const Candidates& c) { return shares(c.all, *s); });
        if (it == out.end()) it = out.insert(out.end(), {*s, {}, {}});
        if (std::ranges::find(it->roots, root) != it->roots.end())
          continue;  // another way to say it
        if (!it->roots.empty()) append(it->all, *s);
        it->roots.push_back(root);
        it->matched.emplace_back(rows.nodes(i).begin(), rows.nodes(i).end());
      }
    }
    std::erase_if(out, [](const Candidates& c) { return c.roots.size() < 2; });
    return out;
  }

  // Which rows have the same classes where items of a group must.
  std::map<std::vector<ClassId>, std::vector<size_t>> rows_by_shared(const Rows& rows,
                                                                     const Mergers& mergers) const {
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

  bool merge(RuleId id, const Candidates& c, const std::vector<uint32_t>& items,
             std::set<std::vector<uint32_t>>& done) {
    std::vector<ClassId> roots;
    std::vector<Type> types;
    std::vector<uint32_t> key;
    matched_.clear();
    for (uint32_t item : items) {
      roots.push_back(c.roots[item]);
      types.push_back(g_.type(g_.engine().find(c.roots[item])));
      key.push_back(c.roots[item].value);
      matched_.insert(matched_.end(), c.matched[item].begin(), c.matched[item].end());
    }
    for (const Binding& b : c.all) {  // what they share tells groups of the same roots apart
      if (auto* shared = std::get_if<Term>(&b)) key.push_back(classes_[shared->value].value);
    }
    if (done.count(key)) return false;
    // What does not apply may do so when more is known, and what was stopped by a limit was not
    // done.
    auto side = apply(rule_, chosen(c.all, items), facts_, types);
    if (!side) return false;
    bool changed = add(id, g_.recipe_of(*side), roots);
    if (g_.engine().full() == Full::no) done.insert(std::move(key));
    return changed;
  }

  bool made_by(ENodeId n, const Mergers& rules) const {
    const Provenance& p = g_.engine().provenance();
    return p.maker(n).valid() && rules.count(p.firing(p.maker(n)).rule.value);
  }

  // Everything that the answer to a row depends on.
  std::vector<uint32_t> key_of(const Rows& rows, size_t row) const {
    std::vector<uint32_t> key;
    key.reserve(flat_.atoms.size() + 4 * flat_.slots.size());
    for (ENodeId n : rows.nodes(row)) key.push_back(g_.engine().node(n).attr);
    for (ClassId c : classes_) {
      auto known = g_.known(c);
      key.insert(key.end(), {known.type, known.constant, known.weight_only, known.scale});
    }
    return key;
  }

  std::optional<TensorEGraph::Recipe> recipe(const Rows& rows, size_t row) {
    auto s = bound(rows, row, 0);
    if (!s) return std::nullopt;
    std::vector<Type> types;
    for (int slot : flat_.roots)
      types.push_back(g_.type(g_.engine().find(classes_[static_cast<size_t>(slot)])));
    auto side = apply(rule_, *s, facts_, types);
    if (!side) return std::nullopt;
    return g_.recipe_of(*side);
  }

  // What the variables stand for: terms are places in classes_, from `first` on.
  std::optional<Substitution> bound(const Rows& rows, size_t row, size_t first) const {
    const Variables& v = rule_.variables;
    Substitution s(v.names.size());
    for (size_t i = 0; i < flat_.slots.size(); ++i) {
      const FlatPattern::Slot& slot = flat_.slots[i];
      if (slot.variable >= 0 && !bind_term(v, s, slot.variable, slot.repetition, Term(first + i)))
        return std::nullopt;
    }
    for (size_t i = 0; i < flat_.atoms.size(); ++i) {
      const FlatPattern::Atom& a = flat_.atoms[i];
      Attrs attrs = g_.attrs(g_.engine().node(rows.nodes(row)[i]).attr);
      bool fits = a.pattern->variable >= 0 ? bind_op(s, a.pattern->variable, {a.op, attrs})
                                           : bind_attrs(v, *a.pattern, attrs, a.repetition, s);
      if (!fits) return std::nullopt;
    }
    return s;
  }

  bool same_term(const Binding& a, const Binding& b) const {
    auto *x = std::get_if<Term>(&a), *y = std::get_if<Term>(&b);
    return x && y ? classes_[x->value] == classes_[y->value] : a == b;
  }

  bool shares(const Substitution& a, const Substitution& b) const {
    for (size_t v = 0; v < a.size(); ++v) {
      if (!rule_.variables.starred(static_cast<int>(v)) && !same_term(a[v], b[v])) return false;
    }
    return true;
  }

  static void append(Substitution& all, const Substitution& one) {
    for (size_t v = 0; v < all.size(); ++v) {
      if (auto* terms = std::get_if<std::vector<Term>>(&all[v]))
        terms->push_back(std::get<std::vector<Term>>(one[v])[0]);
      if (auto* values = std::get_if<std::vector<AttrValue>>(&all[v]))
        values->push_back(std::get<std::vector<AttrValue>>(one[v])[0]);
    }
  }

  bool add(RuleId id, const TensorEGraph::Recipe& recipe, std::span<const ClassId> roots) {
    EGraph& engine = g_.engine();
    size_t ids = engine.ids(), unions = engine.union_count();
    engine.begin_firing(id, matched_);
    std::vector<ClassId> made = g_.add(recipe, classes_);
    for (size_t i = 0; i < made.size(); ++i) engine.unite(roots[i], made[i]);
    engine.end_firing();
    return engine.ids() != ids || engine.union_count() != unions;
  }

  TensorEGraph& g_;
  const Rule& rule_;
  const FlatPattern& flat_;
  std::vector<ClassId> classes_;  // that terms stand for
  std::vector<ENodeId> matched_;  // nodes of the firing at hand
  TermFacts facts_;
};

}  // namespace

class Saturation::Loop {
 public:
  Loop(TensorEGraph& g, const SaturateOptions& options) : g_(g), options_(options) {
    add(shared_directions(options));
  }

  void add(std::shared_ptr<const std::vector<Rule>> rules) {
    lists_.push_back(rules);  // what flat patterns refer to stays
    for (const Rule& r : *rules) rules_.push_back(&r);
    flat_.resize(rules_.size());
    vocabulary_.clear();
  }

  // At most this many nodes in all.
  StopReason run(SaturateReport& report, size_t nodes) {
    start_ = std::chrono::steady_clock::now();
    StopReason stopped = StopReason::saturated;
    for (size_t rounds = 0;; ++rounds, ++report.rounds) {
      if (options_.monitor.stop_requested()) return StopReason::interrupted;
      if (rounds == options_.rounds) return StopReason::iterations;
      bool rewrites = learn_rules();
      double left = options_.seconds - seconds_since_start();
      if (left <= 0) return StopReason::seconds;
      RunnerReport round = runner_.run(
          g_.engine(),
          {.limits = {.iterations = 1, .nodes = nodes, .bytes = options_.bytes, .seconds = left},
           .back_off = options_.back_off,
           .monitor = options_.monitor.silent()});
      count(round);
      options_.monitor.tell({"saturate", static_cast<int64_t>(rounds),
                             static_cast<int64_t>(options_.rounds),
                             static_cast<double>(g_.engine().node_count()), "nodes"});
      stopped = round.stopped;
      if (stopped != StopReason::iterations && stopped != StopReason::saturated) return stopped;
      bool folded = g_.fold();
      if (stopped == StopReason::saturated && !folded && !rewrites) return stopped;
    }
  }

  // By the name of the rule.
  std::map<std::string, SaturateReport::Fired> fired;
  std::vector<std::string> rule_names() const {
    std::vector<std::string> names;
    for (const Rewrite& r : runner_.rewrites()) names.push_back(r.name);
    return names;
  }

 private:
  // Rules as queries for all that the e-graph can meet by now; true if there are new ones.
  bool learn_rules() {
    Vocabulary vocabulary = g_.vocabulary();
    if (vocabulary == vocabulary_) return false;
    vocabulary_ = vocabulary;
    bool any = false;
    for (size_t r = 0; r < rules_.size(); ++r) {
      const Rule& rule = *rules_[r];
      for (FlatPattern& flat : flatten(rule.lhs, rule.variables, vocabulary_)) {
        auto& known = flat_[r];
        bool fresh = std::ranges::none_of(known, [&](const auto& k) { return *k == flat; });
        if (!fresh) continue;
        known.push_back(std::make_unique<FlatPattern>(std::move(flat)));
        runner_.add(rewrite(rule, *known.back()));
        any = true;
      }
    }
    return any;
  }

  Rewrite rewrite(const Rule& rule, const FlatPattern& flat) {
    Rewrite out{.name = rule.name, .query = query_of(g_, rule, flat, filters_), .apply = {}};
    if (!rule.merges_group()) {
      auto recipes = std::make_shared<Recipes>();
      out.apply = [this, &rule, &flat, recipes](EGraph&, RuleId id, const Rows& rows) {
        return Application(g_, rule, flat).apply_each(id, rows, *recipes);
      };
      return out;
    }
    mergers_.insert(static_cast<uint32_t>(runner_.rewrites().size()));
    auto done = std::make_shared<std::set<std::vector<uint32_t>>>();
    out.apply = [this, &rule, &flat, done, query = out.query](EGraph& g, RuleId id, const Rows&) {
      return Application(g_, rule, flat).apply_groups(id, search(g, query), mergers_, *done);
    };
    return out;
  }

  void count(const RunnerReport& round) {
    for (const RuleReport& r : round.rules) {
      auto& f = fired[r.name];
      f.rule = r.name;
      f.matches += r.matches;
      f.times += r.applied;
      f.seconds += r.search_seconds + r.apply_seconds;
    }
  }

  double seconds_since_start() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  TensorEGraph& g_;
  const SaturateOptions& options_;
  std::chrono::steady_clock::time_point start_;
  std::vector<std::shared_ptr<const std::vector<Rule>>> lists_;
  std::vector<const Rule*> rules_;
  std::vector<std::vector<std::unique_ptr<FlatPattern>>> flat_;  // by rule; rewrites refer to them
  Vocabulary vocabulary_;
  AttrFilters filters_;
  Application::Mergers mergers_;
  Runner runner_{{}};
};

Saturation::Saturation(const Graph& g, const SaturateOptions& options)
    : egraph_(std::make_unique<TensorEGraph>(g)),
      options_(options),
      loop_(std::make_unique<Loop>(*egraph_, options_)) {}

Saturation::~Saturation() = default;

void Saturation::add(std::vector<Rule> rules) {
  SaturateOptions these = options_;
  these.rules = std::move(rules);
  loop_->add(std::make_shared<const std::vector<Rule>>(directions(these)));
}

StopReason Saturation::run() {
  auto start = std::chrono::steady_clock::now();
  report_.stopped = loop_->run(report_, egraph_->engine().node_count() + options_.nodes);
  egraph_->engine().refresh();
  report_.rules = loop_->rule_names();
  report_.nodes = egraph_->engine().node_count();
  report_.classes = egraph_->engine().class_count();
  report_.fired.clear();
  for (auto& [name, f] : loop_->fired) {
    if (f.matches > 0) report_.fired.push_back(f);
  }
  report_.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report_.stopped;
}

std::unique_ptr<TensorEGraph> Saturation::take() && {
  return std::move(egraph_);
}

std::unique_ptr<TensorEGraph> saturate(const Graph& g, const SaturateOptions& options,
                                       SaturateReport* report) {
  Saturation saturation(g, options);
  saturation.run();
  if (report) *report = saturation.report();
  return std::move(saturation).take();
}

}  // namespace emend
