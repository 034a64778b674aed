#include "explore.h"

#include <algorithm>
#include <map>
#include <set>

#include "rules/instance.h"
#include "saturate/query.h"

namespace emend {
namespace {

// Which classes are needed, directly or not, by which, through nodes that are not blacklisted.
class Descendants {
 public:
  Descendants(const EGraph& g, const Blacklist& blacklist) : g_(g), blacklist_(blacklist) {}

  // Whether a class needs another one (itself too), by walking the e-graph as it is.
  bool walk_reaches(ClassId from, std::span<const ClassId> targets) {
    if (seen_.size() < g_.ids()) seen_.resize(g_.ids(), 0);
    ++walk_;
    std::vector<ClassId> open{g_.find(from)};
    seen_[open[0].value] = walk_;
    while (!open.empty()) {
      ClassId c = open.back();
      open.pop_back();
      if (std::ranges::find(targets, c) != targets.end()) return true;
      g_.for_nodes_of(c, [&](ENodeId n) {
        if (blacklist_.count(n.value)) return;
        for (ClassId child : g_.node(n).children) {
          ClassId next = g_.find(child);
          if (seen_[next.value] == walk_) continue;
          seen_[next.value] = walk_;
          open.push_back(next);
        }
      });
    }
    return false;
  }

  // For all classes at once, as the e-graph is now.
  void take_snapshot() {
    number_.assign(g_.ids(), kNone);
    std::vector<ClassId> order = post_order();
    words_ = (order.size() + 63) / 64;
    bits_.assign(order.size() * words_, 0);
    for (size_t i = 0; i < order.size(); ++i) {
      uint64_t* mine = &bits_[i * words_];
      mine[i / 64] |= uint64_t{1} << (i % 64);
      for (ENodeId n : g_.nodes_of(order[i])) {
        if (blacklist_.count(n.value)) continue;
        for (ClassId child : g_.node(n).children) {
          const uint64_t* below = &bits_[number_[g_.find(child).value] * words_];
          for (size_t w = 0; w < words_; ++w) mine[w] |= below[w];
        }
      }
    }
  }
  bool snapshot_reaches(ClassId from, ClassId to) const {
    uint32_t a = number_of(from), b = number_of(to);
    if (a == kNone || b == kNone) return false;  // came to be since
    return bits_[a * words_ + b / 64] >> (b % 64) & 1;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t number_of(ClassId c) const {
    return c.value < number_.size() ? number_[c.value] : kNone;
  }

  std::vector<ClassId> post_order() {
    std::vector<ClassId> order;
    std::vector<bool> entered(g_.ids(), false);
    for (size_t i = 0; i < g_.ids(); ++i) {
      std::vector<ClassId> open{g_.find(ClassId(i))};
      while (!open.empty()) {
        ClassId c = open.back();
        if (entered[c.value]) {
          open.pop_back();
          if (number_[c.value] != kNone) continue;
          number_[c.value] = static_cast<uint32_t>(order.size());
          order.push_back(c);
          continue;
        }
        entered[c.value] = true;
        for (ENodeId n : g_.nodes_of(c)) {
          if (blacklist_.count(n.value)) continue;
          for (ClassId child : g_.node(n).children) {
            if (!entered[g_.find(child).value]) open.push_back(g_.find(child));
          }
        }
      }
    }
    return order;
  }

  const EGraph& g_;
  const Blacklist& blacklist_;
  std::vector<uint32_t> seen_;
  uint32_t walk_ = 0;
  std::vector<uint32_t> number_;
  size_t words_ = 0;
  std::vector<uint64_t> bits_;
};

// The cycles that one depth-first walk from the roots meets, each as its nodes.
std::vector<std::vector<ENodeId>> cycles(const TensorEGraph& g, const Blacklist& blacklist) {
  const EGraph& engine = g.engine();
  struct Frame {
    ClassId at;
    std::vector<ENodeId> nodes;
    size_t node = 0, child = 0;
  };
  constexpr uint32_t kNew = UINT32_MAX, kDone = UINT32_MAX - 1;
  std::vector<uint32_t> depth(engine.ids(), kNew);
  std::vector<std::vector<ENodeId>> out;
  std::vector<Frame> path;
  auto enter = [&](ClassId c) {
    depth[c.value] = static_cast<uint32_t>(path.size());
    path.push_back({c, engine.nodes_of(c)});
  };
  for (ClassId root : g.roots()) {
    if (depth[root.value] == kNew) enter(root);
    while (!path.empty()) {
      Frame& top = path.back();
      if (top.node == top.nodes.size()) {
        depth[top.at.value] = kDone;
        path.pop_back();
        continue;
      }
      ENodeId n = top.nodes[top.node];
      auto children = engine.node(n).children;
      if (top.child == children.size() || blacklist.count(n.value)) {
        ++top.node;
        top.child = 0;
        continue;
      }
      ClassId child = engine.find(children[top.child++]);
      if (depth[child.value] == kNew) {
        enter(child);
      } else if (depth[child.value] != kDone) {
        auto& cycle = out.emplace_back();
        for (size_t i = depth[child.value]; i < path.size(); ++i)
          cycle.push_back(path[i].nodes[path[i].node]);
      }
    }
  }
  return out;
}

// A rule in one of the ways its left side is met.
struct Way {
  const Rule* rule;
  FlatPattern flat;
};

class Exploration {
 public:
  Exploration(TensorEGraph& g, const ExploreOptions& options, Explored& out)
      : g_(g), options_(options), out_(out), descendants_(g.engine(), out.blacklist) {
    for (const Rule& r : tensat_rules()) {
      rules_.push_back(r);
      if (r.both) rules_.push_back(reversed(r));
    }
  }

