// The K best solutions seen that differ in the picks of certain classes.
#pragma once

#include "extract/problem.h"

namespace emend {

class SolutionPool {
 public:
  // `apart`: the classes that count; none: all.
  SolutionPool(size_t size, std::vector<uint32_t> apart) : size_(size), apart_(std::move(apart)) {}

  // Would a solution of that cost be kept, unless its like is there already?
  bool wants(double cost) const { return items_.size() < size_ || cost < items_.back().cost; }
  void offer(double cost, std::vector<uint32_t> choice);

  struct Item {
    double cost;
    std::vector<uint32_t> choice, key;  // what tells it from others
  };
  // Cheapest first; among equals, the earlier.
  const std::vector<Item>& items() const { return items_; }

 private:
  size_t size_;
  std::vector<uint32_t> apart_;
  std::vector<Item> items_;
};

}  // namespace emend
