#include "pipeline/verify.h"

#include <algorithm>

#include "simplify/simplify.h"

namespace emend {
namespace {

// Where each of `wanted` stands in `given`; nullopt unless both are the same names, each once.
template <class Named>
std::optional<std::vector<size_t>> places(const std::vector<Named>& wanted,
                                          const std::vector<Named>& given) {
  std::vector<size_t> at;
  for (const Named& w : wanted) {
    auto same = [&](const Named& g) { return g.name == w.name; };
    if (std::count_if(given.begin(), given.end(), same) != 1) return std::nullopt;
    at.push_back(
        static_cast<size_t>(std::find_if(given.begin(), given.end(), same) - given.begin()));
  }
  if (wanted.size() != given.size()) return std::nullopt;
  return at;
}

// `b` with inputs and outputs in the order of `a`, where they have the same names: users feed
// models by name, and a list in another order is no difference.
Graph in_order_of(const Graph& a, Graph b) {
  if (auto at = places(a.outputs, b.outputs)) {
    auto outputs = b.outputs;
    for (size_t k = 0; k < at->size(); ++k) b.outputs[k] = outputs[(*at)[k]];
  }
  auto at = places(a.inputs, b.inputs);
  if (!at || std::is_sorted(at->begin(), at->end())) return b;
  const Graph old = b;
  IdVec<NodeId, NodeId> moved(b.size());
  for (size_t i = 0; i < b.size(); ++i) moved[NodeId(i)] = NodeId(i);
  for (size_t k = 0; k < at->size(); ++k) {
    NodeId from = old.inputs[(*at)[k]].node, to{k};
    moved[from] = to;
    b.inputs[k] = old.inputs[(*at)[k]];
    b.inputs[k].node = to;
    b.types[to] = old.types[from];
    b.names[to] = old.names[from];
  }
  for (Node& n : b.nodes) {
    for (NodeId& arg : n.args) arg = moved[arg];
  }
  for (GraphOutput& o : b.outputs) o.node = moved[o.node];
  return b;
}

}  // namespace

Verdict verify(const Model& a, const Model& b, const CompareOptions& options) {
  const Graph same_order = in_order_of(a.graph, b.graph);
  Verdict as_they_are = compare(a.graph, same_order, options);
  if (as_they_are.kind != Verdict::Kind::unknown || as_they_are.out_of_time) return as_they_are;
  Verdict cleaned = compare(simplify(a.graph), simplify(same_order), options);
  // A difference between cleaned programs may be one that folding made: only equality counts.
  if (cleaned.kind != Verdict::Kind::equal) return as_they_are;
  cleaned.reason = "after both were cleaned by the rules, " + cleaned.reason;
  return cleaned;
}

}  // namespace emend
