// The transposed derivative of an operator that has a meaning in index notation: from the gradient
// of its result to the gradient of one operand. Where
//   out[v] = finish( reduce over r of body( x[L(v, r)], ... ) ),
// the gradient of x is, for every point (v, r) of the iteration space,
//   dx[L(v, r)] += grad[v] * finish' * (share of the point in the reduction) * d body / d x[L(v,
//   r)],
// so it needs no knowledge of the operator. A linear operator needs no value of x for it, a product
// only those of the other factors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/op_def.h"

namespace emend {

// Attributes of the operator `transposed`. Its operands: the gradient, then those operands of the
// original whose values matter, in their order.
struct Transposed {
  std::string op;                // the operator whose derivative it is,
  Attrs of;                      // its attributes
  int64_t operand = 0;           // and the operand by which
  Type types = Type::tuple({});  // of all operands of the original
  EMEND_FIELDS(op, of, operand, types)
};

// Which operands' values matter; nullopt where the derivative is zero everywhere.
std::optional<std::vector<int>> wanted_operands(const Transposed& t);

// The scalar function that is zero everywhere.
bool is_zero(const Scalar& s);

}  // namespace emend
