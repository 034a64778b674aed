#include "prices.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "extract/check.h"
#include "extract/greedy.h"
#include "pipeline/compile.h"
#include "pipeline/improve.h"
#include "rules/match.h"

namespace emend {

Prices::Prices()
    : prices_(catalogue_here(), target_here(),
              {.error = ImproveOptions().error, .known = &known_}) {}

double Prices::exact(const PricedNode& n) {
  Stopwatch watch;
  double price = prices_.exact(n);
  seconds_ += watch.seconds();
  return price;
}

double Prices::quick(const PricedNode& n) {
  Stopwatch watch;
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

Graph PricedProblem::graph_of(const TensorEGraph& g, const std::vector<uint32_t>& choice) const {
  std::unordered_map<uint32_t, ENodeId> chosen;
  for (size_t c = 0; c < classes.size(); ++c) {
    if (choice[c] != kNoNode) chosen.emplace(classes[c].value, nodes[choice[c]]);
  }
  return g.graph_of([&](ClassId c) { return chosen.at(c.value); });
}

std::vector<uint32_t> PricedProblem::given(const TensorEGraph& g) const {
  std::vector<uint32_t> choice(classes.size(), kNoNode);
  for (uint32_t c = 0; c < classes.size(); ++c) {
    for (uint32_t n : problem.nodes(c)) {
      if (choice[c] == kNoNode && !g.engine().provenance().maker(nodes[n]).valid()) choice[c] = n;
    }
  }
  choice = needed(problem, std::move(choice));
  if (!checked_cost(problem, choice)) choice.clear();
  return choice;
}

PricedProblem problem_of(const TensorEGraph& g, Prices& prices, bool exact,
                         const Blacklist& blacklist) {
  constexpr double kKernel = 1e-6;  // seconds: nothing that is fused away costs as much
  const EGraph& engine = g.engine();
  PricedProblem out;
  std::unordered_map<uint32_t, uint32_t> places;
  auto place = [&](ClassId c) {
    auto [it, fresh] = places.try_emplace(c.value, static_cast<uint32_t>(out.classes.size()));
    if (fresh) out.classes.push_back(c);
    return it->second;
  };
  std::vector<uint32_t>& roots = out.problem.roots;
  for (ClassId root : g.roots()) roots.push_back(place(root));
  std::sort(roots.begin(), roots.end());
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  auto price_of = [&](ClassId c, ENodeId n) {
    ENode node = engine.node(n);
    if (blacklist.count(n.value)) return std::numeric_limits<double>::infinity();
    if (g.weight_only(c) || OpId(size_t{node.op}) == kInputOp) return 0.0;
    PricedNode asked{.op = OpId(size_t{node.op}), .attrs = g.attrs(node.attr), .result = g.type(c)};
    for (ClassId child : node.children) {
      asked.operands.push_back(g.type(engine.find(child)));
      asked.weights.push_back(g.weight_only(engine.find(child)));
    }
    return exact ? prices.exact(asked) : prices.quick(asked);
  };
  std::vector<uint32_t> children;
  for (size_t c = 0; c < out.classes.size(); ++c) {  // grows as children are met
    ClassId id = out.classes[c];
    out.problem.add_class();
    bool nucleus = false;
    for (ENodeId n : engine.nodes_of(id)) {
      double price = price_of(id, n);
      nucleus |= price > kKernel;
      children.clear();
      for (ClassId child : engine.node(n).children) children.push_back(place(engine.find(child)));
      out.problem.add_node(price, children);
      out.nodes.push_back(n);
    }
    if (nucleus) out.nuclei.push_back(static_cast<uint32_t>(c));
  }
  return out;
}

}  // namespace emend
