// Two terms that may be equal: patterns over typed operands, with attribute expressions on either
// side and a condition. A Rule is one direction of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/rule.h"
#include "synthesize/inputs.h"

namespace emend {

struct Equation {
  std::vector<Input> operands;  // what variables 0 .. n-1 are
  Variables variables;          // the operands, then variables of attributes
  Pattern left, right;
  std::vector<AttrExpr> where;
};

// From patterns over the names of `inputs` and of their sizes. Sizes in attributes become
// dimensions of operands; nullopt where none that both sides have tells it.
std::optional<Equation> make_equation(const std::vector<Input>& inputs, Variables variables,
                                      Pattern left, Pattern right);
// Throws Error where the text is wrong.
Equation parse_equation(std::string_view inputs, std::string_view left, std::string_view right);

std::string to_text(const Equation& e);
int operator_count(const Pattern& p);

// One direction of it.
struct Directed {
  Rule rule;
  std::vector<Input::Content> contents = {};  // what the first variables must be; fewer: anything
  std::vector<std::pair<int, OpId>> operators = {};  // what operator variables stand for
  std::vector<int> repetitions = {};  // how often its repeated operands stand, in their order
};
// Left to right, or the other way. nullopt where that cannot be: the side to match is no operator,
// or lacks a variable.
std::optional<Directed> directed(const Equation& e, bool reversed, std::string name);
// Rules of a table as far as they speak of such terms: one root, operator variables for each of
// these operators, repeated operands twice, or up to twice where there are several.
std::vector<Directed> directed(const std::vector<Rule>& table, const std::vector<OpId>& operators);

}  // namespace emend
