#include "select/weight_budget.h"

#include <algorithm>
#include <set>

#include "kernels/group.h"

namespace emend {
namespace {

double bytes_of(const Type& t) {
  if (!t.is_tensor()) return 0;
  return static_cast<double>(
      storage_bytes(t.dtype, static_cast<uint64_t>(count(t.shape))).value_or(0));
}

struct WeightBudget {
  double by_size = 0;  // bytes that may be added per byte of the weight
  double by_use = 0;   // bytes that may be added besides

  bool allows(const Candidate& c) const {
    if (c.growth.added > by_size * c.growth.held + by_use) return false;
    return std::all_of(c.packing.begin(), c.packing.end(), [&](const Graph& packing) {
      if (packing.outputs.empty()) return true;
      double before = bytes_of(packing.type(packing.inputs[0].node)),
             after = bytes_of(packing.type(packing.outputs[0].node));
      return after - before <= by_size * before + by_use;
    });
  }
};

WeightBudget budget_of(const Graph& g, const Partition& partition, double factor) {
  double held = 0, used = 0, uses = 0;
  std::set<NodeId> known;
  for (const NodeGroup& group : partition.groups) {
    std::set<NodeId> loads;
    for (NodeId n : group.nodes) {
      for (NodeId a : g.nodes[n].args) {
        NodeId s = storage_of(g, a);
        if (!g.is_constant(s) || !loads.insert(s).second) continue;
        double bytes = bytes_of(g.type(s));
        held += known.insert(s).second ? bytes : 0;
        used += bytes;
        uses += 1;
      }
    }
  }
  // Every use may end up with a copy of its own, so all of them count.
  double spare = factor * held - used;
  if (used == 0) return {};
  if (spare < 0) return {-1, 0};
  return {spare / 2 / used, spare / 2 / uses};
}

}  // namespace

Catalogue within_memory(const Catalogue& catalogue, const Graph& g, const Partition& partition,
                        double factor) {
  WeightBudget budget = budget_of(g, partition, factor);
  Catalogue all = catalogue;
  for (Kernel& k : all) {
    k.candidates = [offered = std::move(k.candidates), budget](const auto&... wanted) {
      std::vector<Candidate> candidates = offered(wanted...);
      std::erase_if(candidates, [&](const Candidate& c) { return !budget.allows(c); });
      return candidates;
    };
  }
  return all;
}

}  // namespace emend
