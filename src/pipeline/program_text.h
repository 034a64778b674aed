// Programs as text over a pool of constants, for what is kept of them between starts: the constants
// themselves stay where they are.
#pragma once

#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ops/fold.h"

namespace emend {

// The constants of a program and of the bodies in it; those with the same bytes have one place.
class ConstantPool {
 public:
  explicit ConstantPool(const Graph& g) { add(g); }

  const std::vector<Tensor>& constants() const { return constants_; }

  // Constants that are not in the pool yet (masks, say) are in it then.
  std::string text_of(const Graph& g);

 private:
  void add(const Graph& g);
  size_t added(const Tensor& one);
  std::optional<size_t> place_of(const Tensor& one) const;

  ConstantIndex index_;
  std::vector<Tensor> constants_;
  std::unordered_map<const std::byte*, std::vector<size_t>> places_;
};

}  // namespace emend
