#include "prices.h"

#include "pipeline/planning.h"
#include "pipeline/search_prices.h"
#include "rules/match.h"

namespace emend {

Prices::Prices(Clock clock)
    : clock_(clock),
      prices_(catalogue_here(), target_here(),
              {.error = kShareOfOne * kUsualAccuracy, .bound = kUsualAccuracy, .known = &known_}) {}

double Prices::exact(const PricedNode& n) {
  Stopwatch watch(clock_);
  double price = prices_.exact(n);
  seconds_ += watch.seconds();
  return price;
}

double Prices::quick(const PricedNode& n) {
  Stopwatch watch(clock_);
  double price = prices_.quick(n).seconds;
  seconds_ += watch.seconds();
  return price;
}

std::vector<bool> weight_only_nodes(const Graph& g) {
  TermFacts facts = facts_of(g);
  std::vector<bool> out;
  for (size_t i = 0; i < g.size(); ++i) out.push_back(facts.weight_only(Term(i)));
  return out;
}

PricedNode priced_node(const Graph& g, NodeId n, const std::vector<bool>& weight_only) {
  PricedNode out{.op = g.nodes[n].op, .attrs = g.nodes[n].attrs, .result = g.types[n]};
  for (NodeId a : g.nodes[n].args) {
    out.operands.push_back(g.types[a]);
    out.weights.push_back(weight_only[a.value]);
  }
  return out;
}

double cost_of(const Graph& g, Prices& prices) {
  std::vector<bool> weights = weight_only_nodes(g);
  double sum = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n{i};
    if (weights[i] || g.nodes[n].op == kInputOp) continue;
    sum += prices.exact(priced_node(g, n, weights));
  }
  return sum;
}

PricedEGraph problem_of(const TensorEGraph& g, Prices& prices, bool exact,
                        const Blacklist& blacklist) {
  auto price = [&](const PricedNode& n) -> NodePrice {
    return {exact ? prices.exact(n) : prices.quick(n)};
  };
  return priced_egraph(g, price, blacklist);
}

}  // namespace emend
