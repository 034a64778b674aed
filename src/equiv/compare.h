// Are two programs equal? Three answers, by the law of evidence: equal (with the method), different
// (with a witness), or unknown. Equal is said only of what was compared region by region; different
// only of what was seen to differ by more than rounding can explain; two equal programs are never
// called different.
//
// Both programs are swept from the inputs on. Nodes that are the same expression over equal nodes
// are equal. Others whose values coincide on random inputs are candidates; the region between a
// candidate pair and the nearest nodes already known equal is then compared with fresh values at
// the cut:
//   symbols   random residues, exp exact, other functions uninterpreted (ops/symbol.h)
//   integers  exact, for max, relu, pooling and comparisons
//   doubles   sums and products whose constants were folded: within the rounding of a constant,
//             each element by its own terms (equiv/rounding.h)
// Where integers could wrap, what holds without wrapping proves nothing (equiv/wrapping.h). What
// differs in a whole run counts where rounding does not explain it (equiv/explained.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "equiv/first_difference.h"
#include "ir/graph.h"

namespace emend {

// A difference that the user allows: |a - b| <= atol + rtol |b|, element by element.
struct AllowedDifference {
  double rtol = 0, atol = 0;
};

struct CompareOptions {
  uint64_t seed = 1;
  // With it nothing is proven: what is within it on random inputs counts as equal.
  std::optional<AllowedDifference> tolerance = {};
  double seconds = 0;                  // for proofs; 0: as long as they take
  bool where = false;                  // name the first node whose value differs
  double max_operations = 2e10;        // of a whole run in doubles; above it no witness is sought
  double max_region_operations = 4e8;  // of a region in exact arithmetic
  // Values of inputs, where random ones would not do (indices into tables ...); by position.
  std::vector<Tensor> inputs = {};
  Monitor monitor = {};
};

struct Verdict {
  enum class Kind : uint8_t { equal, different, unknown };
  Kind kind = Kind::unknown;
  // "same expression", "symbols", "integers", "doubles"; the weakest one used; or "tolerance"
  std::string method;
  std::string reason;                  // one sentence for people
  std::map<std::string, int> regions;  // how many regions each method settled
  // Of proofs by numbers, which know no infinity and no NaN.
  bool finite_only = false;
  bool out_of_time = false;              // the proof was not finished
  std::optional<FirstDifference> where;  // if asked for and not equal
  // The worst output of a whole run in double precision, where one was made; of a difference the
  // place that shows it best.
  struct Worst {
    std::string output;
    Dims position;
    // rel: to the largest magnitude of that output; of a difference: in the row or column
    double abs = 0, rel = 0;
    double a = 0, b = 0;
  } worst;
};

std::string_view to_text(Verdict::Kind k);

Verdict compare(const Graph& a, const Graph& b, const CompareOptions& options = {});

// The largest difference between two lists of outputs; integers, bools and strings count as wholly
// different when they differ. Shapes must agree.
Verdict::Worst worst_difference(const Graph& names, std::span<const Value> a,
                                std::span<const Value> b);

// Values that every operator can take: normal floats, zeros and ones; the same for equal seeds.
// Each input has a stream of its own.
Tensor random_tensor(const Type& type, uint64_t seed, uint64_t stream, double scale = 1);
std::vector<Value> random_inputs(const Graph& g, uint64_t seed, double scale = 1);

}  // namespace emend
