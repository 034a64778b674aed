// A graph that moves elements (reshapes, transposes, pads with zeros), as one strided copy, and
// then multiplies constant matrices from the left.
#pragma once

#include <optional>

#include "ir/program.h"

namespace emend {

// Of a graph with one input and one output; none if it does more than that.
std::optional<Repacking> repacking_of(const Graph& packing);

}  // namespace emend
