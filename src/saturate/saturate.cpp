#include "saturate/saturate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "ops/table.h"
#include "saturate/application.h"
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

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Does the program become another one, or is what is there only seen to be simpler?
bool tidies(const Rule& r) {
  return r.use == Use::always || finds_operand(r);
}

double usual_seconds(const PricedNode& n) {
  switch (op_def(n.op).kind) {
    case Kind::structure:
      return 0;
    case Kind::elementwise:
    case Kind::movement:
      return 1;
    default:
      return 1000;
  }
}

// Is it known to have led to a cheaper program, or does it carry what others found?
bool has_served(const Rule& r) {
  static constexpr std::string_view kServed[] = {
#include "saturate/served.inc"
  };
  return tidies(r) || r.merges_group() || r.theme == "view" || r.theme == "patch" ||
         std::ranges::binary_search(kServed, r.name);
}

// How far a node is from the program as it was given: what the firings that led to it cost on the
// way, as far as others did not save it, and how many of them gained nothing.
struct Distance {
  float steps = 0, dearer = 0;
};

// Matches that wait, by how far what they make would be from the program. At one distance rules
// take turns, so that none crowds out another.
class Agenda {
 public:
  void put(uint32_t level, uint32_t rewrite, uint32_t row) {
    levels_[level][rewrite].push_back(row);
  }
  // The nearest, all of one level, if any are there up to this one.
  std::optional<uint32_t> take(uint32_t most, size_t count,
                               std::vector<std::pair<uint32_t, uint32_t>>& out) {
    out.clear();
    if (levels_.empty() || levels_.begin()->first > most) return std::nullopt;
    const uint32_t level = levels_.begin()->first;
    auto& rules = levels_.begin()->second;
    while (!rules.empty() && out.size() < count) {
      for (auto it = rules.begin(); it != rules.end() && out.size() < count;) {
        out.emplace_back(it->first, it->second.front());
        it->second.pop_front();
        it = it->second.empty() ? rules.erase(it) : std::next(it);
      }
    }
    if (rules.empty()) levels_.erase(levels_.begin());
    return level;
  }

  // How many wait, and how far away the nearest is, by rewrite.
  struct Waiting {
    size_t matches = 0;
    uint32_t nearest = 0;
  };
  std::map<uint32_t, Waiting> waiting() const {
    std::map<uint32_t, Waiting> out;
    for (const auto& [level, rules] : levels_) {
      for (const auto& [rewrite, rows] : rules) {
        Waiting& w = out.try_emplace(rewrite, Waiting{0, level}).first->second;
        w.matches += rows.size();
      }
    }
    return out;
  }

 private:
  std::map<uint32_t, std::map<uint32_t, std::deque<uint32_t>>> levels_;
};

}  // namespace

class Saturation::Loop {
 public:
  Loop(TensorEGraph& g, const SaturateOptions& options)
      : g_(g),
        options_(options),
        seconds_(options.seconds_of ? options.seconds_of : usual_seconds) {
    add(shared_directions(options));
    step_s_ = given_seconds() * options.step;
  }

  // Rules of the second list on are there for a reason, whatever they are called.
  void add(std::shared_ptr<const std::vector<Rule>> rules) {
    lists_.push_back(rules);  // what flat patterns refer to stays
    for (const Rule& r : *rules) {
      rules_.push_back(&r);
      waits_.push_back(lists_.size() == 1 && !has_served(r));
    }
    flat_.resize(rules_.size());
    vocabulary_.clear();
  }

