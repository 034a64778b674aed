// The scalar body of a meaning as a sum of products of its reads, each where some comparisons of
// iterators hold: what is multi-linear can be composed (terms.h).
#pragma once

#include <vector>

#include "base/result.h"
#include "ops/condition.h"
#include "ops/exact.h"
#include "ops/scalar.h"

namespace emend {

struct Monomial {
  Mod61 coefficient{1};
  std::vector<int> reads;
  std::vector<int> divisors;     // reads that it is divided by
  std::vector<Condition> where;  // over the meaning's iterators
};
using Polynomial = std::vector<Monomial>;

Polynomial scaled(Polynomial p, Mod61 by);

// Fails, with the reason, where the body is none, or one of too many products.
Result<Polynomial> polynomial_of(const Scalar& body);

}  // namespace emend
