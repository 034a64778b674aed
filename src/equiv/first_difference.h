// Where two programs part: the first node whose value the other one does not compute.
#pragma once

#include <optional>
#include <string>

#include "equiv/print.h"
#include "ir/graph.h"

namespace emend {

struct FirstDifference {
  std::string node, op;  // of the first program
  std::string other,
      how;  // the node of that name in the other one, or none; how the twin was sought
};

// Nodes are matched by name where both programs have most names in common, and by value otherwise.
// `prints` are what values looked like in both on the same inputs.
std::optional<FirstDifference> first_difference(const Graph& a,
                                                const IdVec<NodeId, Print>& prints_a,
                                                const Graph& b,
                                                const IdVec<NodeId, Print>& prints_b);

}  // namespace emend
