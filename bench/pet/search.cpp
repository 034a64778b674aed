#include "pet/search.h"

#include <algorithm>

#include "ops/table.h"
#include "rules/rule.h"
#include "simplify/simplify.h"

namespace emend {
namespace {

// Rules of ours, in PET's direction: elementwise operators go before moves, so that moves meet.
const std::vector<Rule>& border_rules() {
  static const std::vector<Rule> kRules = [] {
    std::vector<Rule> rules;
    for (const char* name : {"view-through", "view-through-zero", "view-through-both",
                             "view-through-smaller", "view-through-smaller-left", "where-through"})
      rules.push_back(reversed(*find_rule(name)));
    for (const char* name :
         {"view-of-reshape", "reshape-of-view", "view-of-transpose", "transpose-of-view"})
      rules.push_back(*find_rule(name));
    return rules;
  }();
  return kRules;
}

// As PET counts: of moves that follow one another only the last one costs something. What is left
// of them after composition lays gaps anew, which one kernel does.
double pet_cost(const Graph& g, Prices& prices) {
  const std::vector<bool> weights = weight_only_nodes(g);
  const auto uses = use_counts(g);
  auto is_view = [&](NodeId n) { return op_def(g.nodes[n]).name == "view"; };
  double sum = cost_of(g, prices);
  for (size_t i = 0; i < g.size(); ++i) {
    const NodeId n(i), from = is_view(n) ? g.nodes[n].args[0] : n;
    if (from == n || weights[i] || !is_view(from) || uses[from] > 1) continue;
    sum -= prices.exact(priced_node(g, from, weights));
  }
  return sum;
}

struct State {
  std::vector<const PetMutant*> chosen;  // per unit; none: as it is
  double cost = 0;
};

}  // namespace

Graph post_optimized(const Graph& g) {
  SimplifyOptions how{.disable = {"*"}, .finish = false, .form = &border_rules()};
  how.enable = {"view-*", "where-*", "*-of-view", "common-subexpressions"};
  return simplify(g, how);
}

PetResult pet_search(const Graph& g, const PetOptions& options, Mutator& mutator, Prices& prices) {
  const std::vector<Unit> units = units_of(g);
  PetResult result{.best = g, .cost = pet_cost(g, prices)};
  double apart = prices.seconds() + mutator.seconds();
  Stopwatch watch(cpu_seconds);
  auto program = [&](const State& s) -> std::optional<Graph> {
    std::vector<const Graph*> graphs;
    for (const PetMutant* m : s.chosen) graphs.push_back(m ? &m->program : nullptr);
    auto whole = assembled(g, units, graphs);
    if (!whole) return std::nullopt;
    return post_optimized(*whole);
  };
  // Is one of the operators already part of something larger?
  auto taken = [&](const State& s, size_t unit) {
    for (size_t u = 0; u < unit; ++u) {
      if (!s.chosen[u]) continue;
      for (NodeId n : units[unit].nodes)
        if (std::find(units[u].nodes.begin(), units[u].nodes.end(), n) != units[u].nodes.end())
          return true;
    }
    return false;
  };
  std::vector<State> beam = {{std::vector<const PetMutant*>(units.size(), nullptr), result.cost}};
  // The manager may be off: what was found for a unit is kept as long as programs name it.
  std::vector<std::vector<PetMutant>> mutants;
  mutants.reserve(units.size());
  for (size_t u = 0; u < units.size(); ++u) {
    mutants.push_back(mutator.of(units[u]));
    std::erase_if(mutants.back(), [&](const PetMutant& m) {
      return m.equivalent ? !options.equivalent : !options.others;
    });
    std::vector<State> next = beam;
    for (const State& s : beam) {
      if (taken(s, u)) continue;
      for (const PetMutant& m : mutants.back()) {
        State with = s;
        with.chosen[u] = &m;
        auto whole = program(with);
        if (!whole) continue;
        ++result.evaluated;
        with.cost = pet_cost(*whole, prices);
        next.push_back(std::move(with));
      }
    }
    std::stable_sort(next.begin(), next.end(),
                     [](const State& a, const State& b) { return a.cost < b.cost; });
    if (next.size() > options.beam) next.resize(options.beam);
    beam = std::move(next);
  }
  result.best = *program(beam[0]);
  result.cost = beam[0].cost;
  for (const PetMutant* m : beam[0].chosen)
    if (m) result.mutants.push_back(m->how);
  result.seconds = watch.seconds() - (prices.seconds() + mutator.seconds() - apart);
  return result;
}

}  // namespace emend
