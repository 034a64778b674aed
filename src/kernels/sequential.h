// Operators whose steps follow one another, so that no nest says what they compute: running sums
// and products along an axis, writes where data says, and loops over a cell (kernels/recurrence.h).
// Each is a group by itself, for a kernel of its own.
#pragma once

#include "ir/graph.h"
#include "ir/partition.h"
#include "ops/scatter.h"

namespace emend {

// y[o, e, i] = everything of x[o, .., i] up to e, combined.
struct Scan {
  Reduce reduce = Reduce::sum;
  bool from_end = false, exclusive = false;
  int64_t outer = 1, extent = 1, inner = 1;
};

// Nothing for other nodes, and for those whose element types C has no arithmetic for.
std::optional<Scan> scan_of(const Graph& g, NodeId n);
std::optional<Scatter> scatter_of(const Graph& g, NodeId n);
bool is_sequential(const Graph& g, NodeId n);
bool is_sequential(const Graph& g, const NodeGroup& group);

// The only node of a group, inputs aside; invalid if there are more.
NodeId only_node(const Graph& group);

}  // namespace emend
