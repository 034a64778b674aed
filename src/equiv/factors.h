// Terms of two programs as products of parts that share no iterator. What a window does along the
// rows and what it does along the columns is then compared one after the other, and not for every
// row with every column.
//
// A part belongs to dimensions of leaves and digits of the output that indices and conditions tie
// together, in both programs. A program is the product of two parts if each term of the one meets
// each term of the other, with the same coefficients: the sum of products is a product of sums.
#pragma once

#include <vector>

#include "ops/terms.h"

namespace emend {

// Two programs over the same leaves, at the same digits of their output.
struct TermPair {
  Digits digits;
  std::vector<IndexTerm> a, b;
};

struct TermFactor {
  std::vector<int> digits;  // which of the whole, in order
  TermPair terms;           // over these, then reduced iterators; reads name the part's dimensions
};

// At a position, the programs agree if all of their factors do. What does not fall apart is one
// factor. Every digit is in one of them.
std::vector<TermFactor> factors_of(const TermPair& whole);

}  // namespace emend
