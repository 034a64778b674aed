#include "pipeline/improve.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

#include "base/timed.h"
#include "egraph/explain.h"
#include "ops/table.h"
#include "pipeline/compile.h"
#include "pipeline/priced_egraph.h"

namespace emend {
namespace {

// Programs whose nodes cost up to so many times those of the given one may be faster all the same.
constexpr double kHopeful = 1.02;
// Steps that a program is searched before its operators are mutated.
constexpr uint32_t kNear = 2;
// A program above this share of the price is no gain, and no reason to go on.
constexpr double kNothing = 0.9995;
// Programs of so many nodes are priced after one extraction, together, but never fewer than a few.
constexpr ptrdiff_t kPricedAtOnce = 1200;
constexpr int kFew = 4;

// The rules on whose firings it rests that the program equals the one that was put in.
std::vector<std::string> trail_of(const TensorEGraph& g, const PricedEGraph& problem,
                                  const std::vector<uint32_t>& choice,
                                  const std::vector<std::string>& rules) {
  const EGraph& engine = g.engine();
  Explainer explainer(engine);
  std::unordered_map<uint32_t, ENodeId> chosen;  // by class
  for (size_t c = 0; c < problem.classes.size(); ++c) {
    if (choice[c] != kNoNode) chosen.emplace(problem.classes[c].value, problem.nodes[choice[c]]);
  }
  std::set<FiringId> needed;
  auto rests_on = [&](ClassId id) {  // that what was chosen for it is equal to it
    for (FiringId f : explainer.of_equality(id, chosen.at(engine.find(id).value))) needed.insert(f);
  };
  for (ClassId root : g.given_roots()) rests_on(root);
  for (const auto& [c, n] : chosen) {
    for (ClassId child : explainer.term(n).children) rests_on(child);
  }
  std::vector<std::string> names;
  for (FiringId f : needed) names.push_back(rules[engine.provenance().firing(f).rule.value]);
  return names;
}

// The bodies of loops and branches, each searched once.
Graph with_improved_bodies(const Graph& g, const ImproveOptions& options, ImproveReport& facts) {
  struct Improved {
    GraphRef from, to;
  };
  std::vector<Improved> known;
  auto improved_body = [&](const GraphRef& body) {
    for (const Improved& k : known) {
      if (k.from == body) return k.to;
    }
    ImproveReport inner;
    known.push_back({body, GraphRef(improve(*body, options, &inner))});
    std::ranges::move(inner.trail, std::back_inserter(facts.trail));
    std::ranges::move(inner.faults, std::back_inserter(facts.faults));
    for (const auto& [name, ms] : inner.phases_ms) add_time(facts.phases_ms, name, ms);
    return known.back().to;
  };
  Graph out = g;
  for (size_t i = 0; i < out.size(); ++i) {
    Node& n = out.nodes[NodeId(i)];
    if (op_def(n).kind == Kind::opaque) continue;
    for (const auto& [name, value] : n.attrs.entries()) {
      const GraphRef* body = value.as<GraphRef>();
      if (body && *body) n.attrs = n.attrs.with(name, improved_body(*body));
    }
  }
  return out;
}

// Cheapest first; of those of one structure the first, for they differ in nothing that has a price.
std::vector<FoundSolution> best_of(std::vector<FoundSolution> all, int most,
                                   const PricedEGraph& problem) {
  std::ranges::stable_sort(all, {}, &FoundSolution::cost);
  std::set<uint64_t> structures;
  std::vector<FoundSolution> best;
  for (FoundSolution& s : all) {
    if (best.size() == static_cast<size_t>(most)) break;
    if (structures.insert(problem.structure_of(s.choice)).second) best.push_back(std::move(s));
  }
  return best;
}

// The best extractions. Prices begin as guesses that are too low; those that something was chosen
// for become real, until what is chosen has real prices only.
std::vector<FoundSolution> extracted(PricedEGraph& problem, const std::vector<uint32_t>& as_given,
                                     const SearchPrices& prices, const ImproveOptions& options,
                                     ImproveReport& facts) {
  auto nodes = std::ranges::count_if(as_given, [](uint32_t n) { return n != kNoNode; });
  const auto few = static_cast<int>(kPricedAtOnce / std::max<ptrdiff_t>(nodes, 1));
  const int kept = std::min(options.kept, std::max(kFew, few));
  std::vector<FoundSolution> found;
  auto start_with = [&]() -> std::vector<uint32_t> {
    if (found.empty()) return as_given;
    bool better = as_given.empty() || problem.cost_of(found[0].choice) < problem.cost_of(as_given);
    return better ? found[0].choice : as_given;
  };
  for (int round = 0; round < options.rounds && !options.monitor.stop_requested(); ++round) {
    // From the cheapest terms, and from the program as it is or what is better by now.
    SearchOptions how{.seed = options.seed + static_cast<uint64_t>(round),
                      .starts = 1,
                      .moves = options.moves,
                      .patience = 5,
                      .start = start_with(),
                      .keep = kept,
                      .tell_apart_by = problem.nuclei,
                      .monitor = options.monitor.silent()};
    found = timed(facts.phases_ms, "extract",
                  [&] { return best_of(search_from_both(problem.problem, how), kept, problem); });
    if (!timed(facts.phases_ms, "price", [&] { return problem.learn(found, prices.exact); })) break;
  }
  return found;
}

// Programs of one e-graph by what they cost as wholes, beside the one that was put in.
class WholePrograms {
 public:
  WholePrograms(const Graph& given, const TensorEGraph& egraph, PricedEGraph& problem,
                double given_s, const SearchPrices& prices, const ImproveOptions& options,
                ImproveReport& facts)
      : given_(given),
        egraph_(egraph),
        problem_(problem),
        prices_(prices),
        options_(options),
        facts_(facts),
        as_given_(problem.given(egraph)),
        given_s_(given_s) {
    looked_at_.insert(problem.structure_of(as_given_));
    pool_.push_back({given_s_, as_given_});
  }

