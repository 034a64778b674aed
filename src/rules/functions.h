// The functions that attribute expressions and guards may call, in one table. A guard is a function
// that answers true or false. They see types, attributes and the values of constants: all that
// both a graph and an e-graph know, and nothing of users or neighbours.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"

namespace emend {

struct Operand {
  const Type* type;
  const Tensor* constant;  // null where the value is not known
  bool weight_only;        // depends on no input of the program; constants do not
};

// What a variable stands for: an attribute (all integers of a starred variable are one list), an
// operand, or the operands or attributes of a starred variable.
using Fact = std::variant<AttrValue, Operand, std::vector<Operand>, std::vector<AttrValue>>;

struct RuleFunction {
  std::string name;
  int min_args, max_args;  // max_args < 0: any number
  // A failure means that the rule does not apply.
  std::function<Result<AttrValue>(std::span<const Fact>)> call;
  std::string doc;
};

// Is this the place (row-major) of a one in an identity of that shape, a matrix or the filter that
// changes nothing: where the first two indices agree and the others are in the middle?
bool on_diagonal(const Dims& shape, int64_t flat);

const std::vector<RuleFunction>& all_functions();
const RuleFunction* find_function(std::string_view name);

// All that rules can find out about the values of a constant, as a number: of two constants of one
// type and one such number, every pattern and every function here says the same. Weights of
// millions of elements are not read for it, nor by the functions, beyond what tells; their scales
// are.
uint64_t seen_by_rules(const Tensor& t);

}  // namespace emend
