#include "codegen/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace emend {

MemoryPlan plan_memory(std::span<const Lifetime> buffers) {
  auto rounded = [](size_t bytes) {
    return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  };
  MemoryPlan plan;
  plan.offsets.resize(buffers.size());
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<size_t> placed;
  for (size_t b : order) {
    std::vector<std::pair<size_t, size_t>> taken;  // [begin, end) alive together with b
    for (size_t other : placed) {
      bool together =
          buffers[other].first <= buffers[b].last && buffers[b].first <= buffers[other].last;
      if (together) {
        taken.emplace_back(plan.offsets[other],
                           plan.offsets[other] + rounded(buffers[other].bytes));
      }
    }
    std::sort(taken.begin(), taken.end());
    size_t size = rounded(buffers[b].bytes), best = SIZE_MAX, best_gap = SIZE_MAX, end = 0;
    for (auto [from, to] : taken) {
      if (from >= end + size && from - end < best_gap) {
        best = end;
        best_gap = from - end;
      }
      end = std::max(end, to);
    }
    if (best == SIZE_MAX) best = end;
    plan.offsets[b] = best;
    plan.bytes = std::max(plan.bytes, best + size);
    placed.push_back(b);
  }
  size_t steps = 0;
  for (const Lifetime& l : buffers) steps = std::max(steps, l.last + 1);
  std::vector<size_t> begins(steps + 1), ends(steps + 1);
  for (const Lifetime& l : buffers) {
    begins[l.first] += rounded(l.bytes);
    ends[l.last + 1] += rounded(l.bytes);
  }
  size_t alive = 0;
  for (size_t s = 0; s < steps; ++s) {
    alive = alive - ends[s] + begins[s];
    plan.lower_bound = std::max(plan.lower_bound, alive);
  }
  return plan;
}

}  // namespace emend