  // What whole programs take flows back into the prices of their nodes, and others may be best.
  void extract() {
    for (int round = 0; round <= options_.corrections; ++round) {
      std::vector<FoundSolution> found = extracted(problem_, as_given_, prices_, options_, facts_);
      timed(facts_.phases_ms, "price",
            [&] { return problem_.learn({{as_given_}}, prices_.exact); });
      const double given_cost = problem_.cost_of(as_given_);
      // Node prices may be a little wrong; once they were corrected, only the best is worth a look.
      double hoped = round == 0 ? kHopeful * given_cost : given_cost + best_seconds() - given_s_;
      if (round > 0 && found.size() > 1) found.resize(1);
      std::vector<std::vector<uint32_t>> hopeful;
      for (FoundSolution& s : found) {
        if (as_given_.empty() || problem_.cost_of(s.choice) < hoped)
          hopeful.push_back(std::move(s.choice));
      }
      if (!look(std::move(hopeful)) || options_.monitor.stop_requested()) break;
    }
  }

  // Programs differ at several places, and one may be right here, another there: what another one
  // has at a place is tried in the best, and all that helps is taken.
  void combine() {
    if (as_given_.empty()) return;
    left_ = std::min(options_.combined, affordable(options_.combined_nodes));
    sort();
    for (size_t other = 1; other < pool_.size() && left_ > 0;) {
      if (options_.monitor.stop_requested()) return;
      other = combine(pool_[0], pool_[other]) ? 1 : other + 1;
    }
  }

  // The cheapest, if the given one is dearer.
  std::optional<std::vector<uint32_t>> best() const {
    const Whole& w = *std::ranges::min_element(pool_, {}, &Whole::seconds);
    if (w.choice == as_given_ || w.seconds >= kNothing * given_s_) return std::nullopt;
    return w.choice;
  }
  double best_seconds() const { return std::ranges::min(pool_, {}, &Whole::seconds).seconds; }

 private:
  struct Whole {
    double seconds;
    std::vector<uint32_t> choice;
  };

  int affordable(size_t nodes) const {
    return static_cast<int>(nodes / std::max<size_t>(given_.size(), 1));
  }
  void sort() { std::ranges::stable_sort(pool_, {}, &Whole::seconds); }

  // Is there a better one now?
  bool combine(const Whole& best, const Whole& other) {
    const Whole base = best, from = other;  // the pool grows
    auto places = problem_.places_between(base.choice, from.choice);
    if (places.size() < 2) return false;
    std::vector<uint32_t> helpful;
    int helped = 0;
    for (const auto& at : places) {
      if (left_ <= 0 || options_.monitor.stop_requested()) break;
      std::vector<uint32_t> tried = problem_.with(base.choice, from.choice, at);
      if (tried.empty() || tried == base.choice) continue;
      const size_t had = pool_.size();
      if (look({std::move(tried)})) --left_;
      if (pool_.size() == had || pool_.back().seconds >= base.seconds) continue;
      helpful.insert(helpful.end(), at.begin(), at.end());
      ++helped;
    }
    if (helped > 1) {
      std::vector<uint32_t> all = problem_.with(base.choice, from.choice, helpful);
      if (!all.empty() && look({std::move(all)})) --left_;
    }
    sort();
    return helped > 0;
  }

