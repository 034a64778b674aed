// Numbers of a program as functions of its sizes. A program that was made at several sizes has
// other numbers at each (the target of a Reshape, the end of a Slice); here they are said once for
// all, by dimensions of values that the program has anyway: S - 1, B * S, H / 2.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace emend {

// A dimension of a value, and how large it is in each of the programs.
struct SizedDimension {
  NodeId value;
  int64_t axis = 0;
  Dims sizes;
};

// (factor * product + inner) / divisor + more - less + offset, where the division rounds down.
struct SizeFormula {
  int64_t factor = 1, inner = 0, divisor = 1, offset = 0;
  std::vector<SizedDimension> product;
  std::optional<SizedDimension> more, less;

  bool is_dimension() const {
    return factor == 1 && inner == 0 && divisor == 1 && offset == 0 && product.size() == 1 &&
           !more && !less;
  }
};

// The simplest formula that gives these numbers; `near` are tried alone, in pairs and by threes,
// `far` only alone. A formula that leaves nothing to be compared with is none.
std::optional<SizeFormula> formula_of(const Dims& numbers, const std::vector<SizedDimension>& near,
                                      const std::vector<SizedDimension>& far);

}  // namespace emend
