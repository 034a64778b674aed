// Two views, one after the other, as one: the digits of both are brought together (ops/terms.h).
// Zeros that the inner one's border put between elements are no border of the whole: a mask says
// where the whole is zero.
#pragma once

#include <optional>

#include "ir/tensor.h"
#include "ir/view.h"

namespace emend {

// Masks are looked at element by element: larger ones are not made.
inline constexpr int64_t kMaxMask = int64_t{1} << 20;

struct ComposedView {
  View view;
  std::optional<Tensor> mask;  // of bools that broadcast over the output: zero where false
};

// outer(inner(x)) for x of this shape. Nothing where it takes more than one linear map.
std::optional<ComposedView> composed(const View& outer, const View& inner, const Dims& shape);

}  // namespace emend
