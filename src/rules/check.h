// Is a rule true? Both sides are evaluated on random instances of the left side: at least eight
// assignments of shapes, of sizes that differ pairwise (TASO's rule for grouped convolutions passed
// its test because all its sizes were equal), and as many of sizes that mostly agree, so that wrong
// sides do not escape by having other types; over the prime field where the operators are rational
// functions, on exact integers where they are about order, in double precision otherwise. And over
// integers as programs have them, which overflow, where the rule applies to them.
//
// And would the test notice if it were not? Twins of the rule are made, each with one thing changed
// on the right (an operand swapped or exchanged, a number or attribute changed, an operator left
// out, a sign). The one of the other sign must be refuted, and so must every twin that has the
// right type wherever the rule applies; some others are true in special cases, as x is for a
// reshape. Where twins are true in general (zero with the other sign), the rule says how many.
#pragma once

#include <string>
#include <vector>

#include "rules/rule.h"

namespace emend {

struct RuleCheck {
  std::string name;
  bool holds = false;
  int assignments = 0;               // of pairwise different sizes on which both sides were equal
  std::vector<std::string> methods;  // field, integer, real64: those that were needed
  int twins = 0, refuted = 0;        // twins that have a type somewhere; those found to be wrong
  std::string reason;                // why it does not hold: the instance, or what was lacking
};

struct CheckOptions {
  int assignments = 8;
  int tries = 20000;  // draws that do not fit or that the guard refuses count
  uint64_t seed = 1;
};

RuleCheck check_rule(const Rule& rule, const CheckOptions& options = {});

}  // namespace emend
