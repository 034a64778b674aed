// Where do two multi-linear programs of the same inputs agree, for all values of these? The answer
// is a list of boxes that cover the output, over digits of its positions (ops/terms.h).
//
// Two ways to know, and each box says which:
//   terms   both programs as sums of products of their leaves: in a box in which no condition
//           changes, they agree if the sums hold the same products, each index the same linear form
//           of the position. A proof, for all values.
//   field   where a program has no such form: values at every position over the prime field.
// Never said of a position where they differ (docs/decisions/0032); said of all where they agree,
// but for sums of products that coincide only by the smallness of a box, or whose factors differ by
// a number that another factor makes up for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ops/terms.h"

namespace emend {

struct AgreementOptions {
  size_t max_boxes = 4096;
  size_t max_products = 1 << 18;  // of one box, per program
  double max_operations = 2e7;    // of the method `field`, which computes every position
  uint64_t seed = 1;
  bool only_everywhere = false;  // stop at the first box that differs: the others are left out
};

struct Agreement {
  struct Box {
    Dims low, high;  // digits d with low <= d < high
    bool agree = false;
  };
  Digits digits;
  std::vector<Box> boxes;  // disjoint; together all positions
  std::string method;      // "terms" or "field"

  bool everywhere() const;
  double share() const;  // of positions that agree
};

// Fails, with the reason, where neither way is open. One output each, of one type.
Result<Agreement> agreement(const Graph& a, const Graph& b, const AgreementOptions& options = {});

// Composites replaced by what they expand to, for they have no other meaning. One output.
Graph without_composites(const Graph& g);

// Positions of a box that exist: a digit may have values at the end that stand for none.
std::vector<Dims> positions_of(const Agreement& a, const Agreement::Box& box, size_t rank);

}  // namespace emend
