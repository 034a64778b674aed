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

// The same of the form whose first coefficient is positive.
inline Condition upright(Condition c) {
  if (c.of.terms.empty() || c.of.terms[0].second > 0) return c;
  c.of = c.of * -1;
  c.of.constant += c.extent - 1;
  return c;
}

}  // namespace emend
