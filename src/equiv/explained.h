// Is a difference between two programs on the same inputs one of the programs, or of rounding? Both
// are run in double precision, again with every constant and input moved by a few roundings of its
// own type: what an element, or one of its row or column, moves by is noise there. A difference far
// above the noise is one. The largest value of a whole output says nothing: a channel may be small
// beside another.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "equiv/compare.h"
#include "ops/evaluate.h"

namespace emend {

// Where two lists of outputs differ, element by element, relative to what is allowed there.
struct Beyond {
  Verdict::Worst worst;  // rel: to the largest magnitude in its row or column
  double ratio = 0;      // difference by what is allowed
};

// For each element of a tensor: the largest of `values` among those that share a position with it
// along one axis; along the axis where that is least.
std::vector<double> largest_beside(const Dims& shape, std::span<const double> values);

class Explanation {
 public:
  // Runs a program on inputs; throws Error or Inexact where it cannot.
  using Run = std::function<std::vector<Value>(const Graph&, std::span<const Value>)>;

  Explanation(const Graph& a, const Graph& b, Run run) : a_(a), b_(b), run_(std::move(run)) {}

  // The element that is furthest beyond what rounding explains, nothing where all is explained. `x`
  // and `y` are the outputs of both on these inputs; `largest` is the largest value on the way, of
  // which a sum that cancels leaves some roundings of doubles.
  std::optional<Beyond> beyond(std::span<const Value> inputs, std::span<const Value> x,
                               std::span<const Value> y, double largest) const;

 private:
  const Graph &a_, &b_;
  Run run_;
};

// An output made of integers alone that differs for integers at the ends of their types, where sums
// and products wrap.
std::optional<Beyond> witness_among_integers(const Graph& a, const Graph& b, uint64_t seed);

// The element that is furthest beyond atol + rtol |b|.
std::optional<Beyond> beyond_tolerance(const Graph& names, std::span<const Value> x,
                                       std::span<const Value> y, double rtol, double atol);

}  // namespace emend
