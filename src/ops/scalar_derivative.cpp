// Programs of scalars rewritten: simplified, and derived.
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "ops/scalar.h"

namespace emend {
namespace {

// Arithmetic on constants during simplification; only what is the same in every arithmetic.
std::optional<double> folded(Fn fn, double a, double b) {
  switch (fn) {
    case Fn::neg:
      return -a;
    case Fn::add:
      return a + b;
    case Fn::sub:
      return a - b;
    case Fn::mul:
      return a * b;
    default:
      return std::nullopt;
  }
}

// Appends instructions to a program, sharing equal ones and dropping what arithmetic makes idle.
class Writer {
 public:
  int32_t constant(double v) { return emit({.fn = Fn::constant, .value = v}); }
  int32_t emit(Instr i) {
    if (auto simpler = simplify(i)) return *simpler;
    auto key = std::make_tuple(i.fn, i.a, i.b, i.c, std::signbit(i.value), i.value);
    if (auto it = seen_.find(key); it != seen_.end() && !std::isnan(i.value)) return it->second;
    code.push_back(i);
    return seen_[key] = static_cast<int32_t>(code.size() - 1);
  }
  int32_t emit(Fn fn, int32_t a, int32_t b = -1, int32_t c = -1) {
    return emit({.fn = fn, .a = a, .b = b, .c = c});
  }
  bool is(int32_t i, double v) const {
    const Instr& in = code[static_cast<size_t>(i)];
    return in.fn == Fn::constant && in.value == v;
  }
  std::vector<Instr> code;

