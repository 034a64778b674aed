// What an operator costs inside a program, in seconds, for extraction (architecture's law of
// prices): a nucleus (a contraction, a window, a reduction, a composite around one) what its
// kernels take by themselves at best; elementwise operators and moves, which fuse into nuclei, the
// bytes they add; what depends on no input nothing, since it is computed ahead of time. Only fuse
// and select know the price of a whole program; these rank what they should look at.
#pragma once

#include <map>
#include <vector>

#include "kernels/kernel.h"

namespace emend {

// An operator at operands of these types; `weights` are those that depend on no input.
struct PricedNode {
  OpId op;
  Attrs attrs;
  std::vector<Type> operands;
  std::vector<bool> weights;
  Type result;
};

class NodePrices {
 public:
  NodePrices(const Catalogue& catalogue, const Target& target, double error)
      : catalogue_(catalogue), target_(target), error_(error) {}

  double operator()(const PricedNode& n);
  size_t asked() const { return known_.size(); }  // nuclei whose kernels were asked

 private:
  double nucleus(const PricedNode& n) const;

  const Catalogue& catalogue_;
  Target target_;
  double error_;  // kernels that lose more are not counted on
  std::map<uint64_t, double> known_;
};

}  // namespace emend
