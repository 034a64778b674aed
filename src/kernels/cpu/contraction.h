// A group whose nucleus is one sum of products, seen as a contraction:
//
//   out = epilogue( sum over k of first[batch, m, k] * second[batch, n, k] )
//
// m, n, k and batch stand for any number of iterators of the group's nest.
#pragma once

#include <optional>
#include <vector>

#include "kernels/nest.h"
#include "ops/build.h"

namespace emend {

// How many blocks cover an extent.
inline int64_t blocks(int64_t extent, int64_t block) {
  return (extent + block - 1) / block;
}

struct Side {
  std::vector<int> iterators;  // in the order of the space
  int64_t extent = 1;
  int load = -1;  // the factor
};

struct Contraction {
  Nest nest;
  int sum = -1;
  std::vector<int> batch, k;
  int64_t batches = 1, depth = 1;
  Side first, second;
  const NestValue& load(const Side& s) const { return nest.values[static_cast<size_t>(s.load)]; }
  void measure();  // extents, from the iterators
};

int64_t extent_of(const Nest& nest, const std::vector<int>& iterators);
// The one reduction of a group.
std::optional<Contraction> contraction_in(const Graph& group);
// A reduction of a nest that may have others: what they make of it is the caller's.
std::optional<Contraction> contraction_of(Nest nest, int sum);

// For packing: input "x" of the builder, which is what the side loads, with these iterators as its
// dimensions. None if it is no array of theirs, perhaps padded with zeros and with dimensions that
// run backwards, or if the group loads it elsewhere, too.
std::optional<NodeId> arranged_operand(GraphBuilder& b, const Contraction& c, const Side& side,
                                       const Graph& group, const std::vector<int>& wanted);

}  // namespace emend
