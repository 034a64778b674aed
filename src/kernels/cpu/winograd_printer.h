// The C text of Winograd's kernel.
#pragma once

#include "kernels/cpu/winograd_shape.h"

namespace emend {

// Along all dimensions, see winograd_transform.h.
double winograd_amplification(const WinogradSizes& s);
// Of random signs, see sum_bound.h.
double winograd_least_bound(const WinogradSizes& s);

KernelCode print_winograd(const Correlation& r, const Graph& group, const WinogradConfig& f,
                          const Target& target);

}  // namespace emend
