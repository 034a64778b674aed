// The C text of Winograd's kernel.
#pragma once

#include "kernels/cpu/winograd_shape.h"

namespace emend {

KernelCode print_winograd(const Correlation& r, const Graph& group, const WinogradConfig& f,
                          const Target& target);

}  // namespace emend
