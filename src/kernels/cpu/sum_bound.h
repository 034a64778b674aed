// Kernels that need fewer multiplications than plain sums add operands up before they multiply, so
// that their errors come from everything that stands in a block, wanted or not. Where magnitudes
// are very uneven, or an element that is multiplied by zero is huge, that is more than
//
//   error <= bound * largest sum over k of |x[k] w[k]| of the block
//
// allows. So they look at a block before they compute it, and compute it by plain sums, with the
// weights beside the others, unless
//
//   kCertain * 2^-24 * amplification * |x| * |w| <= bound * (sum over some k of |x[k] w[k]|)
//
// where |x| is the root of the sum of squares of all that the block's worst result is made of, |w|
// that of the transformed weights of a column (ColumnNorms, known ahead), the amplification what
// the algorithm's matrices can make of both (winograd_transform.h, strassen.h), and the right side
// one result's, a sample. Squares and products must be far from the ends of the range of floats
// besides; then nothing in between overflows, and what underflows is no part of it. Blocks of zeros
// are right in any case. Rounding errors count as independent; what they may add up to where they
// are not is what a plain sum of as many terms may lose, which the promise (docs/ir.md) adds.
// Why, and what it costs: docs/decisions/0038.
#pragma once

#include <cstdint>
#include <string>

namespace emend {

// How many times what roundings come to by their squares: the largest of a million is 5 times that,
// and products of random signs come to 0.4 of it.
constexpr double kCertain = 2;

// bound / (kCertain * 2^-24 * amplification): what |x| |w| may be of the sample.
double most_of_sample(double bound, double amplification);

// The bound from which on inputs as networks have them need no plain sums, if their |x| |w| is
// `usual` times their sum.
double least_bound(double usual, double amplification);

// How many of `terms` a sample has to have: the larger the bound is beside the least one, the
// fewer.
int64_t sampled_terms(int64_t terms, double least, double bound);

//   float ENTRY_squares(const float* x, int64_t count): the sum of them
//   void ENTRY_magnitudes(const float* x, int64_t count, int64_t step, const float* w, float*
//   sums):
//     adds the products' of every step-th x with its row of w, `panel` columns
//   int ENTRY_extreme(float squares): is a sum of squares near the ends of the range?
//   int ENTRY_exceeds(float squares, const float* norms, const float* sums): is a column not
//   certain?
// For registers of `width` floats, which em_v is.
std::string print_sum_bound(int64_t width, int64_t panel, double most);

}  // namespace emend
