#include "select/select.h"

#include "base/error.h"
#include "kernels/group.h"

namespace emend {

Plan select(const Graph& g, Partition partition, const Catalogue& catalogue, const Target& target) {
  Plan plan{std::move(partition), {}};
  for (const NodeGroup& group : plan.partition.groups) {
    Candidate best;
    if (!group.host) {
      Outline o = outlined(g, group);
      std::vector<bool> constant;
      for (NodeId n : o.loads) constant.push_back(g.is_constant(storage_of(g, n)));
      for (const Kernel& k : catalogue) {
        for (Candidate& c : k.candidates(o.graph, constant, target)) {
          if (best.kernel.empty() || c.estimate_s < best.estimate_s) best = std::move(c);
        }
      }
      EMEND_ASSERT(!best.kernel.empty(), "no kernel takes a group");
    }
    plan.choices.push_back(std::move(best));
  }
  return plan;
}

}  // namespace emend
