// Which ids are equal. The smallest id of a set is its root, whatever the order of unions, so that
// names of classes are the same in every run, old ids (which many nodes refer to) stay put, and,
// since every parent is smaller than its child, one ascending sweep flattens everything.
#pragma once

#include <cstdint>

#include "egraph/column.h"

namespace emend {

class UnionFind {
 public:
  uint32_t push() {
    const auto id = static_cast<uint32_t>(parent_.size());
    parent_.push_back(id);
    return id;
  }
  // A new id that is equal to `root` from the start.
  void push_below(uint32_t root) { parent_.push_back(root); }
  size_t size() const { return parent_.size(); }
  size_t bytes() const { return parent_.bytes(); }

  // Halves the way to the root for those who come later.
  uint32_t find(uint32_t id) {
    uint32_t* parent = parent_.data();
    while (parent[id] != id) {
      parent[id] = parent[parent[id]];
      id = parent[id];
    }
    return id;
  }
  // The same without writing: safe from several threads.
  uint32_t find(uint32_t id) const {
    while (parent_[id] != id) id = parent_[id];
    return id;
  }
  void prefetch(uint32_t id) const { __builtin_prefetch(&parent_[id]); }
  bool is_root(uint32_t id) const { return parent_[id] == id; }
  // Two different roots; the smaller stays one.
  void unite_roots(uint32_t kept, uint32_t gone) { parent_[gone] = kept; }
  // Precondition: every smaller id was flattened before.
  uint32_t flatten(uint32_t id) { return parent_[id] = parent_[parent_[id]]; }

 private:
  Column<uint32_t> parent_;
};

}  // namespace emend
