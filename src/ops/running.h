// Running sums and products: meanings that reduce over everything up to a position along one axis,
//   out[.. i ..] = sum over r of x[.. i - r ..], nothing beyond the border.
// Taken literally they cost the square of the axis; carried along it, its length.
#pragma once

#include <optional>

#include "ops/meaning.h"

namespace emend {

struct Running {
  size_t axis = 0;
  bool from_end = false;   // over everything after a position instead
  bool exclusive = false;  // without the position itself
};

std::optional<Running> as_running(const Meaning& m, const Dims& operand);

}  // namespace emend
