#include "egraph/column.h"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <mutex>
#include <utility>
#include <vector>

namespace emend {
namespace {

// Small blocks are the allocator's, large ones are mappings of their own, and those between share
// mappings: touching memory for the first time is what a short run spends most of its time on, and
// in huge pages that costs a fraction.
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kShared = size_t{8} << 10;
constexpr size_t kMapped = 2 * kHugePage;

size_t rounded(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

// Addresses that begin with a huge page.
char* map_aligned(size_t bytes) {
  void* found = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<char*>(found);
  const size_t skip = (kHugePage - reinterpret_cast<size_t>(begin) % kHugePage) % kHugePage;
  if (skip) munmap(begin, skip);
  munmap(begin + skip + bytes, kHugePage - skip);
  return begin + skip;
}

// Four sizes between a power of two and the next.
size_t shared_size(size_t bytes) {
  return rounded(bytes, std::bit_floor(bytes) / 4);
}

// Blocks cut from shared mappings. What is given back is kept for others of the same size.
class SharedBlocks {
 public:
  void* take(size_t bytes) {
    const size_t size = shared_size(bytes);
    const std::lock_guard guard(lock_);
    auto& free = free_[place(size)];
    if (!free.empty()) {
      void* block = free.back();
      free.pop_back();
      return block;
    }
    if (size > left_) {
      next_ = map_aligned(kMapping);
      madvise(next_, kMapping, MADV_HUGEPAGE);
      left_ = kMapping;
    }
    left_ -= size;
    return std::exchange(next_, next_ + size);
  }
  void give(void* block, size_t bytes) {
    const std::lock_guard guard(lock_);
    free_[place(shared_size(bytes))].push_back(block);
  }

 private:
  static constexpr size_t kMapping = 4 * kMapped;
  static size_t place(size_t size) {
    const auto power = static_cast<size_t>(std::bit_width(size)) - 1;
    return power * 4 + (size >> (power - 2)) % 4;
  }
  std::mutex lock_;
  std::array<std::vector<void*>, 128> free_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

SharedBlocks& shared_blocks() {
  static SharedBlocks* blocks = new SharedBlocks;  // columns may outlive every static
  return *blocks;
}

void* take_block(size_t bytes) {
  if (bytes >= kMapped) {
    char* block = map_aligned(rounded(bytes, kHugePage));
    // Where there are no huge pages it still works.
    madvise(block, rounded(bytes, kHugePage), MADV_HUGEPAGE);
    return block;
  }
  if (bytes >= kShared) return shared_blocks().take(bytes);
  void* block = std::malloc(bytes);
  if (!block) throw std::bad_alloc();
  return block;
}

}  // namespace

void* grow_block(void* block, size_t bytes, size_t wanted) {
  if (wanted < kShared) {
    void* grown = std::realloc(block, wanted);
    if (!grown) throw std::bad_alloc();
    return grown;
  }
  void* grown = take_block(wanted);
  if (bytes < kMapped) {
    if (block) std::memcpy(grown, block, bytes);
    free_block(block, bytes);
    return grown;
  }
  // Moves the pages and not their contents, whole huge pages at a time.
  const size_t from = rounded(bytes, kHugePage), to = rounded(wanted, kHugePage);
  if (mremap(block, from, to, MREMAP_MAYMOVE | MREMAP_FIXED, grown) == MAP_FAILED) {
    munmap(grown, to);
    throw std::bad_alloc();
  }
  madvise(grown, to, MADV_HUGEPAGE);
  return grown;
}

void free_block(void* block, size_t bytes) {
  if (bytes >= kMapped) {
    munmap(block, rounded(bytes, kHugePage));
  } else if (bytes >= kShared) {
    shared_blocks().give(block, bytes);
  } else {
    std::free(block);
  }
}

}  // namespace emend
