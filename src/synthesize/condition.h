// The condition under which an equation holds, from trials that pass and trials that fail: as few
// conjuncts as keep every failure out and no trial at the menu's own shapes, and of these the ones
// that keep most of what passes, in the words of rules/functions.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "synthesize/trials.h"

namespace emend {

// A conjunct: a guard, or an attribute that keeps the value it was found with.
struct Conjunct {
  AttrExpr guard;
  int attr = -1;     // which attribute variable
  std::string name;  // of the entry, if that is a record
};

bool is_true(const Conjunct& c, const Equation& e, const std::vector<AttrVariable>& attrs,
             const Trial& t);

// nullopt where no conjunction of so many keeps every failure out.
std::optional<std::vector<Conjunct>> find_condition(const Equation& e,
                                                    const std::vector<AttrVariable>& attrs,
                                                    const std::vector<Trial>& trials,
                                                    int conjuncts);

// The condition becomes part of the equation: guards, and attributes that are literal again.
void restrict_equation(Equation& e, const std::vector<AttrVariable>& attrs,
                       const std::vector<Conjunct>& condition);

}  // namespace emend
