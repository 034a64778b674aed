// Cuts a graph into groups that one kernel each can compute.
#pragma once

#include "ir/partition.h"

namespace emend {

// Composites replaced by what they stand for, down to operators with a meaning of their own.
Graph decomposed(const Graph& g);

struct FuseOptions {
  bool fuse = true;  // false: a kernel per operator
};
Partition fuse(const Graph& g, const FuseOptions& options = {});

}  // namespace emend