  // Everything that is no further away than this; at most so many nodes in all.
  StopReason run(SaturateReport& report, uint32_t most, size_t nodes) {
    auto start = std::chrono::steady_clock::now();
    EGraph& engine = g_.engine();
    engine.set_limits({nodes, options_.bytes});
    for (uint32_t r : mergers_) to_merge_.insert(r);  // some were too far away, perhaps
    std::vector<std::pair<uint32_t, uint32_t>> turns;
    for (size_t rounds = 0;; ++rounds, ++report.rounds) {
      if (options_.monitor.stop_requested()) return StopReason::interrupted;
      if (rounds == options_.rounds) return StopReason::iterations;
      std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (spent.count() > options_.seconds) return StopReason::seconds;
      learn_rules();
      engine.refresh();
      const size_t before = engine.change_count();
      for (size_t r = 0; r < rewrites_.size(); ++r) look(r);
      merge_groups(most);
      const std::optional<uint32_t> level = agenda_.take(most, kBatch, turns);
      for (auto [rewrite, row] : turns) {
        if (engine.full() != Full::no) {
          agenda_.put(*level, rewrite, row);
          continue;
        }
        fire(rewrite, row);
      }
      options_.monitor.tell({.phase = "saturate",
                             .done = static_cast<int64_t>(engine.node_count()),
                             .of = static_cast<int64_t>(nodes)});
      engine.rebuild();
      if (engine.full() != Full::no)
        return engine.full() == Full::bytes ? StopReason::bytes : StopReason::nodes;
      g_.fold();
      ++round_;
      if (!level && engine.change_count() == before && !wake())
        return given_up_ ? StopReason::matches : StopReason::saturated;
    }
  }
  // The rules that waited have their turn from now on.
  void admit_others() {
    others_ = true;
    vocabulary_.clear();
  }

  // By the name of the rule, with what waits.
  std::map<std::string, SaturateReport::Fired> report() const {
    std::map<std::string, SaturateReport::Fired> all = fired_;
    for (const auto& [rewrite, waiting] : agenda_.waiting()) {
      SaturateReport::Fired& f = all[rewrites_[rewrite]->rule.name];
      f.nearest = f.waiting ? std::min(f.nearest, waiting.nearest) : waiting.nearest;
      f.waiting += waiting.matches;
    }
    return all;
  }
  std::vector<std::string> rule_names() const {
    std::vector<std::string> names;
    for (const auto& r : rewrites_) names.push_back(r->rule.name);
    return names;
  }

 private:
  static constexpr size_t kBatch = 200;
  // A rule that matches at more places at a time than its bans allow, 64,000 by default, is given
  // up: they would take gigabytes, and what is near is seldom among them.
  static constexpr size_t kMostBans = 6, kForever = SIZE_MAX;

  // A rule, met in one way. Its number is the rule's in firings.
  struct Rewrite {
    const Rule& rule;
    QueryPlan plan;
    Application application;
    std::vector<ClassId> words;  // of rows that wait or waited
    uint32_t since = 0;
    size_t times_banned = 0, banned_until = 0;
    std::set<std::vector<uint32_t>> done;  // groups
  };

  double given_seconds() const {
    double sum = 0;
    for (size_t i = 0; i < g_.engine().ids(); ++i) {
      PricedNode n = g_.priced(ENodeId(i));
      if (!n.operands.empty() && !std::ranges::all_of(n.weights, [](bool w) { return w; }))
        sum += seconds_(n);
    }
    return sum;
  }

  // Rules as queries for all that the e-graph can meet by now.
  void learn_rules() {
    Vocabulary vocabulary = g_.vocabulary();
    if (vocabulary == vocabulary_) return;
    vocabulary_ = vocabulary;
    for (size_t r = 0; r < rules_.size(); ++r) {
      const Rule& rule = *rules_[r];
      if (waits_[r] && !others_) continue;
      for (FlatPattern& flat : flatten(rule.lhs, rule.variables, vocabulary_)) {
        auto& known = flat_[r];
        bool fresh = std::ranges::none_of(known, [&](const auto& k) { return *k == flat; });
        if (!fresh) continue;
        known.push_back(std::make_unique<FlatPattern>(std::move(flat)));
        if (rule.merges_group()) mergers_.insert(static_cast<uint32_t>(rewrites_.size()));
        rewrites_.push_back(std::unique_ptr<Rewrite>(
            new Rewrite{rule, QueryPlan(query_of(g_, rule, *known.back(), filters_)),
                        Application(g_, rule, *known.back(), seconds_)}));
      }
    }
  }

