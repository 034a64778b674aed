// The CPU's own kernels, one file each.
#pragma once

#include "kernels/kernel.h"

namespace emend {

Kernel rows_kernel();
// Are its tasks in the order of the nest's space?
bool rows_follow_space(const Nest& nest, const Target& target);
Kernel turn_kernel();
Kernel move_kernel();
Kernel contract_kernel();
Kernel attention_kernel();
Kernel scan_kernel();
Kernel scatter_kernel();
Kernel recurrent_kernel();
Kernel winograd_kernel();
Kernel direct_kernel();
Kernel stacked_kernel();
Kernel onednn_convolution_kernel();
Kernel onednn_matmul_kernel();

}  // namespace emend
