#include "pipeline/improve.h"

#include <algorithm>
#include <cmath>
#include <iterator>
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
                      .keep = options.kept,
                      .tell_apart_by = problem.nuclei,
                      .monitor = options.monitor.silent()};
    found = timed(facts.phases_ms, "extract", [&] {
      return best_of(search_from_both(problem.problem, how), options.kept, problem);
    });
    if (!timed(facts.phases_ms, "price", [&] { return problem.learn(found, prices.exact); })) break;
  }
  return found;
}

// The cheapest of some programs of an e-graph, as wholes.
struct Best {
  Graph program;
  std::vector<uint32_t> choice;  // none: the given one
};

// What whole programs take flows back into the prices of their nodes, and others may be best.
Best best_program(const Graph& g, const TensorEGraph& egraph, PricedEGraph& problem,
                  const SearchPrices& prices, const ImproveOptions& options, ImproveReport& facts) {
  Best best{g, {}};
  const double given_s = facts.after_s;
  const std::vector<uint32_t> as_given = problem.given(egraph);
  std::set<uint64_t> looked_at = {problem.structure_of(as_given)};
  for (int round = 0; round <= options.corrections; ++round) {
    std::vector<FoundSolution> found = extracted(problem, as_given, prices, options, facts);
    timed(facts.phases_ms, "price", [&] { return problem.learn({{as_given}}, prices.exact); });
    const double given_cost = problem.cost_of(as_given);
    // Node prices may be a little wrong; once they were corrected, only the best is worth a look.
    double hoped = round == 0 ? kHopeful * given_cost : given_cost + facts.after_s - given_s;
    if (round > 0 && found.size() > 1) found.resize(1);
    std::erase_if(found, [&](const FoundSolution& s) {
      return (!as_given.empty() && problem.cost_of(s.choice) >= hoped) ||
             !looked_at.insert(problem.structure_of(s.choice)).second;
    });
    if (found.empty() || options.monitor.stop_requested()) break;
    std::vector<Graph> programs = {g};
    std::vector<double> expected = {0};  // how much longer than the given one
    for (const FoundSolution& s : found) {
      programs.push_back(problem.graph_of(egraph, s.choice));
      expected.push_back(problem.cost_of(s.choice) - given_cost);
    }
    std::vector<double> seconds = timed(facts.phases_ms, "back end",
                                        [&] { return prices.programs(programs, options.monitor); });
    for (size_t i = 1; i < seconds.size(); ++i) {
      facts.priced_s.push_back(seconds[i]);
      const std::vector<uint32_t>& choice = found[i - 1].choice;
      if (!as_given.empty() && std::isfinite(seconds[i]))
        problem.correct(choice, as_given, seconds[i] - seconds[0] - expected[i]);
      if (seconds[i] >= std::min(prices.worthwhile * given_s, facts.after_s)) continue;
      facts.after_s = seconds[i];
      best = {std::move(programs[i]), choice};
    }
  }
  return best;
}

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
std::vector<MutationSite> sites_of(const PricedEGraph& p, const FoundSolution& program,
                                   double share) {
  std::vector<MutationSite> sites;
  double whole = p.cost_of(program.choice);
  std::set<uint64_t> seen;
  for (uint32_t n : program.choice) {
    if (n == kNoNode || p.problem.cost[n] < share * whole) continue;
    const PricedNode& a = p.asked[n];
    if (op_def(a.op).kind == Kind::structure) continue;  // it takes none, like everything else here
    if (seen.insert(key_of(a)).second)
      sites.push_back({a.op, a.attrs, a.operands, a.weights, a.result, p.problem.cost[n]});
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

// Proven mutants of what takes the time in the cheapest program.
std::vector<Rule> mutants_of(PricedEGraph& problem, const TensorEGraph& egraph,
                             const SearchPrices& prices, const ImproveOptions& options,
                             ImproveReport& facts) {
  if (options.mutate_from > 1) return {};
  std::vector<FoundSolution> found =
      extracted(problem, problem.given(egraph), prices, options, facts);
  if (found.empty() || options.monitor.stop_requested()) return {};
  MutateOptions how = options.mutate;
  how.price = [&](const Graph& mutant, const std::vector<bool>& weights, bool exact) {
    return nuclei_price(mutant, weights, exact, prices);
  };
  how.monitor = options.monitor;
  MutationManager own;
  if (!how.manager) how.manager = &own;
  return timed(facts.phases_ms, "mutate", [&] {
    return mutate(sites_of(problem, found[0], options.mutate_from), how, &facts.mutated);
  });
}

}  // namespace

Graph improve(const Graph& given, const ImproveOptions& options, ImproveReport* report) {
  ImproveReport facts;
  const SearchPrices prices = options.prices ? *options.prices : back_end_prices(target_here());
  const Graph g = with_bodies(given, prices, options, facts);
  Saturation saturation(g, options.saturate);
  const TensorEGraph& egraph = saturation.egraph();
  PricedEGraph problem;
  auto saturated = [&] {
    timed(facts.phases_ms, "saturate", [&] { return saturation.run(); });
    problem = timed(facts.phases_ms, "price", [&] { return priced_egraph(egraph, prices.quick); });
    validate(problem.problem);
  };
  saturated();
  std::vector<Rule> mutants = mutants_of(problem, egraph, prices, options, facts);
  if (!mutants.empty()) {
    saturation.add(std::move(mutants));
    saturated();
  }
  facts.saturated = saturation.report();
  std::ranges::copy(facts.mutated.faults, std::back_inserter(facts.faults));
  Best best = best_program(g, egraph, problem, prices, options, facts);
  if (!best.choice.empty()) {
    std::ranges::move(trail_of(egraph, problem, best.choice, facts.saturated.rules),
                      std::back_inserter(facts.trail));
  }
  if (report) *report = std::move(facts);
  return best.program;
}

}  // namespace emend
