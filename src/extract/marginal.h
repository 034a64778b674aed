// What it would cost to build each class on top of a solution: nothing where it is active, else the
// cheapest term whose leaves are active classes. Kept up to date as the solution changes, touching
// only classes that a change reaches.
//
// Following the supports of inactive classes downwards never meets a cycle: a support is only
// replaced by a strictly cheaper one.
#pragma once

#include <queue>

#include "extract/solution.h"

namespace emend {

class Marginal {
 public:
  Marginal(const SearchGraph& graph, const Solution& solution);

  double value(uint32_t c) const { return value_[c]; }
  // The node by which an inactive class is built.
  uint32_t support(uint32_t c) const { return support_[c]; }

  // `changed`: classes that became active or inactive.
  void update(const Solution& solution, std::span<const uint32_t> changed);

 private:
  double sum(uint32_t n) const;
  void spread(const Solution& solution);

  using Entry = std::pair<double, uint32_t>;
  const SearchGraph* graph_;
  std::vector<double> value_;
  std::vector<uint32_t> support_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
  std::vector<uint32_t> lost_;  // scratch
};

}  // namespace emend
