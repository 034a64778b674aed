// Cuts a graph into groups that one kernel each can compute, so that few bytes travel between them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/partition.h"
#include "kernels/kernel.h"

namespace emend {

// Composites replaced by what they stand for, down to operators with a meaning of their own, and
// tuples by their items.
Graph decomposed(const Graph& g);

// Seconds that the best kernel takes for a group some of whose inputs are known ahead of time;
// nothing if there is none.
using GroupSeconds =
    std::function<std::optional<double>(const Graph& group, const std::vector<bool>& constant)>;

// How parts of graphs were cut, for one target, budget and catalogue: kept by whoever fuses again
// and again.
struct KnownIslands;
std::shared_ptr<KnownIslands> no_known_islands();

struct FuseOptions {
  bool fuse = true;      // false: a kernel per operator
  Target target;         // whose prices decide
  size_t budget = 2000;  // groups and states that an exact solution of one island may look at
  // Kernels that may join what islands keep apart, and those that they replace; none: no joining.
  const Catalogue* catalogue = nullptr;
  // By which views are stored that kernels would rather not look through; none: none is.
  GroupSeconds seconds;
  std::shared_ptr<KnownIslands> known = nullptr;
};
Partition fuse(const Graph& g, const FuseOptions& options = {});

// Why only the reference can compute the node; empty if a kernel can.
std::string host_reason(const Graph& g, NodeId n);

// Seconds of one run by the price list that fusion minimises (decision 0011): per group a launch,
// the bytes it reads and writes, and the operations it executes, repeated ones included. Host
// groups cost what their launch and bytes do. A group that no kernel may compute has no price.
std::optional<double> price(const Graph& g, const Partition& p, const Target& target);

}  // namespace emend