  // Matches that are new.
  void look(size_t r) {
    Rewrite& rewrite = *rewrites_[r];
    if (rewrite.banned_until > round_) return;
    const Stopwatch watch;
    const bool groups = rewrite.rule.merges_group();
    auto& f = fired_[rewrite.rule.name];
    f.rule = rewrite.rule.name;
    const size_t most =
        options_.back_off.on ? options_.back_off.matches << rewrite.times_banned : SIZE_MAX;
    if (!search(g_.engine(), rewrite.plan, rewrite.since, rows_, most)) {
      if (rewrite.times_banned == kMostBans) {
        f.too_many = given_up_ = true;
        rewrite.banned_until = kForever;
      } else {
        rewrite.banned_until = round_ + 1 + (options_.back_off.rounds << rewrite.times_banned++);
      }
      return;
    }
    rewrite.since = g_.engine().time() + 1;
    f.matches += rows_.size();
    if (groups) {
      if (!rows_.empty()) to_merge_.insert(r);
      return;
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Recipe* recipe = rewrite.application.at({rows_.classes(i), rows_.nodes(i)});
      if (!recipe) continue;
      Distance d = after(rewrite.rule, rows_.nodes(i), recipe->more_s);
      auto row = static_cast<uint32_t>(rewrite.words.size());
      rewrite.words.insert(rewrite.words.end(), rows_.classes(i).begin(), rows_.classes(i).end());
      for (ENodeId n : rows_.nodes(i)) rewrite.words.push_back(ClassId(size_t{n.value}));
      agenda_.put(level_of(d), static_cast<uint32_t>(r), row);
    }
    f.seconds += watch.seconds();
  }

  // Where the result of a firing is.
  Distance after(const Rule& rule, std::span<const ENodeId> matched, double more_s) const {
    Distance d;
    for (ENodeId n : matched) {
      if (n.value >= distances_.size()) continue;
      d.steps = std::max(d.steps, distances_[n.value].steps);
      d.dearer = std::max(d.dearer, distances_[n.value].dearer);
    }
    if (!tidies(rule)) d.steps += 1;
    d.dearer = std::max(0.0F, d.dearer + static_cast<float>(more_s / step_s_));
    return d;
  }
  static uint32_t level_of(const Distance& d) {
    return static_cast<uint32_t>(std::min(1e6F, std::ceil(d.steps + d.dearer)));
  }

  // Nodes that are there since the firing are where it led to.
  template <class Fire>
  void noted(const Rule& rule, std::span<const ENodeId> matched, double more_s, const Fire& fire) {
    const Stopwatch watch;
    const Distance d = after(rule, matched, more_s);
    const size_t had = g_.engine().ids();
    const bool changed = fire();
    distances_.resize(had);
    distances_.resize(g_.engine().ids(), d);
    auto& f = fired_[rule.name];
    f.times += changed;
    f.seconds += watch.seconds();
  }

  void fire(uint32_t r, uint32_t row) {
    Rewrite& rewrite = *rewrites_[r];
    const Query& query = rewrite.plan.query();
    const ClassId* words = rewrite.words.data() + row;
    nodes_.clear();
    for (size_t i = 0; i < query.atoms.size(); ++i)
      nodes_.push_back(ENodeId(size_t{words[query.slots + i].value}));
    Place place{{words, query.slots}, nodes_};
    const Recipe* recipe = rewrite.application.at(place);
    if (!recipe) return;
    noted(rewrite.rule, place.nodes, recipe->more_s,
          [&] { return rewrite.application.fire(RuleId(size_t{r}), place, *recipe); });
  }

  void merge_groups(uint32_t most) {
    for (size_t r : to_merge_) {
      Rewrite& rewrite = *rewrites_[r];
      Rows rows = search(g_.engine(), rewrite.plan.query());
      rewrite.application.groups(rows, mergers_, rewrite.done, [&](const Application::Merge& m) {
        if (level_of(after(rewrite.rule, m.matched, m.recipe.more_s)) > most) return false;
        noted(rewrite.rule, m.matched, m.recipe.more_s,
              [&] { return rewrite.application.fire(RuleId(r), m); });
        return g_.engine().full() == Full::no;
      });
    }
    to_merge_.clear();
  }

