// A multi-linear program in index notation, as one sum of products of its leaves:
//   out[v] = sum over terms, over r in the term's box where its conditions hold, of
//            coefficient * product over reads of leaf[index(v, r)]
// composed from the meanings of its operators. Every index is linear in the iterators: an iterator
// is split into digits where a division would appear, and where digits carry the term is split into
// cases, each with its condition.
//
// Positions v are digits, too: the output's dimensions as far as they had to be split.
#pragma once

#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ops/condition.h"
#include "ops/exact.h"

namespace emend {

// Output positions: dimension d is the sum of value * weight over its digits, the slowest first.
struct Digits {
  struct One {
    int dim = 0;
    int64_t extent = 1, weight = 1;
    bool operator==(const One&) const = default;
  };
  std::vector<One> all;
  std::vector<Condition> domain;  // of linear forms in digits; elsewhere there is no position
  Dims extents() const;
  Dims position(std::span<const int64_t> digits, size_t rank) const;
  bool operator==(const Digits&) const = default;
};
Digits digits_of(const Dims& shape);

struct LeafRead {
  int leaf = 0;  // see Leaves
  std::vector<Linear> index;
};

struct IndexTerm {
  Dims extents;  // of the output's digits, then of the reduced iterators
  std::vector<LeafRead> reads;
  std::vector<Condition> conditions;
  Mod61 coefficient{1};
};

// What factors name: inputs by their position, then constants; programs that share them can be
// compared.
struct Leaves {
  size_t inputs = 0;
  std::vector<Tensor> constants;
  int of_constant(const Tensor& value);
};

// The terms of a program with one output. `digits` are made finer where that is needed: the terms
// of another program that were made before must then be made again. Fails, with the reason, where
// the program is not multi-linear in its leaves or falls into too many cases.
Result<std::vector<IndexTerm>> terms_of(const Graph& g, Digits& digits, Leaves& leaves);

}  // namespace emend
