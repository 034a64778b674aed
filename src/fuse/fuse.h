// Cuts a graph into groups that one kernel each can compute, so that few bytes travel between them.
#pragma once

#include "ir/partition.h"
#include "kernels/kernel.h"

namespace emend {

// Composites replaced by what they stand for, down to operators with a meaning of their own, and
// tuples by their items.
Graph decomposed(const Graph& g);

struct FuseOptions {
  bool fuse = true;      // false: a kernel per operator
  Target target;         // whose prices decide
  size_t budget = 2000;  // groups and states that an exact solution of one island may look at
  // Kernels that may join what islands keep apart, and those that they replace; none: no joining.
  const Catalogue* catalogue = nullptr;
};
Partition fuse(const Graph& g, const FuseOptions& options = {});

// Seconds of one run by the price list that fusion minimises (decision 0011): per group a launch,
// the bytes it reads and writes, and the operations it executes, repeated ones included. Host
// groups cost what their launch and bytes do. A group that no kernel may compute has no price.
std::optional<double> price(const Graph& g, const Partition& p, const Target& target);

}  // namespace emend
