// The transposed derivative of an operator that has a meaning in index
// notation: from the gradient of its result to the gradient of one operand.
// Where
//   out[v] = finish( reduce over r of body( x[L(v, r)], ... ) ),
// the gradient of x is, for every point (v, r) of the iteration space,
//   dx[L(v, r)] += grad[v] * finish' * (share of the point in the reduction) *
//   d body / d x[L(v, r)],
// so it needs no knowledge of the operator. A linear operator needs no value of
// x for it, a product only those of the other factors.
//
// Two operators compute it. `transposed` has a meaning itself: where L can be
// inverted, the gradient of a contraction is again one. `scattered` walks the
// iteration space and serves everything else.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/op_def.h"

namespace emend {

// Attributes of both. Operands: the gradient, then those operands of the
// original whose values matter, in their order.
struct Transposed {
  std::string op;                // the operator whose derivative it is,
  Attrs of;                      // its attributes
  int64_t operand = 0;           // and the operand by which
  Type types = Type::tuple({});  // of all operands of the original
  EMEND_FIELDS(op, of, operand, types)
};

// Which operands' values matter; nullopt where the derivative is zero
// everywhere.
std::optional<std::vector<int>> wanted_operands(const Transposed& t);
// The gradient in index notation, over the operands of `transposed`; nullopt
// where it is not known.
std::optional<Meaning> transposed_meaning(const Transposed& t);

// --- What the two share ---

// The original's meaning and the derivatives of its body by the reads of one
// operand.
struct DerivativeParts {
  Meaning m;
  struct Partial {
    size_t read;
    Scalar by;
  };
  std::vector<Partial> partials;
  Scalar finish_by;  // of arg(0), the reduced value
  // Whether the reduced value itself matters: it does not where the result is
  // linear in it and it is a sum.
  bool needs_value = false;
};
DerivativeParts derivative_parts(const Transposed& t);
Result<Type> transposed_infer(const Transposed& t, Types in);
OpDef scattered_op();

bool is_zero(const Scalar& s);  // everywhere
// A scalar function with its leaves (arguments, iterators) replaced.
Scalar with_leaves(const Scalar& s, const std::function<Scalar(const Instr&)>& leaf);
// Without the reads that the body does not mention (nor an index of one that it
// does): their operands may be absent.
void drop_unused_reads(Meaning& m);

}  // namespace emend
