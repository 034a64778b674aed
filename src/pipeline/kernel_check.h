// Every kernel is checked where it runs before it may be used: sampled outputs (the corners of its
// space and places in between) recomputed in double precision from the very inputs it read. A
// verdict is kept beside the compiled kernel, so that a kernel is checked once on a machine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/plan.h"
#include "run/cpu.h"

namespace emend {

struct KernelFault {
  size_t step = 0;    // of the program
  double error = 0;   // relative to the largest sampled value
  std::string where;  // the store and the element
};

struct UncheckedKernel {
  size_t step = 0;
  std::string reason;
};

struct KernelChecks {
  int checked = 0, known = 0;  // now; earlier
  std::vector<KernelFault> faults;
  std::vector<UncheckedKernel> unchecked;  // there was nothing to compare with
};

// `accuracy` is the largest error accepted of f32 and wider, relative to the largest value;
// narrower floats are allowed their own rounding besides.
KernelChecks check_kernels(const Graph& g, const CpuProgram& program, std::span<const Value> inputs,
                           double accuracy);

}  // namespace emend
