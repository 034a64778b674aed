// A program computed only in a box of its output: from there back, every operator computes what
// the next one reads of it. Windows read slices with the padding that still applies, products rows
// and columns, channels slices of the weights, whole groups where a box cuts one.
#pragma once

#include "base/result.h"
#include "ops/build.h"

namespace emend {

// Positions p with low <= p < high, one per dimension; never empty.
struct PositionBox {
  Dims low, high;
  Dims shape() const;
  bool operator==(const PositionBox&) const = default;
};

// The first output of `program`, for these inputs, in that box. Fails where an operator cannot be
// computed in part, and names it.
Result<NodeId> restricted(GraphBuilder& b, const Graph& program, Args inputs,
                          const PositionBox& box);
// In several boxes. If `together`, and the program ends in a convolution, those of equal shape are
// computed by one, as images of a batch: they share the weights.
Result<std::vector<NodeId>> restricted(GraphBuilder& b, const Graph& program, Args inputs,
                                       std::span<const PositionBox> boxes, bool together);

}  // namespace emend
