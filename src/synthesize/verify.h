// Does an equation hold beyond the sizes it was found at, for which attributes, and under which
// condition? It is tried on fresh values over shapes that its menu does not have: other ranks,
// sizes of one that broadcast, sizes that agree or do not, other attributes in the place of its
// own. From the trials that pass and those that fail follows the condition: as few conjuncts as
// keep every failure out, and of these the ones that keep most of what passes, in the words of
// rules/functions.h. Then two rounds of fresh trials must all pass.
#pragma once

#include <string>

#include "synthesize/attributes.h"

namespace emend {

struct VerifyOptions {
  int trials = 300;                                   // legal ones, per round
  int draws = 6000;                                   // to find them
  int trials_per_choice = 4, draws_per_choice = 250;  // for each attribute that may be chosen
  int rounds = 8;     // of which the last two must not show anything new
  int passes = 8;     // that an equation needs, of different shapes
  int conjuncts = 3;  // of a condition, at most
  uint64_t seed = 1;
};

struct Verified {
  bool holds = false;
  Equation equation;           // with attribute variables and condition
  int passed = 0, failed = 0;  // trials before the condition was known
  std::string reason;          // why it does not hold
};

Verified verify(const Equation& e, const Alternatives& alternatives, const VerifyOptions& options,
                Calculator& calculator);

}  // namespace emend
