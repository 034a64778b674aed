#include "codegen/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace emend {
namespace {

size_t rounded(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

bool together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// In the smallest gap that has room, largest first.
MemoryPlan best_fit(std::span<const Lifetime> buffers, const std::vector<size_t>& order) {
  MemoryPlan plan;
  plan.offsets.resize(buffers.size());
  std::vector<size_t> placed;
  for (size_t b : order) {
    std::vector<std::pair<size_t, size_t>> taken;  // [begin, end) alive together with b
    for (size_t other : placed) {
      if (!together(buffers[other], buffers[b])) continue;
      taken.emplace_back(plan.offsets[other], plan.offsets[other] + rounded(buffers[other].bytes));
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
  return plan;
}

// Buffers that share memory share its middle.
MemoryPlan in_lanes(std::span<const Lifetime> buffers, const std::vector<size_t>& order) {
  struct Lane {
    size_t size = 0;
    std::vector<size_t> held;
  };
  std::vector<Lane> lanes;
  for (size_t b : order) {
    auto lane = std::ranges::find_if(lanes, [&](const Lane& l) {
      return std::ranges::none_of(
          l.held, [&](size_t other) { return together(buffers[other], buffers[b]); });
    });
    if (lane == lanes.end()) lane = lanes.insert(lane, {rounded(buffers[b].bytes), {}});
    lane->held.push_back(b);
  }
  MemoryPlan plan;
  plan.offsets.resize(buffers.size());
  for (const Lane& l : lanes) {
    for (size_t b : l.held) {
      size_t beside = (l.size - rounded(buffers[b].bytes)) / 2;
      plan.offsets[b] = plan.bytes + beside / kBufferAlignment * kBufferAlignment;
    }
    plan.bytes += l.size;
  }
  return plan;
}

size_t most_alive(std::span<const Lifetime> buffers) {
  size_t steps = 0;
  for (const Lifetime& l : buffers) steps = std::max(steps, l.last + 1);
  std::vector<size_t> begins(steps + 1), ends(steps + 1);
  for (const Lifetime& l : buffers) {
    begins[l.first] += rounded(l.bytes);
    ends[l.last + 1] += rounded(l.bytes);
  }
  size_t alive = 0, most = 0;
  for (size_t s = 0; s < steps; ++s) {
    alive = alive - ends[s] + begins[s];
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  MemoryPlan tight = best_fit(buffers, order), plan = in_lanes(buffers, order);
  constexpr size_t kAnyway = size_t{2} << 20;  // bytes more that nobody minds
  if (plan.bytes > tight.bytes + std::max(tight.bytes / 4, kAnyway)) plan = std::move(tight);
  plan.lower_bound = most_alive(buffers);
  return plan;
}

}  // namespace emend