  // Prices those that are new; false where none is.
  bool look(std::vector<std::vector<uint32_t>> choices) {
    std::erase_if(choices, [&](const std::vector<uint32_t>& choice) {
      return !looked_at_.insert(problem_.structure_of(choice)).second;
    });
    if (choices.empty()) return false;
    std::vector<Graph> programs = {given_};
    std::vector<double> expected;
    for (const auto& choice : choices) {
      programs.push_back(problem_.graph_of(egraph_, choice));
      expected.push_back(problem_.cost_of(choice) - problem_.cost_of(as_given_));
    }
    std::vector<double> seconds = timed(
        facts_.phases_ms, "back end", [&] { return prices_.programs(programs, options_.monitor); });
    for (size_t i = 1; i < seconds.size(); ++i) {
      facts_.priced_s.push_back(seconds[i]);
      if (!std::isfinite(seconds[i])) continue;
      if (!as_given_.empty())
        problem_.correct(choices[i - 1], as_given_, seconds[i] - seconds[0] - expected[i - 1]);
      pool_.push_back({seconds[i], std::move(choices[i - 1])});
    }
    return true;
  }

  const Graph& given_;
  const TensorEGraph& egraph_;
  PricedEGraph& problem_;
  const SearchPrices& prices_;
  const ImproveOptions& options_;
  ImproveReport& facts_;
  const std::vector<uint32_t> as_given_;
  const double given_s_;
  std::set<uint64_t> looked_at_;
  std::vector<Whole> pool_;
  int left_ = 0;  // that may still be priced
};

// With better bodies, where the whole is not dearer for it: a loop may be known by its body.
Graph with_bodies(const Graph& given, const SearchPrices& prices, const ImproveOptions& options,
                  ImproveReport& facts) {
  Graph g = with_improved_bodies(given, options, facts);
  std::vector<Graph> programs = {given};
  if (!(g == given)) programs.push_back(g);
  std::vector<double> seconds = timed(facts.phases_ms, "back end",
                                      [&] { return prices.programs(programs, options.monitor); });
  facts.before_s = facts.after_s = seconds[0];
  if (seconds.size() > 1 && seconds[1] <= seconds[0]) {
    facts.after_s = seconds[1];
    return g;
  }
  facts.trail.clear();
  return given;
}

// The operators of a program that take their share of its time, each once.
std::vector<PricedNode> sites_of(const PricedEGraph& p, const FoundSolution& program,
                                 double share) {
  std::vector<PricedNode> sites;
  double whole = p.cost_of(program.choice);
  std::set<uint64_t> seen;
  for (uint32_t n : program.choice) {
    if (n == kNoNode || p.problem.cost[n] < share * whole) continue;
    const PricedNode& a = p.asked[n];
    if (op_def(a.op).kind == Kind::structure) continue;  // it takes none, like everything else here
    if (!seen.insert(key_of(a)).second) continue;
    sites.push_back(a);
    sites.back().seconds = p.problem.cost[n];
  }
  return sites;
}

// Seconds of the kernels that a program needs.
double nuclei_price(const Graph& g, const std::vector<bool>& weights, bool exact,
                    const SearchPrices& prices) {
  std::vector<bool> ahead(g.size(), false);
  double sum = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    const Node& n = g.nodes[NodeId(i)];
    if (n.op == kInputOp || n.op == kConstantOp) {
      ahead[i] = n.op == kConstantOp || weights[i];
      continue;
    }
    PricedNode asked{.op = n.op, .attrs = n.attrs, .result = g.type(NodeId(i))};
    for (NodeId a : n.args) {
      asked.operands.push_back(g.type(a));
      asked.weights.push_back(ahead[a.value]);
    }
    ahead[i] = std::ranges::all_of(asked.weights, [](bool w) { return w; });
    if (ahead[i] || op_def(n).kind == Kind::movement) continue;
    NodePrice quick = prices.quick(asked);
    sum += exact && quick.guess ? prices.exact(asked) : quick.seconds;
  }
  return sum;
}

// Proven mutants by their sites, over all e-graphs of a search: none is looked at twice.
using KnownMutants = std::map<uint64_t, std::vector<Rule>>;

// Proven mutants of what takes the time in the cheapest program.
std::vector<Rule> mutants_of(PricedEGraph& problem, const TensorEGraph& egraph,
                             const SearchPrices& prices, const ImproveOptions& options,
                             KnownMutants& known, ImproveReport& facts) {
  std::vector<Rule> mutants;
  if (options.mutate_from > 1) return mutants;
  std::vector<FoundSolution> found =
      extracted(problem, problem.given(egraph), prices, options, facts);
  if (found.empty() || options.monitor.stop_requested()) return mutants;
  MutateOptions how = options.mutate;
  how.price = [&](const Graph& mutant, const std::vector<bool>& weights, bool exact) {
    return nuclei_price(mutant, weights, exact, prices);
  };
  how.monitor = options.monitor;
  for (const PricedNode& site : sites_of(problem, found[0], options.mutate_from)) {
    auto [it, fresh] = known.try_emplace(key_of(site));
    if (fresh) {
      MutateReport report;
      it->second = timed(facts.phases_ms, "mutate", [&] { return mutate({site}, how, &report); });
      std::ranges::copy(report.faults, std::back_inserter(facts.faults));
      facts.mutated.add(std::move(report));
    }
    std::ranges::copy(it->second, std::back_inserter(mutants));
  }
  return mutants;
}

// A cheaper program, by one e-graph.
struct Pass {
  std::optional<Graph> better;
  double seconds = 0;  // what it takes, or what the given one does
  std::vector<std::string> trail;
  bool saturated = false;  // the e-graph held all that can be found from here
};
Pass pass_from(const Graph& g, double given_s, const SearchPrices& prices,
               const ImproveOptions& options, KnownMutants& mutants, ImproveReport& facts) {
  // Prices of the program as it is decide what is far from it, so none of them may be a guess.
  timed(facts.phases_ms, "price",
        [&] { return nuclei_price(g, std::vector<bool>(g.size(), false), true, prices); });
  SaturateOptions how = options.saturate;
  if (!how.seconds_of)
    how.seconds_of = [&](const PricedNode& n) { return prices.quick(n).seconds; };
  Saturation saturation(g, how);
  const TensorEGraph& egraph = saturation.egraph();
  PricedEGraph problem;
  auto priced = [&] {
    problem = timed(facts.phases_ms, "price", [&] { return priced_egraph(egraph, prices.quick); });
    validate(problem.problem);
  };
  timed(facts.phases_ms, "saturate", [&] { return saturation.run(kNear); });
  priced();
  std::vector<Rule> more = mutants_of(problem, egraph, prices, options, mutants, facts);
  if (!more.empty()) {
    saturation.add(std::move(more));
    timed(facts.phases_ms, "saturate", [&] { return saturation.run(kNear); });
    priced();
  }
  Pass pass{.seconds = given_s};
  auto look = [&] {
    priced();
    WholePrograms programs(g, egraph, problem, given_s, prices, options, facts);
    programs.extract();
    programs.combine();
    auto best = programs.best();
    if (!best || programs.best_seconds() >= pass.seconds) return;
    pass.seconds = programs.best_seconds();
    pass.better = problem.graph_of(egraph, *best);
    pass.trail = trail_of(egraph, problem, *best, saturation.report().rules);
  };
  auto saturated = [&](StopReason stopped) { return stopped == StopReason::saturated; };
  bool all = saturated(timed(facts.phases_ms, "saturate", [&] { return saturation.run(); }));
  look();
  if (all && !options.monitor.stop_requested()) {
    const size_t had = egraph.engine().change_count();
    all = saturated(timed(facts.phases_ms, "saturate", [&] { return saturation.run_others(); }));
    if (egraph.engine().change_count() != had) look();
  }
  pass.saturated = all;
  facts.saturated.add(saturation.report());
  return pass;
}

// Pass after pass, each from the best so far, while e-graphs are full.
struct Descent {
  Graph best;
  double seconds = 0;
  std::vector<std::string> trail;
};
Descent descent_from(const Graph& g, double given_s, const SearchPrices& prices,
                     const ImproveOptions& options, KnownMutants& mutants, ImproveReport& facts) {
  Descent d{.best = g, .seconds = given_s};
  for (int i = 0; i < options.passes; ++i) {
    Pass pass = pass_from(d.best, d.seconds, prices, options, mutants, facts);
    if (!pass.better) break;
    d.best = std::move(*pass.better);
    d.seconds = pass.seconds;
    std::ranges::move(pass.trail, std::back_inserter(d.trail));
    if (pass.saturated || options.monitor.stop_requested()) break;
  }
  return d;
}

}  // namespace

Graph improve(const Graph& given, const ImproveOptions& options, ImproveReport* report) {
  ImproveReport facts;
  const SearchPrices prices = options.prices ? *options.prices : back_end_prices(target_here());
  const Graph first = with_bodies(given, prices, options, facts);
  const double first_s = facts.after_s;
  MutationManager own;
  ImproveOptions how = options;
  if (!how.mutate.manager) how.mutate.manager = &own;
  KnownMutants mutants;
  Descent best = descent_from(first, first_s, prices, how, mutants, facts);
  // Guesses became prices on the way: with what is known by now another way may be the better one.
  if (best.seconds < first_s && !options.monitor.stop_requested()) {
    Descent again = descent_from(first, first_s, prices, how, mutants, facts);
    if (again.seconds < best.seconds) best = std::move(again);
  }
  Graph g = first;
  if (best.seconds < prices.worthwhile * first_s) {
    g = std::move(best.best);
    facts.after_s = best.seconds;
    std::ranges::move(best.trail, std::back_inserter(facts.trail));
  }
  if (report) *report = std::move(facts);
  return g;
}

}  // namespace emend
