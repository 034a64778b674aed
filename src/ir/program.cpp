#include "ir/program.h"

#include <algorithm>

namespace emend {

size_t scratch_bytes(const Program& p) {
  constexpr size_t kPage = 4096;
  size_t most = 0;
  for (const KernelCode& k : p.kernels) most = std::max(most, k.scratch_bytes);
  return (most + kPage - 1) / kPage * kPage;
}

}  // namespace emend
