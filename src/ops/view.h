// The operator `view` (ir/view.h says what a view is), and what is one without being called so:
// transposes, slices, borders of zeros, reshapes whose digits line up.
#pragma once

#include <optional>

#include "ir/view.h"
#include "ops/op_def.h"

namespace emend {

struct ViewMap {
  std::string map;  // the text form of the View
  EMEND_FIELDS(map)
};

// The view that an operator is to its only operand, if it is one that digits can say. Whatever else
// changes values (a border of ones, a reshape across digits) is none.
std::optional<View> as_view(const Meaning& m, const Dims& shape);

}  // namespace emend
