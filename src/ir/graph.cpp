#include "ir/graph.h"

namespace emend {

bool operator==(const Graph& a, const Graph& b) {
  return a.nodes == b.nodes && a.types == b.types && a.inputs == b.inputs &&
         a.outputs == b.outputs && a.constants == b.constants;
}

uint64_t hash(const Graph& g) {
  uint64_t h = g.nodes.size();
  for (const Node& n : g.nodes) h = hash_mix(h, hash(n));
  for (const Type& t : g.types) h = hash_mix(h, hash_text(to_text(t)));
  for (const Tensor& t : g.constants) h = hash_mix(h, hash(t));
  for (const auto& i : g.inputs) h = hash_mix(h, hash_text(i.name, i.node.value));
  for (const auto& o : g.outputs) {
    h = hash_mix(h, hash_text(o.name, o.node.value));
    for (int64_t stride : o.strides) h = hash_mix(h, static_cast<uint64_t>(stride));
  }
  return h;
}

IdVec<NodeId, int> use_counts(const Graph& g) {
  IdVec<NodeId, int> uses(g.size(), 0);
  for (const Node& n : g.nodes) {
    for (NodeId a : n.args) ++uses[a];
  }
  for (const auto& o : g.outputs) ++uses[o.node];
  return uses;
}

}  // namespace emend
