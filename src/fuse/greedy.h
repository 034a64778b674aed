// Groups by steps that pay: the best one first, until none is left.
#pragma once

#include "fuse/price.h"
#include "fuse/units.h"

namespace emend {

// Every unit in one group, groups without cycles between them. Marks nodes of `units` dissolved.
std::vector<std::vector<NodeId>> greedy_groups(Units& units, GroupPrices& prices);

// Groups in an order in which each stands after those that it reads from; nothing if they form a
// cycle.
std::optional<std::vector<std::vector<NodeId>>> ordered(const Units& units,
                                                        std::vector<std::vector<NodeId>> groups);

}  // namespace emend
