#include "fuse/fuse.h"

#include "kernels/group.h"
#include "kernels/nest.h"
#include "ops/table.h"

namespace emend {

Partition fuse(const Graph& g, const FuseOptions&) {
  Partition p;
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n{i};
    const Node& node = g.nodes[n];
    if (node.op == kInputOp || node.op == kConstantOp || is_renaming(g, n)) continue;
    NodeGroup group{{n}, {n}, false, not_nestable(g, n)};
    group.host = !group.reason.empty();
    if (!group.host) {
      if (auto nest = nest_of(outlined(g, group).graph); !nest) {
        group.host = true;
        group.reason = nest.error();
      }
    }
    p.groups.push_back(std::move(group));
  }
  return p;
}

}  // namespace emend
