// Numbers for proofs about programs with exp and order: a value is a pair of residues modulo primes
// q and p = 2q + 1. Rational arithmetic acts on both; exp(x) is g^(x mod q) in the field of p,
// where g has order q, so that exp(a + b) = exp(a) exp(b) holds exactly. Everything else (max, erf,
// comparisons ...) is an uninterpreted function: a keyed hash of its operands' residues modulo p.
//
// Two programs that agree on random Symbols are equal for every reading of the uninterpreted
// functions, up to a probability of about degree / 2^60. That they disagree proves nothing.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/hash.h"
#include "ops/evaluate.h"
#include "ops/exact.h"
#include "ops/scalar.h"

namespace emend {

// Residues modulo 2^kBits - kGap.
template <int kBits, uint64_t kGap>
struct Residue {
  static constexpr uint64_t kPrime = (uint64_t{1} << kBits) - kGap;
  uint64_t v = 0;

  static Residue reduce(unsigned __int128 x) {
    constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
    // 2^kBits = kGap, twice: 122 bits become 73 become 61.
    x = (x & kMask) + (x >> kBits) * kGap;
    auto r = static_cast<uint64_t>(x & kMask) + static_cast<uint64_t>(x >> kBits) * kGap;
    return {r >= kPrime ? r - kPrime : r};
  }
  friend Residue operator+(Residue a, Residue b) {
    uint64_t s = a.v + b.v;
    return {s >= kPrime ? s - kPrime : s};
  }
  friend Residue operator-(Residue a, Residue b) {
    return {a.v >= b.v ? a.v - b.v : a.v + kPrime - b.v};
  }
  friend Residue operator*(Residue a, Residue b) {
    return reduce(static_cast<unsigned __int128>(a.v) * b.v);
  }
  friend bool operator==(Residue a, Residue b) { return a.v == b.v; }
  static Residue power(Residue base, uint64_t e) {
    Residue r{1};
    for (; e; e >>= 1, base = base * base) {
      if (e & 1) r = r * base;
    }
    return r;
  }
  friend Residue operator/(Residue a, Residue b) {
    if (b.v == 0) throw Inexact("division by zero in a field");
    return a * power(b, kPrime - 2);
  }
  static Residue of(int64_t i) {
    auto magnitude = static_cast<uint64_t>(i < 0 ? -(i + 1) : i) + (i < 0 ? 1 : 0);
    Residue m{magnitude % kPrime};
    return i < 0 ? Residue{} - m : m;
  }
  static Residue of(double d) {
    int exponent;
    double mantissa = std::frexp(d, &exponent);
    Residue m = of(static_cast<int64_t>(std::ldexp(mantissa, 53)));
    exponent -= 53;
    constexpr Residue kTwo{2}, kHalf{(kPrime + 1) / 2};  // a division would cost sixty squarings
    if (exponent < 0) return m * power(kHalf, static_cast<uint64_t>(-exponent));
    return m * power(kTwo, static_cast<uint64_t>(exponent));
  }
};

struct Symbol {
  using Q = Residue<60, 1187>;  // q = 2^60 - 1187 and
  using P = Residue<61, 2373>;  // p = 2 q + 1 are both prime; 4 has order q modulo p
  Q q;
  P p;

  Symbol() = default;
  Symbol(Q a, P b) : q(a), p(b) {}
  static Symbol of(int64_t i) { return {Q::of(i), P::of(i)}; }
  static Symbol of(double d) {
    if (!std::isfinite(d))
      return hashed(0x1f, static_cast<uint64_t>(d > 0 ? 1 : d < 0 ? 2 : 3), 0, 0);
    return {Q::of(d), P::of(d)};
  }
  // The value of an uninterpreted function.
  static Symbol hashed(uint64_t key, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t h = hash_mix(hash_mix(hash_mix(hash_mix(0x5bd1e995, key), a), b), c);
    return {Q{hash_mix(h, 1) % Q::kPrime}, P{hash_mix(h, 2) % P::kPrime}};
  }
  bool is_zero() const { return p.v == 0; }
  bool is_one() const { return p.v == 1; }
  Symbol exponential() const {
    Symbol e;
    e.p = P::power(P{4}, q.v);
    // As an exponent of a further exp it is merely some value.
    e.q = hashed(static_cast<uint64_t>(Fn::exp), p.v, 0, 0).q;
    return e;
  }
  friend Symbol operator+(Symbol a, Symbol b) { return {a.q + b.q, a.p + b.p}; }
  friend Symbol operator-(Symbol a, Symbol b) { return {a.q - b.q, a.p - b.p}; }
  friend Symbol operator*(Symbol a, Symbol b) { return {a.q * b.q, a.p * b.p}; }
  friend Symbol operator/(Symbol a, Symbol b) { return {a.q / b.q, a.p / b.p}; }
  Symbol operator-() const { return Symbol() - *this; }
  friend bool operator==(Symbol a, Symbol b) { return a.p == b.p; }
};

// Functions that are no rational arithmetic.
inline Symbol uninterpreted(Fn fn, Symbol a, Symbol b = {}, Symbol c = {}) {
  auto key = static_cast<uint64_t>(fn) + 0x100;
  bool symmetric = fn == Fn::max || fn == Fn::min || fn == Fn::eq || fn == Fn::logical_and ||
                   fn == Fn::logical_or || fn == Fn::logical_xor;
  if (symmetric && b.p.v < a.p.v) std::swap(a, b);
  return Symbol::hashed(key, a.p.v, b.p.v, c.p.v);
}

// select(c, a, b): decided only where the condition is.
inline Symbol choose(const Symbol& c, const Symbol& a, const Symbol& b) {
  if (c.is_zero() || a == b) return b;
  if (c.is_one()) return a;
  return uninterpreted(Fn::select, c, a, b);
}

}  // namespace emend
