// What a contraction multiplies: an element of memory, or a byte from which a zero point is taken.
//
//   f32, bf16   x                        of memory
//   bytes       i32(x) - i32(zero)       of u8 or i8; the zero point has the byte's type
//
// Outside of the bounds a factor is 0; for a byte that is its zero point.
#pragma once

#include <optional>
#include <vector>

#include "kernels/nest.h"

namespace emend {

struct Factor {
  int load = -1;
  int zero = -1;  // a load or a constant that is taken off; -1: nothing
  std::vector<Bound> bounds;
};

// The factor that a value of the nest is; none if it is something else.
std::optional<Factor> factor_of(const Nest& nest, int value);

}  // namespace emend
