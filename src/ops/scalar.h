// Symbolic scalar functions: what an operator does to one element. A Scalar is a straight-line
// program (each instruction names earlier ones), so it is plain data, runs as it stands, and is
// differentiated and printed by one walk.
//
//   Scalar x = arg(0);
//   Scalar silu = x / (1 + exp(-x));
//   derivative(silu, 0);            // again a Scalar
//   c_text(silu, {"v"}, "float");   // statements of C; the last value is the result
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/attrs.h"

namespace emend {

// Primitive functions of one element. Over reals unless said otherwise; comparisons and logic give
// 0 or 1; max and min pass NaN on; round goes to even; mod has the divisor's sign, fmod the
// dividend's; integer division truncates; bit functions are for integers.
enum class Fn : uint8_t {
  constant,
  arg,
  iter,
  attr,
  neg,
  abs,
  sign,
  floor,
  ceil,
  round,
  trunc,
  sqrt,
  exp,
  log,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  is_nan,
  is_inf,
  logical_not,
  bit_not,
  add,
  sub,
  mul,
  div,
  mod,
  fmod,
  pow,
  min,
  max,
  lt,
  le,
  eq,
  logical_and,
  logical_or,
  logical_xor,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  select,
};
inline constexpr int kFnCount = static_cast<int>(Fn::select) + 1;

struct FnInfo {
  const char* name;
  int arity;
  const char* c;  // C text with $0 $1 $2 for operands; "~" before a name takes the type's suffix
  const char* c_integer = nullptr;  // where integers need another one
};
const FnInfo& info(Fn fn);

struct Instr {
  Fn fn;
  int32_t a = -1, b = -1, c = -1;  // operands: earlier instructions; for arg and iter: which one
  double value = 0;                // of a constant
  bool operator==(const Instr&) const = default;
};

struct Scalar {
  std::vector<Instr> code;         // the last instruction is the result
  std::vector<std::string> attrs;  // names of attributes, referred to by Instr::a of Fn::attr

  Scalar() = default;
  Scalar(double value);
  bool empty() const { return code.empty(); }
  bool operator==(const Scalar&) const = default;
};

Scalar arg(int index);                 // the operand of that position
Scalar iter(int index);                // the value of an iterator of the meaning
Scalar attr(const std::string& name);  // a number among the operator's attributes
Scalar call(Fn fn, const Scalar& a);
Scalar call(Fn fn, const Scalar& a, const Scalar& b);
Scalar call(Fn fn, const Scalar& a, const Scalar& b, const Scalar& c);

inline Scalar operator+(const Scalar& a, const Scalar& b) {
  return call(Fn::add, a, b);
}
inline Scalar operator-(const Scalar& a, const Scalar& b) {
  return call(Fn::sub, a, b);
}
inline Scalar operator*(const Scalar& a, const Scalar& b) {
  return call(Fn::mul, a, b);
}
inline Scalar operator/(const Scalar& a, const Scalar& b) {
  return call(Fn::div, a, b);
}
inline Scalar operator-(const Scalar& a) {
  return call(Fn::neg, a);
}
inline Scalar operator<(const Scalar& a, const Scalar& b) {
  return call(Fn::lt, a, b);
}
inline Scalar operator<=(const Scalar& a, const Scalar& b) {
  return call(Fn::le, a, b);
}
inline Scalar operator>(const Scalar& a, const Scalar& b) {
  return call(Fn::lt, b, a);
}
inline Scalar operator>=(const Scalar& a, const Scalar& b) {
  return call(Fn::le, b, a);
}
inline Scalar select(const Scalar& c, const Scalar& a, const Scalar& b) {
  return call(Fn::select, c, a, b);
}
inline Scalar max(const Scalar& a, const Scalar& b) {
  return call(Fn::max, a, b);
}
inline Scalar min(const Scalar& a, const Scalar& b) {
  return call(Fn::min, a, b);
}
inline Scalar exp(const Scalar& a) {
  return call(Fn::exp, a);
}
inline Scalar log(const Scalar& a) {
  return call(Fn::log, a);
}
inline Scalar log1p(const Scalar& a) {
  return call(Fn::log1p, a);
}
inline Scalar sqrt(const Scalar& a) {
  return call(Fn::sqrt, a);
}
inline Scalar tanh(const Scalar& a) {
  return call(Fn::tanh, a);
}
inline Scalar erf(const Scalar& a) {
  return call(Fn::erf, a);
}
inline Scalar abs(const Scalar& a) {
  return call(Fn::abs, a);
}
inline Scalar pow(const Scalar& a, const Scalar& b) {
  return call(Fn::pow, a, b);
}

// Attributes replaced by their values; integers and bools count as numbers.
Scalar bind(const Scalar& s, Attrs attrs);
// Equal instructions merged, arithmetic on constants done, dead code dropped.
Scalar simplified(const Scalar& s);
// d s / d arg(index), simplified. At kinks the derivative of one side (relu'(0) = 0).
Scalar derivative(const Scalar& s, int index);
// How many arithmetic operations one evaluation costs.
int operation_count(const Scalar& s);
bool is_argument(const Scalar& s, int index);  // the body that merely returns an operand
bool is_product(const Scalar& s);              // arg(0) * arg(1)
// Lines "T t1 = ...;" followed by the expression of the result. `type` is "float" or "double":
// then the same text is valid C and CUDA; or "int64_t" or "uint64_t": then functions with suffixes
// _i and _u must be there; or "int32_t", without functions. `prefix` names the temporaries.
struct CText {
  std::vector<std::string> statements;
  std::string result;
};
CText c_text(const Scalar& s, std::span<const std::string> args, std::span<const std::string> iters,
             const std::string& type, const std::string& prefix = "t");
std::string to_text(const Scalar& s);  // max(a0, 0.0), for documentation

}  // namespace emend
