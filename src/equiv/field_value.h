// The value of one element of a program's output over the prime field, where each element of an
// input is a random number of its own: what it costs are the reads behind it and no more. Programs
// that differ at a position give equal values there with a chance of their degree in 2^61.
#pragma once

#include <cstdint>
#include <memory>

#include "ir/graph.h"
#include "ops/exact.h"

namespace emend {

// Throws Inexact where an operator has no meaning over a field.
Mod61 field_value(const Graph& g, const Dims& position, uint64_t seed);

// Values at several positions: what they share is computed once. Keeps a reference to the program.
class FieldReader {
 public:
  FieldReader(const Graph& g, uint64_t seed);
  ~FieldReader();
  Mod61 at(const Dims& position, size_t output = 0);

 private:
  struct Values;
  std::unique_ptr<Values> values_;
};

}  // namespace emend
