// Attributes in general: an equation found at some strides, pads and axes is tried with others in
// their place, and speaks of a variable where it holds for all.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "synthesize/equation.h"

namespace emend {

// Attributes that operators are tried with.
using Alternatives = std::map<OpId, std::vector<Attrs>>;
Alternatives alternatives_of(const std::vector<std::string>& operations);

// Attributes that stand on both sides, as a variable: the whole record of an operator, or entries
// of one name and value, be it of several operators.
struct AttrVariable {
  int variable = -1;
  OpId op;            // whose record it is
  std::string entry;  // or which entry
  AttrValue own;      // as it was found
  std::vector<AttrValue> choices;
};

// Puts variables in the place of attributes, and says which.
std::vector<AttrVariable> generalise(Equation& e, const Alternatives& alternatives);
// Puts what was found back: the whole value of the variable, or one entry of its record.
void restrict_attribute(Equation& e, const AttrVariable& v, const std::string& entry);

}  // namespace emend
