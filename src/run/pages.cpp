#include "run/pages.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/error.h"

namespace emend {

std::shared_ptr<std::byte> pages(size_t bytes, const char* what) {
  constexpr size_t kLargePage = size_t{2} << 20;
  // Below this, rounding up to large pages would take more than it gives.
  constexpr size_t kLarge = kLargePage;
  constexpr size_t kMargin = 4096;
  size_t room = bytes + 2 * kMargin + (bytes < kLarge ? 1 : kLargePage);
  void* start = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) {
    throw Error(str("no memory for ", bytes_text(static_cast<double>(bytes)), " of ", what));
  }
  std::shared_ptr<void> owner(start, [room](void* p) { ::munmap(p, room); });
  auto* first = static_cast<std::byte*>(start) + kMargin;
  if (bytes >= kLarge) {
    first += (kLargePage - reinterpret_cast<uintptr_t>(first) % kLargePage) % kLargePage;
    ::madvise(first, bytes, MADV_HUGEPAGE);  // a wish: without it the memory is as good
  }
  return {std::move(owner), first};
}

}  // namespace emend
