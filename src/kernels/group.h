// A group of nodes as a graph of its own: what kernels see.
#pragma once

#include "ir/graph.h"
#include "ir/partition.h"

namespace emend {

// The node whose memory holds this one's value: reshapes are looked through.
NodeId storage_of(const Graph& g, NodeId n);
// Only another shape for the same memory.
bool is_renaming(const Graph& g, NodeId n);

struct Outline {
  Graph graph;  // inputs: `loads`; outputs: the group's stores; scalar constants inside
  std::vector<NodeId> loads, stores;  // nodes of the whole graph
};
Outline outlined(const Graph& g, const NodeGroup& group);

}  // namespace emend
