// Is a result as right as what came in? Both are run on random inputs of several scales, the result
// in its own dtypes against the input in double precision. A draw says something of an output only
// where the input, in its own dtypes, comes near what double precision says: what overflows there,
// underflows or is lost to rounding is drawn again, smaller and larger.
#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"
#include "ir/graph.h"
#include "pipeline/accuracy.h"

namespace emend {

struct ResultCheckOptions {
  double accuracy = 1e-4;  // largest error that is accepted, see Checked; 0: the same bits
  uint64_t seed = 1;
  double max_operations = kMaxCheckOperations;  // of all draws that are not needed for an answer
  Monitor monitor = {};
};

// Where the input's own rounding is worse than the accuracy asked for (half precision, or a choice
// that rounding tips), the result may be a few times as far off, or must agree with the input as it
// rounds; never by more than a quarter of the largest value. Where no scale of inputs gives the
// input itself a meaning, the result must have its very bits.
struct Checked {
  enum class Kind : uint8_t { passed, failed, not_run } kind = Kind::not_run;
  double max_rel_err = 0;  // relative to the largest value of the output
  std::string output;      // the worst one
  std::string reason;      // one sentence
};

Checked compare_results(const Graph& before, const Graph& after,
                        const ResultCheckOptions& options = {});
// Does one draw take no more arithmetic than may be spent?
bool can_be_compared(const Graph& before, const ResultCheckOptions& options);

}  // namespace emend
