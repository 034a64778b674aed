// A graph that only moves elements (reshapes, transposes, pads with zeros), as one strided copy.
#pragma once

#include <optional>

#include "ir/program.h"

namespace emend {

// Of a graph with one input and one output; none if it does more than that.
std::optional<Repacking> repacking_of(const Graph& packing);

}  // namespace emend
