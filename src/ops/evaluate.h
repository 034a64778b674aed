// The reference interpreter: one evaluator, derived from the operators' meanings, in several
// arithmetics. Slow and obvious, but not silly. Everything else in Emend is checked against it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "ir/graph.h"
#include "ops/op_def.h"

namespace emend {

// What floating-point tensors of the program hold while it is evaluated. Integers, bools and
// strings are themselves in every arithmetic.
enum class Arithmetic : uint8_t {
  own,      // their dtypes: f32 computes in float, narrower ones in double, rounded per operator
  real64,   // double precision throughout
  integer,  // exact 64-bit integers; overflow and division throw Inexact
  field,    // the prime field of 2^61 - 1; what is no rational function throws Inexact
  symbol,   // pairs of residues (symbol.h): exp is exact, other functions are uninterpreted
};

// Floats do not hold floats.
inline bool is_exact(Arithmetic a) {
  return a == Arithmetic::integer || a == Arithmetic::field || a == Arithmetic::symbol;
}

// Thrown when an operator has no meaning in the arithmetic asked for.
class Inexact : public std::exception {
 public:
  explicit Inexact(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

// How a tensor of declared type `t` is stored in an arithmetic: floats become f64, i64 or u64.
DType stored_dtype(Arithmetic a, DType t);

struct EvalContext {
  Arithmetic arithmetic = Arithmetic::own;
  const OpDef* def = nullptr;
  Attrs attrs;
  Types types;  // declared types of the operands
  Type type;    // declared type of the result
  // Which step of which loop this is, 0 outside: random numbers differ between the steps.
  uint64_t repetition = 0;
  // Where the result must be stored; equals type.dtype in the arithmetic `own`.
  DType result_dtype() const { return stored_dtype(arithmetic, type.dtype); }
};

// The repetition of a loop's step, inside the repetition that the loop itself is in.
uint64_t step_of(uint64_t repetition, int64_t step);

// One node. `values` hold operands as stored in the arithmetic.
Value evaluate_node(const EvalContext& context, std::span<const Value> values);
Tensor evaluate_meaning(const Meaning& m, Arithmetic a, Types types,
                        std::span<const Tensor> operands, DType declared_result, Dims result_shape);

struct EvalOptions {
  Arithmetic arithmetic = Arithmetic::own;
  uint64_t repetition = 0;  // see EvalContext
  // Hears of every node, as part of that phase.
  Monitor monitor = {};
  std::string_view phase = "run";
  // Sees every node's value before it may be freed (dumps, region-wise comparison).
  std::function<void(NodeId, const Value&)> observe = nullptr;
};

// Runs a program. Inputs are given as stored in the arithmetic (see `converted`).
std::vector<Value> evaluate(const Graph& g, std::span<const Value> inputs,
                            const EvalOptions& options = {});

// A tensor of the model as it is stored in an arithmetic, and back to a double for comparison.
Tensor converted(const Tensor& t, Arithmetic a);

}  // namespace emend
