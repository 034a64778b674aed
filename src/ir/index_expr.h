// How an operand is indexed: sums of digits of linear forms in the iterators,
//   constant + sum of  coef * ((linear form) / div % mod),
// which covers affine maps, reshapes (mixed-radix digits) and strided windows; plus, for gathers,
// the value read from another operand.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/type.h"

namespace emend {

// constant + sum of coef * iterator
struct Linear {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;  // iterator, coefficient; sorted, no zeros
  bool operator==(const Linear&) const = default;
};

// coef * ((of / div) % mod); mod 0 means none. `of` is never negative where div or mod are used.
struct Digit {
  int64_t coef = 1;
  Linear of;
  int64_t div = 1, mod = 0;
  bool plain() const { return div == 1 && mod == 0; }
  bool operator==(const Digit&) const = default;
};

struct IndexExpr {
  Linear affine;              // everything that needs no division
  std::vector<Digit> digits;  // the rest
  int read = -1;              // if >= 0: plus the integer value of that read of the meaning,
  int64_t wrap = 0;           //   a negative one counted from the end of this extent

  bool is_affine() const { return digits.empty() && read < 0; }
  bool operator==(const IndexExpr&) const = default;
};

IndexExpr index_of(int iterator, int64_t coef = 1, int64_t constant = 0);
IndexExpr index_constant(int64_t value);
IndexExpr index_from_read(int read, int64_t extent);
IndexExpr operator+(const IndexExpr& a, const IndexExpr& b);
Linear operator+(const Linear& a, const Linear& b);
Linear operator*(const Linear& a, int64_t by);

// Indices into a tensor of shape `from` for the element that stands at the iterators' position in
// a tensor of shape `to` (iterators first_iterator, ...), both row-major with equal counts.
std::vector<IndexExpr> reshape_index(std::span<const int64_t> from, std::span<const int64_t> to,
                                     int first_iterator = 0);

// Value at a point. `reads` are the values of the reads so far.
int64_t evaluate(const Linear& e, const int64_t* iterators);
int64_t evaluate(const IndexExpr& e, const int64_t* iterators, const int64_t* reads);

// Smallest and largest value of a linear form when iterator k runs over [0, extents[k]).
std::pair<int64_t, int64_t> range(const Linear& e, std::span<const int64_t> extents);

std::string to_text(const IndexExpr& e);

}  // namespace emend
