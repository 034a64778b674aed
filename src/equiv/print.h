// What a value looked like in one run: enough to find its twin in another program, not to prove
// anything.
#pragma once

#include <vector>

#include "ir/tensor.h"

namespace emend {

struct Print {
  bool seen = false;
  double largest = 0;           // of the samples
  std::vector<double> samples;  // elements here and there
  std::vector<double> sums,
      sizes;  // of all elements block by block, with random signs; of magnitudes
};

Print print_of(const Value& v);

// Within that much of the largest values.
bool alike(const Print& a, const Print& b, double within);

}  // namespace emend
