// Where a linear form in iterators lies in a range.
#pragma once

#include "ir/index_expr.h"

namespace emend {

// 0 <= of < extent
struct Condition {
  Linear of;
  int64_t extent = 0;
  bool operator==(const Condition&) const = default;
};

}  // namespace emend
