#include "kernels/factor.h"

#include <algorithm>

namespace emend {
namespace {

bool is_byte(DType t) {
  return t == DType::u8 || t == DType::i8;
}

bool is_difference(const Scalar& s) {
  if (s.code.size() != 3 || s.code[2].fn != Fn::sub) return false;
  auto reads = [&](int32_t at, int32_t argument) {
    const Instr& i = s.code[static_cast<size_t>(at)];
    return i.fn == Fn::arg && i.a == argument;
  };
  return reads(s.code[2].a, 0) && reads(s.code[2].b, 1);
}

const NestValue& at(const Nest& nest, int v) {
  return nest.values[static_cast<size_t>(v)];
}

// What a mere change to a wider integer is made of.
int narrow(const Nest& nest, int v) {
  const NestValue& u = at(nest, v);
  bool widens = u.kind == NestValue::Kind::compute && u.dtype == DType::i32 && u.args.size() == 1 &&
                is_argument(u.body, 0) && is_byte(at(nest, u.args[0]).dtype);
  return widens ? u.args[0] : v;
}

std::optional<double> number(const NestValue& u) {
  bool plain = u.kind == NestValue::Kind::compute && u.args.empty() && u.body.code.size() == 1 &&
               u.body.code[0].fn == Fn::constant;
  return plain ? std::optional(u.body.code[0].value) : std::nullopt;
}

bool can_be_zero_point(const Nest& nest, int zero, DType of) {
  const NestValue& u = at(nest, zero);
  if (auto n = number(u)) return *n >= lowest(of) && *n <= highest(of);
  return u.kind == NestValue::Kind::load && u.dtype == of && u.bounds.empty();
}

// Without bounds of its own beyond those of its mask.
bool covered(const NestValue& load, const std::vector<Bound>& mask) {
  return std::ranges::all_of(
      load.bounds, [&](const Bound& b) { return std::ranges::find(mask, b) != mask.end(); });
}

std::optional<Factor> byte_factor(const Nest& nest, int value) {
  Factor f;
  const NestValue* u = &at(nest, value);
  bool masked = u->kind == NestValue::Kind::compute && !u->bounds.empty();
  if (masked) {
    if (u->outside != 0) return std::nullopt;
    f.bounds = u->bounds;
    value = u->args[0];
    u = &at(nest, value);
  }
  if (u->kind == NestValue::Kind::compute && u->dtype == DType::i32 && is_difference(u->body)) {
    value = u->args[0];
    f.zero = narrow(nest, u->args[1]);
  }
  f.load = narrow(nest, value);
  const NestValue& load = at(nest, f.load);
  if (load.kind != NestValue::Kind::load || !is_byte(load.dtype)) return std::nullopt;
  if (f.zero >= 0 && !can_be_zero_point(nest, f.zero, load.dtype)) return std::nullopt;
  if (f.zero >= 0 && number(at(nest, f.zero)) == 0.0) f.zero = -1;
  // What lies outside of memory without a mask is no zero point but a number.
  if (!masked && f.zero < 0) f.bounds = load.bounds;
  if (!covered(load, f.bounds)) return std::nullopt;
  return f;
}

}  // namespace

std::optional<Factor> factor_of(const Nest& nest, int value) {
  const NestValue& u = at(nest, value);
  if (u.kind == NestValue::Kind::load) return Factor{value, -1, u.bounds};
  return byte_factor(nest, value);
}

}  // namespace emend
