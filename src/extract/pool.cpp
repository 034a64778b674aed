#include "extract/pool.h"

#include <algorithm>

namespace emend {

void SolutionPool::offer(double cost, std::vector<uint32_t> choice) {
  if (!wants(cost)) return;
  std::vector<uint32_t> key;
  if (apart_.empty()) {
    key = choice;
  } else {
    for (uint32_t c : apart_) key.push_back(choice[c]);
  }
  const auto like = std::ranges::find(items_, key, &Item::key);
  if (like != items_.end()) {
    if (like->cost <= cost) return;
    items_.erase(like);
  }
  items_.insert(std::ranges::upper_bound(items_, cost, {}, &Item::cost),
                {cost, std::move(choice), std::move(key)});
  if (items_.size() > size_) items_.pop_back();
}

}  // namespace emend
