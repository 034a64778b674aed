// A group whose nucleus is one sum of products, seen as a contraction:
//
//   out = epilogue( sum over k of first[batch, m, k] * second[batch, n, k] )
//
// m, n, k and batch stand for any number of iterators of the group's nest. Factors are f32, bf16
// with sums in f32, or bytes less their zero points with sums in i32 (kernels/factor.h).
#pragma once

#include <optional>
#include <vector>

#include "kernels/cpu/work.h"
#include "kernels/factor.h"
#include "kernels/nest.h"
#include "ops/build.h"

namespace emend {

// How many blocks cover an extent.
inline int64_t blocks(int64_t extent, int64_t block) {
  return (extent + block - 1) / block;
}

enum class Product : uint8_t { f32, bf16, bytes };
// How many factors lie in the 32 bits of a lane.
int64_t factors_per_word(Product p);

struct Side {
  std::vector<int> iterators;  // in the order of the space
  int64_t extent = 1;
  Factor factor;
};

struct Contraction {
  Nest nest;
  int sum = -1;
  Product product = Product::f32;
  std::vector<int> batch, k;
  int64_t batches = 1, depth = 1;
  Side first, second;
  Work behind;  // what becomes of every sum
  const NestValue& load(const Side& s) const {
    return nest.values[static_cast<size_t>(s.factor.load)];
  }
  void measure();  // extents, from the iterators
};

int64_t extent_of(const Nest& nest, const std::vector<int>& iterators);
// The one reduction of a nest, if there is one.
std::optional<Contraction> contraction_in(const Result<Nest>& nest);
// A reduction of a nest that may have others: what they make of it is the caller's.
std::optional<Contraction> contraction_of(Nest nest, int sum);
// The same, of f32 only.
std::optional<Contraction> f32_contraction_in(const Result<Nest>& nest);

// For packing: input "x" of the builder, which is what the side loads, with these iterators as its
// dimensions. None if it is no array of theirs, perhaps padded with zeros and with dimensions that
// run backwards, or if the group loads it elsewhere, too.
std::optional<NodeId> arranged_operand(GraphBuilder& b, const Contraction& c, const Side& side,
                                       const Graph& group, const std::vector<int>& wanted);

}  // namespace emend
