// Shapes that a file declares for its outputs are compared with those they have at the sizes it was
// read at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/model.h"

namespace emend {

// A dimension of an output that is declared as a number and is another.
struct DeclaredOtherwise {
  size_t output = 0, dim = 0;
  int64_t said = 0, is = 0;
};

std::vector<DeclaredOtherwise> declared_otherwise(const Model& m);

}  // namespace emend
