// Places of intermediate buffers in one arena: lifetimes known, sizes known, so that buffers that
// are never alive together may share memory. Best fit, largest first; the peak cannot be below the
// most that is alive at one step, which is reported beside it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace emend {

struct Lifetime {
  size_t bytes = 0;
  size_t first = 0, last = 0;  // steps, both included
};

struct MemoryPlan {
  std::vector<size_t> offsets;
  size_t bytes = 0, lower_bound = 0;
};

inline constexpr size_t kBufferAlignment = 64;

MemoryPlan plan_memory(std::span<const Lifetime> buffers);

}  // namespace emend
