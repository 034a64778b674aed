// The space of a nest before views cut it: read off the outputs of its group.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace emend {

// The extents of a space, outermost first, and which of its iterators smaller outputs keep.
struct Space {
  Dims extents;
  std::vector<bool> kept;
  bool operator==(const Space&) const = default;
};

// The space of a nest, as far as its outputs tell: one flat loop if they are equally large; else
// the axes of the reduction that makes the smaller ones.
std::optional<Space> space_of(const Graph& group);

}  // namespace emend
