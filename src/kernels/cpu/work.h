// The steps (costs.inc) that elementwise bodies take: functions are worth many additions, and those
// of the C library, which has no vectors, many more.
#pragma once

#include "kernels/cpu/costs.h"
#include "kernels/nest.h"

namespace emend {

// Instructions and loads of one vector, by kind; parts of one where several vectors share them.
struct Work {
  double plain = 0, divisions = 0, exps = 0, functions = 0, calls = 0, loads = 0;

  double steps(const Costs& c) const;
  void add(const NestValue& v, double times = 1);
};

// The work that is done with every sum: all values that stores need and the sum does not.
Work work_behind(const Nest& nest, int sum);

}  // namespace emend