  void run() {
    for (out_.rounds = 0; out_.rounds < options_.rounds; ++out_.rounds) {
      learn_rules();
      cut_cycles();
      size_t before = g_.engine().change_count();
      if (out_.rounds < options_.multi_rounds) apply_pairs();
      RunnerReport round = runner_.run(
          g_.engine(), {.limits = {.iterations = 1, .nodes = options_.nodes}, .back_off = {}});
      out_.stopped = round.stopped;
      if (round.stopped == StopReason::nodes) break;
      if (round.stopped == StopReason::saturated && g_.engine().change_count() == before) break;
    }
    cut_cycles();
  }

 private:
  void learn_rules() {
    Vocabulary vocabulary = g_.vocabulary();
    if (vocabulary == vocabulary_) return;
    vocabulary_ = vocabulary;
    for (const Rule& rule : rules_) {
      for (FlatPattern& flat : flatten(rule.lhs, rule.variables, vocabulary_)) {
        auto known = [&](const auto& w) { return w->rule == &rule && w->flat == flat; };
        if (std::ranges::any_of(ways_, known)) continue;
        ways_.push_back(std::make_unique<Way>(Way{&rule, std::move(flat)}));
        const Way& way = *ways_.back();
        if (rule.several_roots()) continue;
        runner_.add(
            {rule.name, query_of(g_, way.flat), [this, &way](EGraph&, RuleId id, const Rows& rows) {
               size_t changed = 0;
               for (size_t i = 0; i < rows.size(); ++i) changed += apply_at(way, id, rows, i);
               return changed;
             }});
      }
    }
  }

  void apply_pairs() {
    g_.engine().set_limits({.nodes = options_.nodes});
    g_.engine().refresh();
    if (options_.filter == CycleFilter::efficient) descendants_.take_snapshot();
    for (size_t w = 0; w < ways_.size(); ++w) {
      const Way& way = *ways_[w];
      if (!way.rule->several_roots()) continue;
      Rows rows = search(g_.engine(), query_of(g_, way.flat));
      for (size_t i = 0; i < rows.size() && g_.engine().full() == Full::no; ++i) {
        // One order of a pair is as good as the other.
        std::vector<uint32_t> key;
        for (ENodeId n : rows.nodes(i)) key.push_back(n.value);
        std::sort(key.begin(), key.end());
        if (!pairs_[way.rule].insert(key).second) continue;
        out_.pairs += apply_at(way, RuleId(kPairs + w), rows, i);
      }
    }
    g_.engine().rebuild();
  }

  bool apply_at(const Way& way, RuleId id, const Rows& rows, size_t row) {
    EGraph& engine = g_.engine();
    if (engine.full() != Full::no) return false;
    auto matched = rows.nodes(row);
    if (std::ranges::any_of(matched, [&](ENodeId n) { return out_.blacklist.count(n.value) != 0; }))
      return false;
    classes_.clear();
    for (ClassId c : rows.classes(row)) classes_.push_back(engine.find(c));
    std::vector<ClassId> roots;
    std::vector<Type> types;
    for (int slot : way.flat.roots) {
      roots.push_back(classes_[static_cast<size_t>(slot)]);
      types.push_back(g_.type(roots.back()));
    }
    if (roots.size() == 2 && roots[0] == roots[1]) return false;
    auto s = bound(way, matched);
    if (!s) return false;
    auto side = apply(*way.rule, *s, facts_, types);
    if (!side) return false;
    if (roots.size() == 2 && closes_cycle(way, roots)) {
      ++out_.refused;
      return false;
    }
    size_t before = engine.change_count();
    std::vector<ENodeId> nodes(matched.begin(), matched.end());
    engine.begin_firing(id, nodes);
    std::vector<ClassId> made = g_.add(g_.recipe_of(*side), classes_);
    for (size_t i = 0; i < made.size(); ++i) engine.unite(roots[i], made[i]);
    engine.end_firing();
    return engine.change_count() != before;
  }

