// Forms: ways to write the same program that prices of single operators do not tell apart, since
// the difference lies in what a runtime makes of neighbours (what it fuses, where it changes
// layouts, which reshapes it puts in). Each is a list of rules, directed, that are used all over a
// program, whatever they add. Only the time of the whole says whether a form is better there.
#pragma once

#include <string>
#include <vector>

#include "rules/rule.h"

namespace emend {

struct Form {
  std::string name, why;
  std::vector<Rule> rules;
};

const std::vector<Form>& forms();

}  // namespace emend
