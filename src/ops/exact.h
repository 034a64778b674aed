// Numbers without rounding: elements of the prime field of 2^61 - 1 and overflow-checked integers.
// Both look like ordinary numbers to the templates of the evaluator; whatever has no exact meaning
// throws Inexact.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/evaluate.h"

namespace emend {

struct Mod61 {
  static constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
  uint64_t v = 0;  // reduced

  Mod61() = default;
  constexpr explicit Mod61(uint64_t reduced) : v(reduced) {}
  static Mod61 of(int64_t i) {
    auto magnitude = static_cast<uint64_t>(i < 0 ? -(i + 1) : i) + (i < 0 ? 1 : 0);
    Mod61 m(magnitude % kPrime);
    return i < 0 ? Mod61() - m : m;
  }
  // Every finite double is an integer times a power of two, hence an element of the field.
  static Mod61 of(double d) {
    if (!std::isfinite(d)) throw Inexact("a field has no infinity");
    int exponent;
    double mantissa = std::frexp(d, &exponent);
    Mod61 m = of(static_cast<int64_t>(std::ldexp(mantissa, 53)));
    exponent -= 53;
    // 2^61 = 1, so exponents count modulo 61.
    return m * Mod61(uint64_t{1} << (((exponent % 61) + 61) % 61));
  }
  friend Mod61 operator+(Mod61 a, Mod61 b) {
    uint64_t s = a.v + b.v;
    return Mod61(s >= kPrime ? s - kPrime : s);
  }
  friend Mod61 operator-(Mod61 a, Mod61 b) {
    return Mod61(a.v >= b.v ? a.v - b.v : a.v + kPrime - b.v);
  }
  friend Mod61 operator*(Mod61 a, Mod61 b) {
    auto p = static_cast<unsigned __int128>(a.v) * b.v;
    uint64_t s = static_cast<uint64_t>(p & kPrime) + static_cast<uint64_t>(p >> 61);
    return Mod61(s >= kPrime ? s - kPrime : s);
  }
  friend Mod61 operator/(Mod61 a, Mod61 b) {
    if (b.v == 0) throw Inexact("division by zero in the field");
    Mod61 inverse(1), base = b;
    for (uint64_t e = kPrime - 2; e; e >>= 1, base = base * base) {
      if (e & 1) inverse = inverse * base;
    }
    return a * inverse;
  }
  Mod61 operator-() const { return Mod61() - *this; }
  friend bool operator==(Mod61 a, Mod61 b) { return a.v == b.v; }
};

struct CheckedInt {
  int64_t v = 0;

  CheckedInt() = default;
  constexpr explicit CheckedInt(int64_t i) : v(i) {}
  static CheckedInt of(int64_t i) { return CheckedInt(i); }
  static CheckedInt of(double d) {
    if (d != std::floor(d) || std::abs(d) > 0x1p62) {
      // Borders of max-pooling: below everything that is computed.
      if (std::isinf(d)) return CheckedInt(d > 0 ? INT64_MAX / 4 : INT64_MIN / 4);
      throw Inexact("a constant is no integer");
    }
    return CheckedInt(static_cast<int64_t>(d));
  }
  friend CheckedInt operator+(CheckedInt a, CheckedInt b) {
    int64_t r;
    if (__builtin_add_overflow(a.v, b.v, &r)) throw Inexact("integer overflow");
    return CheckedInt(r);
  }
  friend CheckedInt operator-(CheckedInt a, CheckedInt b) {
    int64_t r;
    if (__builtin_sub_overflow(a.v, b.v, &r)) throw Inexact("integer overflow");
    return CheckedInt(r);
  }
  friend CheckedInt operator*(CheckedInt a, CheckedInt b) {
    int64_t r;
    if (__builtin_mul_overflow(a.v, b.v, &r)) throw Inexact("integer overflow");
    return CheckedInt(r);
  }
  friend CheckedInt operator/(CheckedInt a, CheckedInt b) {
    if (b.v == 0 || a.v % b.v != 0) throw Inexact("an integer division has a remainder");
    return CheckedInt(a.v / b.v);
  }
  CheckedInt operator-() const { return CheckedInt() - *this; }
  friend bool operator==(CheckedInt a, CheckedInt b) { return a.v == b.v; }
  friend bool operator<(CheckedInt a, CheckedInt b) { return a.v < b.v; }
  friend bool operator<=(CheckedInt a, CheckedInt b) { return a.v <= b.v; }
};

}  // namespace emend
