// How the functions of functions.h read their arguments. Arguments of the wrong sort are a mistake
// in the rule's text, which its test finds.
#pragma once

#include <algorithm>

#include "rules/functions.h"

namespace emend {

using Facts = std::span<const Fact>;
using Answer = Result<AttrValue>;

const Operand& operand(const Fact& f);
const Operand& first_operand(const Fact& f);  // of a starred variable, too
const std::vector<Operand>& operands(const Fact& f);
const Dims& shape(const Fact& f);
const AttrValue& attr(const Fact& f);
const Dims& dims(const Fact& f);
int64_t integer(const Fact& f);
double number(const AttrValue& v);
inline size_t place(int64_t i) {
  return static_cast<size_t>(i);
}

template <class Test>
Answer every_operand(Facts a, const Test& test) {
  return AttrValue(std::all_of(a.begin(), a.end(), [&](const Fact& f) {
    auto* many = std::get_if<std::vector<Operand>>(&f);
    return many ? std::all_of(many->begin(), many->end(), test) : test(operand(f));
  }));
}

// The tables that functions.h joins.
std::vector<RuleFunction> value_functions();
std::vector<RuleFunction> shape_functions();
std::vector<RuleFunction> window_functions();
std::vector<RuleFunction> canvas_functions();
std::vector<RuleFunction> view_functions();
std::vector<RuleFunction> patch_functions();

}  // namespace emend
