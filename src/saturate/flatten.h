// Left sides of rules as what an e-graph is asked for: flat lists of atoms that share slots. What a
// pattern leaves open (an operator variable, how often a repeated part stands, the order of
// operands that commute) is decided here, once for every way that the e-graph at hand can meet: the
// operators it holds, with the numbers of operands they have there.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "rules/rule.h"

namespace emend {

// A left side without repetition or operator variables.
struct FlatPattern {
  // What stands for a class.
  struct Slot {
    int variable = -1;             // of the rule, or -1
    int repetition = -1;           // of a starred variable
    std::optional<double> number;  // a constant of this value
    bool operator==(const Slot&) const = default;
  };
  struct Atom {
    const Pattern* pattern = nullptr;  // lives in the rule
    int repetition = -1;               // of the repeated pattern around it
    OpId op;
    int result = 0;             // slot
    std::vector<int> operands;  // slots
    bool operator==(const Atom&) const = default;
  };
  std::vector<Slot> slots;
  std::vector<Atom> atoms;
  std::vector<int> roots;  // slots: one, or one per item of a tuple
  bool operator==(const FlatPattern&) const = default;
};

// Operators that occur, with the numbers of operands they occur with.
using Vocabulary = std::map<OpId, std::set<size_t>>;

// Every way the pattern can be met. Roots are the pattern itself, or the items of a tuple pattern;
// of a tuple of any number of items the pattern of one.
std::vector<FlatPattern> flatten(const Pattern& p, const Variables& variables,
                                 const Vocabulary& vocabulary);

}  // namespace emend
