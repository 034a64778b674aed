#include "fuse/fuse.h"

#include "base/error.h"
#include "fuse/greedy.h"
#include "fuse/price.h"
#include "fuse/units.h"

namespace emend {

Partition fuse(const Graph& g, const FuseOptions& options) {
  Units units(g);
  std::vector<std::vector<NodeId>> groups;
  if (options.fuse) {
    GroupPrices prices(g, options.target);
    groups = greedy_groups(units, prices);
  } else {
    for (size_t i = 0; i < g.size(); ++i) {
      if (units.is_unit(NodeId(i))) groups.push_back({NodeId(i)});
    }
  }
  auto in_order = ordered(units, std::move(groups));
  EMEND_ASSERT(in_order, "groups that need one another");
  Partition p;
  for (const auto& members : *in_order) p.groups.push_back(units.group(members));
  return p;
}

}  // namespace emend
