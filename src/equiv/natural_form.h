// Two programs of the same inputs, but for extents on which it cannot depend whether they are
// equal. Such an extent bounds one digit that both programs carry through unchanged, by itself on
// its axis, in no condition, and at most summed over: batch, channels, filters. Then both compute
// the same slice by slice whatever the extent (docs/decisions/0035), and pairs that have one form
// are equal or not together.
//
// The form is read off the operators' meanings (ops/meaning.h) and holds everything else about
// both programs; nothing is assumed of how they came about.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace emend {

struct NaturalForm {
  struct Key {
    uint64_t a = 0, b = 0;  // two hashes of the form
    auto operator<=>(const Key&) const = default;
  };
  Key any;    // of all pairs that differ in free extents only
  Key exact;  // of this pair
  // Per input, per dimension: which free extent it is, or -1; and of the output.
  std::vector<std::vector<int>> free;
  std::vector<int> free_out;
  Dims extents;  // of the free ones
};

// Fails, with the reason, where an operator has no meaning in index notation. Composites must be
// expanded. One output each.
Result<NaturalForm> natural_form(const Graph& a, const Graph& b);

}  // namespace emend