  // Nothing is left to do but what is banned: those whose ban ends first go on at once.
  bool wake() {
    size_t first = kForever;
    for (const auto& r : rewrites_) {
      if (r->banned_until > round_) first = std::min(first, r->banned_until);
    }
    if (first == kForever) return false;
    for (const auto& r : rewrites_) {
      if (r->banned_until > round_ && r->banned_until < kForever) r->banned_until -= first - round_;
    }
    return true;
  }

  TensorEGraph& g_;
  const SaturateOptions& options_;
  const NodeSeconds seconds_;
  double step_s_ = 1;
  std::vector<std::shared_ptr<const std::vector<Rule>>> lists_;
  std::vector<const Rule*> rules_;
  std::vector<bool> waits_;                                      // by rule: it never served
  bool others_ = false;                                          // they have their turn
  bool given_up_ = false;                                        // a rule that matches too often
  std::vector<std::vector<std::unique_ptr<FlatPattern>>> flat_;  // by rule; rewrites refer to them
  Vocabulary vocabulary_;
  AttrFilters filters_;
  std::vector<std::unique_ptr<Rewrite>> rewrites_;
  Application::Mergers mergers_;
  std::set<size_t> to_merge_;
  Agenda agenda_;
  std::vector<Distance> distances_;  // by node, or fewer: those are given
  size_t round_ = 0;
  Rows rows_;
  std::vector<ENodeId> nodes_;
  std::map<std::string, SaturateReport::Fired> fired_;  // by the name of the rule
};

void SaturateReport::add(const SaturateReport& more) {
  for (const Fired& f : more.fired) {
    auto it = std::ranges::lower_bound(fired, f.rule, {}, &Fired::rule);
    if (it == fired.end() || it->rule != f.rule) it = fired.insert(it, {.rule = f.rule});
    it->matches += f.matches;
    it->times += f.times;
    it->seconds += f.seconds;
    it->nearest = it->waiting && f.waiting ? std::min(it->nearest, f.nearest)
                                           : std::max(it->nearest, f.nearest);
    it->waiting += f.waiting;
    it->too_many |= f.too_many;
  }
  rounds += more.rounds;
  if (more.nodes >= nodes) {
    nodes = more.nodes;
    classes = more.classes;
    stopped = more.stopped;
  }
  rules = more.rules;
  seconds += more.seconds;
}

Saturation::Saturation(const Graph& g, const SaturateOptions& options)
    : egraph_(std::make_unique<TensorEGraph>(g)),
      options_(options),
      nodes_(egraph_->engine().node_count() + options.nodes),
      loop_(std::make_unique<Loop>(*egraph_, options_)) {}

Saturation::~Saturation() = default;

void Saturation::add(std::vector<Rule> rules) {
  SaturateOptions these = options_;
  these.rules = std::move(rules);
  loop_->add(std::make_shared<const std::vector<Rule>>(directions(these)));
}

StopReason Saturation::run(uint32_t most) {
  return run(most, nodes_);
}

StopReason Saturation::run_others() {
  if (report_.stopped != StopReason::saturated) return report_.stopped;
  loop_->admit_others();
  return run(UINT32_MAX, std::min(nodes_, egraph_->engine().node_count() + options_.other_nodes));
}

StopReason Saturation::run(uint32_t most, size_t nodes) {
  auto start = std::chrono::steady_clock::now();
  report_.stopped = loop_->run(report_, most, nodes);
  egraph_->engine().refresh();
  report_.rules = loop_->rule_names();
  report_.nodes = egraph_->engine().node_count();
  report_.classes = egraph_->engine().class_count();
  report_.fired.clear();
  for (const auto& [name, f] : loop_->report()) {
    if (f.matches > 0 || f.too_many) report_.fired.push_back(f);
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
  saturation.run_others();
  if (report) *report = saturation.report();
  return std::move(saturation).take();
}

}  // namespace emend