 private:
  std::optional<int32_t> simplify(const Instr& i) {
    auto value = [&](int32_t at) -> std::optional<double> {
      if (at < 0 || info(i.fn).arity == 0) return std::nullopt;
      const Instr& in = code[static_cast<size_t>(at)];
      return in.fn == Fn::constant ? std::optional(in.value) : std::nullopt;
    };
    auto va = value(i.a), vb = value(i.b);
    if (info(i.fn).arity >= 1 && va && (info(i.fn).arity == 1 || vb)) {
      if (auto v = folded(i.fn, *va, vb.value_or(0))) return constant(*v);
    }
    switch (i.fn) {
      case Fn::add:
        if (va == 0.0) return i.b;
        if (vb == 0.0) return i.a;
        break;
      case Fn::sub:
        if (vb == 0.0) return i.a;
        if (va == 0.0) return emit(Fn::neg, i.b);
        break;
      case Fn::mul:
        if (va == 1.0) return i.b;
        if (vb == 1.0) return i.a;
        break;
      case Fn::div:
        if (vb == 1.0) return i.a;
        break;
      case Fn::select:
        if (i.b == i.c) return i.b;
        break;
      default:
        break;
    }
    return std::nullopt;
  }
  std::map<std::tuple<Fn, int32_t, int32_t, int32_t, bool, double>, int32_t> seen_;
};

// Only what the result needs, in order.
std::vector<Instr> live(const std::vector<Instr>& code, int32_t result) {
  std::vector<int32_t> renamed(code.size(), -1);
  std::vector<bool> needed(code.size(), false);
  needed[static_cast<size_t>(result)] = true;
  for (size_t i = static_cast<size_t>(result) + 1; i-- > 0;) {
    if (!needed[i] || info(code[i].fn).arity == 0) continue;
    for (int32_t operand : {code[i].a, code[i].b, code[i].c}) {
      if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
    }
  }
  std::vector<Instr> kept;
  for (size_t i = 0; i <= static_cast<size_t>(result); ++i) {
    if (!needed[i]) continue;
    Instr in = code[i];
    if (info(in.fn).arity > 0) {
      for (int32_t* operand : {&in.a, &in.b, &in.c}) {
        if (*operand >= 0) *operand = renamed[static_cast<size_t>(*operand)];
      }
    }
    renamed[i] = static_cast<int32_t>(kept.size());
    kept.push_back(in);
  }
  return kept;
}

// Copies a program through a Writer; returns where each instruction went.
std::vector<int32_t> copy_into(Writer& w, const std::vector<Instr>& code) {
  std::vector<int32_t> at;
  for (Instr in : code) {
    if (info(in.fn).arity > 0) {
      for (int32_t* operand : {&in.a, &in.b, &in.c}) {
        if (*operand >= 0) *operand = at[static_cast<size_t>(*operand)];
      }
    }
    at.push_back(w.emit(in));
  }
  return at;
}

// The partial derivatives of one instruction times the tangents of its operands, summed. `self` is
// where the instruction's own value stands; da, db, dc are tangents (a constant 0 where none).
int32_t tangent(Writer& w, const Instr& in, int32_t self, int32_t da, int32_t db, int32_t dc) {
  int32_t a = in.a, b = in.b;
  auto zero = [&] { return w.constant(0); };
  auto mul = [&](int32_t x, int32_t y) {
    return w.is(x, 0) || w.is(y, 0) ? w.constant(0) : w.emit(Fn::mul, x, y);
  };
  auto over = [&](int32_t x, int32_t y) { return w.is(x, 0) ? x : w.emit(Fn::div, x, y); };
  auto sum = [&](int32_t x, int32_t y) { return w.emit(Fn::add, x, y); };
  auto square = [&](int32_t x) { return w.emit(Fn::mul, x, x); };
  auto one_plus = [&](int32_t x) { return sum(w.constant(1), x); };
  auto one_minus = [&](int32_t x) { return w.emit(Fn::sub, w.constant(1), x); };
  auto neg = [&](int32_t x) { return w.emit(Fn::neg, x); };
  auto fn = [&](Fn f, int32_t x) { return w.emit(f, x); };
  switch (in.fn) {
    case Fn::neg:
      return neg(da);
    case Fn::abs:
      return mul(da, fn(Fn::sign, a));
    case Fn::sqrt:
      return over(da, mul(w.constant(2), self));
    case Fn::exp:
      return mul(da, self);
    case Fn::log:
      return over(da, a);
    case Fn::log1p:
      return over(da, one_plus(a));
    case Fn::sin:
      return mul(da, fn(Fn::cos, a));
    case Fn::cos:
      return neg(mul(da, fn(Fn::sin, a)));
    case Fn::tan:
      return mul(da, one_plus(square(self)));
    case Fn::asin:
      return over(da, fn(Fn::sqrt, one_minus(square(a))));
    case Fn::acos:
      return neg(over(da, fn(Fn::sqrt, one_minus(square(a)))));
    case Fn::atan:
      return over(da, one_plus(square(a)));
    case Fn::sinh:
      return mul(da, fn(Fn::cosh, a));
    case Fn::cosh:
      return mul(da, fn(Fn::sinh, a));
    case Fn::tanh:
      return mul(da, one_minus(square(self)));
    case Fn::asinh:
      return over(da, fn(Fn::sqrt, one_plus(square(a))));
    case Fn::acosh:
      return over(da, fn(Fn::sqrt, w.emit(Fn::sub, square(a), w.constant(1))));
    case Fn::atanh:
      return over(da, one_minus(square(a)));
    case Fn::erf:  // 2/sqrt(pi) exp(-a^2)
      return mul(da, mul(w.constant(1.1283791670955126), fn(Fn::exp, neg(square(a)))));
    case Fn::add:
      return sum(da, db);
    case Fn::sub:
      return w.emit(Fn::sub, da, db);
    case Fn::mul:
      return sum(mul(da, b), mul(a, db));
    case Fn::div:
      return over(w.emit(Fn::sub, da, mul(self, db)), b);
    case Fn::mod:
      return w.emit(Fn::sub, da, mul(db, fn(Fn::floor, over(a, b))));
    case Fn::fmod:
      return w.emit(Fn::sub, da, mul(db, fn(Fn::trunc, over(a, b))));
    case Fn::pow: {
      int32_t by_base =
          w.is(da, 0) ? zero()
                      : mul(da, mul(b, w.emit(Fn::pow, a, w.emit(Fn::sub, b, w.constant(1)))));
      int32_t by_exponent = w.is(db, 0) ? zero() : mul(db, mul(self, fn(Fn::log, a)));
      return sum(by_base, by_exponent);
    }
    case Fn::min:
      return w.emit(Fn::select, w.emit(Fn::lt, a, b), da, db);
    case Fn::max:
      return w.emit(Fn::select, w.emit(Fn::lt, b, a), da, db);
    case Fn::select:
      return w.emit(Fn::select, a, db, dc);
    default:
      return zero();  // piecewise constant
  }
}

}  // namespace

Scalar simplified(const Scalar& s) {
  Writer w;
  auto at = copy_into(w, s.code);
  Scalar out;
  out.code = live(w.code, at.back());
  out.attrs = s.attrs;
  return out;
}

Scalar derivative(const Scalar& s, int index) {
  Writer w;
  auto at = copy_into(w, s.code);
  std::vector<int32_t> tangents;
  for (size_t i = 0; i < s.code.size(); ++i) {
    Instr in = s.code[i];
    if (info(in.fn).arity == 0) {
      bool varies = in.fn == Fn::arg && in.a == index;
      tangents.push_back(w.constant(varies ? 1 : 0));
      continue;
    }
    int32_t d[3] = {-1, -1, -1};
    int32_t* operands[] = {&in.a, &in.b, &in.c};
    for (int k = 0; k < 3; ++k) {
      if (*operands[k] < 0) continue;
      d[k] = tangents[static_cast<size_t>(*operands[k])];
      *operands[k] = at[static_cast<size_t>(*operands[k])];
    }
    tangents.push_back(tangent(w, in, at[i], d[0], d[1], d[2]));
  }
  Scalar out;
  out.code = live(w.code, tangents.back());
  out.attrs = s.attrs;
  return simplified(out);
}

}  // namespace emend
