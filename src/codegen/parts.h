// Concatenations that are no steps: their operands are written where they belong (decision 0023).
// Pure: from a plan to what lies inside of what.
#pragma once

#include <map>
#include <set>

#include "kernels/kernel.h"
#include "kernels/plan.h"

namespace emend {

// Where a value lies in the concatenation that alone reads it.
struct Part {
  NodeId whole;
  Layout layout;    // of the whole
  Dims strides;     // of the whole, in the order in which it is stored
  size_t from = 0;  // bytes
};

struct Parts {
  std::map<NodeId, Part> of;
  std::set<size_t> wholes;  // groups of the partition that have nothing left to do
};

// Groups that only concatenate, values that nothing else reads, which kernels can put there.
Parts parts_in(const Graph& g, const Plan& plan, const Catalogue& catalogue);

}  // namespace emend
