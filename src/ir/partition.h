// A graph cut into groups, each computed by one kernel (or by the host). In order: a group stands
// after those whose stores it loads. A cheap node may be in several groups (recomputed); a node
// that only renames memory (a reshape) is in none unless a group looks through it.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace emend {

struct NodeGroup {
  std::vector<NodeId> nodes;   // in topological order
  std::vector<NodeId> stores;  // those whose values others need, or the program's outputs
  bool host = false;           // one node that the reference evaluates
  std::string reason;          // why it is the host's
  bool operator==(const NodeGroup&) const = default;
};

struct Partition {
  std::vector<NodeGroup> groups;
  bool operator==(const Partition&) const = default;
};

}  // namespace emend
