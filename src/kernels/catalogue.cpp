#include "base/error.h"
#include "kernels/cpu/cpu.h"

namespace emend {

const Catalogue& cpu_catalogue() {
  static const Catalogue kAll = {rows_kernel(),      turn_kernel(),     move_kernel(),
                                 contract_kernel(),  winograd_kernel(), direct_kernel(),
                                 stacked_kernel(),   scan_kernel(),     scatter_kernel(),
                                 attention_kernel(), recurrent_kernel()};
  return kAll;
}

Catalogue onednn_catalogue() {
  return {onednn_convolution_kernel(), onednn_matmul_kernel()};
}

const Kernel& kernel_named(const Catalogue& catalogue, const std::string& name) {
  for (const Kernel& k : catalogue) {
    if (k.name == name) return k;
  }
  throw InternalError("no kernel " + name);
}

}  // namespace emend