  std::optional<Substitution> bound(const Way& way, std::span<const ENodeId> matched) const {
    const Variables& v = way.rule->variables;
    Substitution s(v.names.size());
    for (size_t i = 0; i < way.flat.slots.size(); ++i) {
      const FlatPattern::Slot& slot = way.flat.slots[i];
      if (slot.variable >= 0 && !bind_term(v, s, slot.variable, slot.repetition, Term(i)))
        return std::nullopt;
    }
    for (size_t i = 0; i < way.flat.atoms.size(); ++i) {
      const FlatPattern::Atom& a = way.flat.atoms[i];
      Attrs attrs = g_.attrs(g_.engine().node(matched[i]).attr);
      bool fits = a.pattern->variable >= 0 ? bind_op(s, a.pattern->variable, {a.op, attrs})
                                           : bind_attrs(v, *a.pattern, attrs, a.repetition, s);
      if (!fits) return std::nullopt;
    }
    return s;
  }

  // Would an operand need a root, so that the merged node needs itself?
  bool closes_cycle(const Way& way, const std::vector<ClassId>& roots) {
    if (options_.filter == CycleFilter::none) return false;
    for (size_t i = 0; i < way.flat.slots.size(); ++i) {
      if (way.flat.slots[i].variable < 0 || g_.weight_only(classes_[i])) continue;
      bool reaches = options_.filter == CycleFilter::vanilla
                         ? descendants_.walk_reaches(classes_[i], roots)
                         : descendants_.snapshot_reaches(classes_[i], roots[0]) ||
                               descendants_.snapshot_reaches(classes_[i], roots[1]);
      if (reaches) return true;
    }
    return false;
  }

  // Of every cycle that is left, the node that came last is blacklisted.
  void cut_cycles() {
    if (options_.filter == CycleFilter::none) return;
    EGraph& engine = g_.engine();
    engine.rebuild();
    Blacklist now;
    for (uint32_t id : out_.blacklist) {
      ENodeId n{size_t{id}};
      if (!engine.alive(n)) {
        ENode node = engine.node(n);
        std::vector<ClassId> children;
        for (ClassId c : node.children) children.push_back(engine.find(c));
        n = engine.lookup(node.op, node.attr, children);
      }
      if (n.valid()) now.insert(n.value);
    }
    out_.blacklist = std::move(now);
    for (auto found = cycles(g_, out_.blacklist); !found.empty();
         found = cycles(g_, out_.blacklist)) {
      for (const std::vector<ENodeId>& cycle : found) {
        auto cut = [&](ENodeId n) { return out_.blacklist.count(n.value) != 0; };
        if (std::ranges::none_of(cycle, cut))
          out_.blacklist.insert(std::ranges::max_element(cycle)->value);
      }
    }
  }

  static constexpr size_t kPairs = 30000;  // ids of rules from here on: the runner has those below

  TensorEGraph& g_;
  const ExploreOptions& options_;
  Explored& out_;
  Descendants descendants_;
  std::vector<Rule> rules_;
  std::vector<std::unique_ptr<Way>> ways_;
  Vocabulary vocabulary_;
  Runner runner_{{}};
  std::map<const Rule*, std::set<std::vector<uint32_t>>> pairs_;  // that were tried
  std::vector<ClassId> classes_;                                  // that terms stand for
  TermFacts facts_{.type = [this](Term t) -> const Type& { return g_.type(classes_[t.value]); },
                   .constant = [this](Term t) { return g_.constant(classes_[t.value]); },
                   .weight_only = [this](Term t) { return g_.weight_only(classes_[t.value]); }};
};

}  // namespace

Explored explore(const Graph& g, const ExploreOptions& options) {
  Stopwatch watch;
  Explored out;
  out.egraph = std::make_unique<TensorEGraph>(g);
  Exploration(*out.egraph, options, out).run();
  out.seconds = watch.seconds();
  return out;
}

}  // namespace emend
