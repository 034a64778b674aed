// Does it matter to a program that its integers wrap? Sums and products of integers obey the laws
// of a ring whether they wrap or not; order, division and conversions do not: x + 1 > x holds but
// for the largest x. What is found with numbers that do not wrap is proven only where none can, by
// the ranges of the types and of the constants, or where only sums and products see those that do.
#pragma once

#include "ir/graph.h"

namespace emend {

// The integers that an input may hold; wider than its type means all of the type.
struct IntegerRange {
  long double low = -0x1p70L, high = 0x1p70L;
};

bool wrapping_matters(const Graph& g, IntegerRange inputs = {});

}  // namespace emend
