// All terms over a menu, by number of operators, each evaluated on several assignments of sizes
// (illegal is a value). Of terms that agree wherever both are legal only the one of fewest
// operators is built upon, so that the bank grows by what is new and not by what can be written;
// every agreement is a candidate for an equation.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/progress.h"
#include "synthesize/equation.h"
#include "synthesize/menu.h"

namespace emend {

struct BankOptions {
  int different = 3, alike = 2, single = 1;  // assignments of each kind
  int64_t terms = 400000;                    // tried in all; then the bank stops growing
  uint64_t seed = 1;
};

struct Suggestion {
  Equation equation;
  SizeTable sizes;  // an assignment on which both sides are legal and equal
  int operators = 0;
};

class Bank {
 public:
  // The calculator must outlive it. Throws Error where the menu cannot be read.
  Bank(const Menu& menu, const BankOptions& options, Calculator& calculator);

  // Adds the terms of one more operator and says what they suggest; nothing once the menu is done.
  std::vector<Suggestion> grow(const Monitor& monitor);
  bool done() const { return full_ || operators_ >= menu_.operators; }
  // The menu's terms of so many operators have been tried; the limit did not cut them short.
  bool complete() const { return !full_; }

  int64_t tried() const { return tried_; }
  int64_t kept() const { return static_cast<int64_t>(terms_.size()); }

 private:
  struct Assignment {
    SizeTable sizes;
    bool different;
    std::vector<std::vector<std::pair<OpId, Attrs>>> steps;  // per operation, innermost first
  };
  struct Operation {
    Pattern pattern;
    int operands = 1;
    bool takes_filter = false;  // as its second operand; the result is none
    bool symmetric = false;     // learned: the operands may be swapped
  };
  struct Term {
    int input = -1, operation = -1;
    int args[2] = {-1, -1};
    int operators = 0, leaves = 1;
    bool filter = false, scalar = false;
    std::vector<Fingerprint> prints;                // per assignment
    std::vector<std::optional<ExactValue>> values;  // per assignment; none once nobody builds on it
  };

  void read_operations();
  void draw_assignments(const BankOptions& options);
  Assignment assignment(SizeTable sizes, bool different) const;
  std::optional<ExactValue> value_of(const Term& t, size_t assignment);
  void try_term(int operation, int first, int second, std::vector<Suggestion>& found);
  bool takes(const Operation& o, Term& t) const;
  bool evaluate(Term& t);
  std::vector<size_t> partners(const Term& t) const;
  void remember(size_t id);
  Pattern pattern_of(const Term& t) const;

  Menu menu_;
  int64_t limit_;
  Calculator& calculator_;
  std::vector<Input> inputs_;
  Variables variables_;
  std::vector<Operation> operations_;
  std::vector<Assignment> assignments_;
  std::vector<Term> terms_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> index_;  // by assignment and fingerprint
  int operators_ = 0;
  int64_t tried_ = 0;
  bool full_ = false;
};

}  // namespace emend
