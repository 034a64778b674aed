#include "ir/program.h"

#include <algorithm>

namespace emend {

namespace {

size_t in_pages(size_t bytes) {
  constexpr size_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

size_t scratch_bytes(const Program& p) {
  size_t most = 0;
  for (const KernelCode& k : p.kernels) most = std::max(most, k.scratch_bytes);
  return in_pages(most);
}

size_t shared_bytes(const Program& p) {
  size_t most = 0;
  for (const KernelCode& k : p.kernels) most = std::max(most, k.shared_bytes);
  return in_pages(most);
}

}  // namespace emend
