// HiGHS (https://highs.dev), which solves linear and integer programs. Emend is built with and
// without it: `make certify` brings it in.
#pragma once

#include "solve/model.h"

namespace emend {

// Empty where Emend was built without it.
Solver highs_solver();

}  // namespace emend
