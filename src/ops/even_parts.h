// A tensor cut wherever a slice differs from the one before it: as averages over windows are
// divided, less at borders.
#pragma once

#include <vector>

#include "base/result.h"
#include "ir/tensor.h"

namespace emend {

struct EvenPart {
  Dims low, high;
  double value;  // of all elements from `low` on, before `high`
};
// Of numbers to divide by: fails, with the reason, where there are many, or one is zero.
Result<std::vector<EvenPart>> even_parts(const Tensor& t);

}  // namespace emend
