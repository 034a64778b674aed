// A nest over a part of its space. What chooses between operands by an index (a concatenation, a
// pad) is decided there, and no longer asked for every element.
#pragma once

#include "kernels/nest.h"

namespace emend {

// The numbers of an iterator of the space at which some comparison changes, in order.
std::vector<int64_t> changes_along(const Nest& nest, int iterator);

// The nest with an iterator as two digits of which the lower one has this many values. Nothing if a
// quotient or remainder is made of it.
std::optional<Nest> with_digits(const Nest& nest, int iterator, int64_t lower);

// The nest where the iterator goes from `from` to `to` only.
Nest part_of(const Nest& nest, int iterator, int64_t from, int64_t to);

}  // namespace emend
