// Scalar programs run on blocks of elements, in any number type T: float, double, 64-bit integers,
// complex, and the exact numbers of exact.h. A function that T does not have throws Inexact.
#pragma once

#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "ops/exact.h"
#include "ops/scalar.h"
#include "ops/symbol.h"

namespace emend {

template <class T>
inline constexpr bool kIsExact =
    std::is_same_v<T, Mod61> || std::is_same_v<T, CheckedInt> || std::is_same_v<T, Symbol>;
template <class T>
inline constexpr bool kIsReal = std::is_floating_point_v<T>;
template <class T>
inline constexpr bool kIsInt = std::is_integral_v<T>;
template <class T>
inline constexpr bool kHasOrder = kIsReal<T> || kIsInt<T> || std::is_same_v<T, CheckedInt>;

// A constant of the program as a T. Infinities become the ends of an integer type.
template <class T>
T number(double d) {
  if constexpr (kIsExact<T>) {
    return T::of(d);
  } else if constexpr (kIsInt<T>) {
    if (std::isnan(d)) return 0;
    if (d >= static_cast<double>(std::numeric_limits<T>::max()))
      return std::numeric_limits<T>::max();
    if (d <= static_cast<double>(std::numeric_limits<T>::lowest())) {
      return std::numeric_limits<T>::lowest();
    }
    return static_cast<T>(d);
  } else {
    return static_cast<T>(d);
  }
}

template <class T>
bool is_true(const T& x) {
  return !(x == T());
}

template <class T>
T truth(bool b) {
  return b ? number<T>(1) : T();
}

// The value of select(c, a, b).
template <class T>
T choose(const T& c, const T& a, const T& b) {
  return is_true(c) ? a : b;
}

template <class T>
[[noreturn]] T no_such(Fn fn) {
  throw Inexact(str(info(fn).name, " has no exact value"));
}

template <class T>
T int_pow(T base, int64_t exponent) {
  T result = number<T>(1);
  for (; exponent; exponent >>= 1, base = base * base) {
    if (exponent & 1) result = result * base;
  }
  return result;
}

template <class T>
T power(T a, T b) {
  if constexpr (kIsReal<T> || std::is_same_v<T, std::complex<double>>) {
    return std::pow(a, b);
  } else if constexpr (kIsInt<T>) {
    if constexpr (std::is_signed_v<T>) {
      // 1 divided by a power, as quotient() divides.
      if (b < 0) return a == 1 ? 1 : a != -1 ? 0 : b % 2 ? a : T{1};
    }
    T result = 1;
    for (auto e = static_cast<uint64_t>(b); e; e >>= 1) {
      if (e & 1) result = static_cast<T>(static_cast<uint64_t>(result) * static_cast<uint64_t>(a));
      a = static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(a));
    }
    return result;
  } else if constexpr (std::is_same_v<T, Symbol>) {
    if (b.p.v <= 64) return int_pow(a, static_cast<int64_t>(b.p.v));
    return uninterpreted(Fn::pow, a, b);
  } else {
    auto exponent = static_cast<int64_t>(b.v);
    if (exponent < 0 || exponent > 64) return no_such<T>(Fn::pow);
    return int_pow(a, exponent);
  }
}

// Integer arithmetic wraps; what C leaves undefined (division by zero) gives 0.
template <class T>
T quotient(T a, T b) {
  if constexpr (kIsInt<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(0 - static_cast<uint64_t>(a));
    }
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
}

template <class T>
T remainder_of(Fn fn, T a, T b) {
  if constexpr (kIsReal<T>) {
    T r = std::fmod(a, b);
    if (fn == Fn::mod && r != 0 && (r < 0) != (b < 0)) r += b;
    return r;
  } else if constexpr (kIsInt<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
      T r = static_cast<T>(a % b);
      if (fn == Fn::mod && r != 0 && (r < 0) != (b < 0)) r = static_cast<T>(r + b);
      return r;
    } else {
      return static_cast<T>(a % b);
    }
  } else {
    return no_such<T>(fn);
  }
}

// The value of a function of one operand.
template <class T>
T apply(Fn fn, T x) {
  if constexpr (kIsInt<T>) {
    switch (fn) {
      case Fn::neg:
        return static_cast<T>(0 - static_cast<uint64_t>(x));
      case Fn::abs: {
        if constexpr (std::is_signed_v<T>) return x < 0 ? apply(Fn::neg, x) : x;
        return x;
      }
      case Fn::sign:
        return static_cast<T>((x > 0) - (x < 0));
      case Fn::floor:
      case Fn::ceil:
      case Fn::round:
      case Fn::trunc:
        return x;
      case Fn::is_nan:
      case Fn::is_inf:
        return 0;
      case Fn::logical_not:
        return x == 0;
      case Fn::bit_not:
        return static_cast<T>(~x);
      default:
        return number<T>(apply<double>(fn, static_cast<double>(x)));
    }
  } else if constexpr (kIsReal<T>) {
    switch (fn) {
      case Fn::neg:
        return -x;
      case Fn::abs:
        return std::abs(x);
      case Fn::sign:
        return x != x ? x : static_cast<T>((x > 0) - (x < 0));
      case Fn::floor:
        return std::floor(x);
      case Fn::ceil:
        return std::ceil(x);
      case Fn::round:
        return std::nearbyint(x);
      case Fn::trunc:
        return std::trunc(x);
      case Fn::sqrt:
        return std::sqrt(x);
      case Fn::exp:
        return std::exp(x);
      case Fn::log:
        return std::log(x);
      case Fn::log1p:
        return std::log1p(x);
      case Fn::sin:
        return std::sin(x);
      case Fn::cos:
        return std::cos(x);
      case Fn::tan:
        return std::tan(x);
      case Fn::asin:
        return std::asin(x);
      case Fn::acos:
        return std::acos(x);
      case Fn::atan:
        return std::atan(x);
      case Fn::sinh:
        return std::sinh(x);
      case Fn::cosh:
        return std::cosh(x);
      case Fn::tanh:
        return std::tanh(x);
      case Fn::asinh:
        return std::asinh(x);
      case Fn::acosh:
        return std::acosh(x);
      case Fn::atanh:
        return std::atanh(x);
      case Fn::erf:
        return std::erf(x);
      case Fn::is_nan:
        return truth<T>(std::isnan(x));
      case Fn::is_inf:
        return truth<T>(std::isinf(x));
      case Fn::logical_not:
        return truth<T>(x == 0);
      case Fn::bit_not:
        return static_cast<T>(~static_cast<int64_t>(x));
      default:
        return no_such<T>(fn);
    }
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    switch (fn) {
      case Fn::neg:
        return -x;
      case Fn::abs:
        return std::abs(x);
      case Fn::sqrt:
        return std::sqrt(x);
      case Fn::exp:
        return std::exp(x);
      case Fn::log:
        return std::log(x);
      default:
        return no_such<T>(fn);
    }
  } else if constexpr (std::is_same_v<T, Symbol>) {
    switch (fn) {
      case Fn::neg:
        return -x;
      case Fn::exp:
        return x.exponential();
      case Fn::logical_not:
        if (x.is_zero() || x.is_one()) return truth<T>(x.is_zero());
        return uninterpreted(fn, x);
      default:
        return uninterpreted(fn, x);
    }
  } else {
    switch (fn) {
      case Fn::neg:
        return -x;
      case Fn::logical_not:
        return truth<T>(!is_true(x));
      default:
        break;
    }
    if constexpr (kHasOrder<T>) {
      switch (fn) {
        case Fn::abs:
          return x < T() ? -x : x;
        case Fn::sign:
          return truth<T>(T() < x) - truth<T>(x < T());
        case Fn::floor:
        case Fn::ceil:
        case Fn::round:
        case Fn::trunc:
          return x;
        case Fn::is_nan:
        case Fn::is_inf:
          return T();
        default:
          break;
      }
    }
    return no_such<T>(fn);
  }
}

// The value of a function of two operands.
template <class T>
T apply(Fn fn, T a, T b) {
  switch (fn) {
    case Fn::add:
      if constexpr (kIsInt<T>)
        return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      else
        return a + b;
    case Fn::sub:
      if constexpr (kIsInt<T>)
        return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
      else
        return a - b;
    case Fn::mul:
      if constexpr (kIsInt<T>)
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      else
        return a * b;
    case Fn::div:
      return quotient(a, b);
    case Fn::pow:
      return power(a, b);
    default:
      break;
  }
  if constexpr (std::is_same_v<T, Symbol>) {
    bool known = (a.is_zero() || a.is_one()) && (b.is_zero() || b.is_one());
    bool logical = fn == Fn::logical_and || fn == Fn::logical_or || fn == Fn::logical_xor;
    if (fn == Fn::eq && a == b) return truth<T>(true);
    if ((fn == Fn::max || fn == Fn::min) && a == b) return a;
    if (!(known && logical)) return uninterpreted(fn, a, b);
  }
  switch (fn) {
    case Fn::eq:
      return truth<T>(a == b);
    case Fn::logical_and:
      return truth<T>(is_true(a) && is_true(b));
    case Fn::logical_or:
      return truth<T>(is_true(a) || is_true(b));
    case Fn::logical_xor:
      return truth<T>(is_true(a) != is_true(b));
    case Fn::mod:
    case Fn::fmod:
      return remainder_of(fn, a, b);
    default:
      break;
  }
  if constexpr (kHasOrder<T>) {
    switch (fn) {
      case Fn::lt:
        return truth<T>(a < b);
      case Fn::le:
        return truth<T>(a <= b);
      // A NaN on either side comes through. Two selections instead of one condition: the first is a
      // single instruction, the second is predicted.
      case Fn::min: {
        T least = a < b ? a : b;
        return a == a ? least : a;
      }
      case Fn::max: {
        T largest = b < a ? a : b;
        return a == a ? largest : a;
      }
      default:
        break;
    }
  }
  if constexpr (kIsInt<T> || kIsReal<T>) {
    auto x = static_cast<uint64_t>(static_cast<int64_t>(a)),
         y = static_cast<uint64_t>(static_cast<int64_t>(b));
    switch (fn) {
      case Fn::bit_and:
        return static_cast<T>(static_cast<int64_t>(x & y));
      case Fn::bit_or:
        return static_cast<T>(static_cast<int64_t>(x | y));
      case Fn::bit_xor:
        return static_cast<T>(static_cast<int64_t>(x ^ y));
      case Fn::shift_left:
        return y > 63 ? T() : static_cast<T>(x << y);
      case Fn::shift_right:
        return y > 63 ? T() : static_cast<T>(x >> y);
      default:
        break;
    }
  }
  return no_such<T>(fn);
}

// Runs a program over blocks of up to `kBlock` elements; owns its registers, one per thread.
template <class T>
class ScalarMachine {
 public:
  static constexpr size_t kBlock = 256;

  explicit ScalarMachine(const Scalar& s) : code_(s.code), registers_(s.code.size()) {
    for (size_t i = 0; i < code_.size(); ++i) {
      if (info(code_[i].fn).arity > 0 || code_[i].fn == Fn::constant) registers_[i].resize(kBlock);
      if (code_[i].fn == Fn::constant) {
        std::fill(registers_[i].begin(), registers_[i].end(), number<T>(code_[i].value));
      }
    }
  }

  // args[k] and iters[k] point at n elements each. The result stays valid until the next run.
  const T* run(size_t n, const T* const* args, const T* const* iters) {
    std::vector<const T*>& at = pointers_;
    at.resize(code_.size());
    for (size_t i = 0; i < code_.size(); ++i) {
      const Instr& in = code_[i];
      if (in.fn == Fn::arg) {
        at[i] = args[in.a];
      } else if (in.fn == Fn::iter) {
        at[i] = iters[in.a];
      } else {
        if (in.fn != Fn::constant) compute(in, n, at, registers_[i].data());
        at[i] = registers_[i].data();
      }
    }
    return at.back();
  }

 private:
  void compute(const Instr& in, size_t n, const std::vector<const T*>& at, T* out) {
    const T* a = at[static_cast<size_t>(in.a)];
    if (info(in.fn).arity == 1) {
      unary(in.fn, n, a, out);
    } else if (info(in.fn).arity == 2) {
      binary(in.fn, n, a, at[static_cast<size_t>(in.b)], out);
    } else {
      const T *b = at[static_cast<size_t>(in.b)], *c = at[static_cast<size_t>(in.c)];
      for (size_t i = 0; i < n; ++i) out[i] = choose(a[i], b[i], c[i]);
    }
  }
  // The commonest functions get a loop of their own, which the compiler vectorises.
  void unary(Fn fn, size_t n, const T* a, T* out) {
    if (fn == Fn::neg) {
      for (size_t i = 0; i < n; ++i) out[i] = apply(Fn::neg, a[i]);
    } else {
      for (size_t i = 0; i < n; ++i) out[i] = apply(fn, a[i]);
    }
  }
  void binary(Fn fn, size_t n, const T* a, const T* b, T* out) {
    switch (fn) {
      case Fn::add:
        for (size_t i = 0; i < n; ++i) out[i] = apply(Fn::add, a[i], b[i]);
        return;
      case Fn::sub:
        for (size_t i = 0; i < n; ++i) out[i] = apply(Fn::sub, a[i], b[i]);
        return;
      case Fn::mul:
        for (size_t i = 0; i < n; ++i) out[i] = apply(Fn::mul, a[i], b[i]);
        return;
      case Fn::max:
        for (size_t i = 0; i < n; ++i) out[i] = apply(Fn::max, a[i], b[i]);
        return;
      default:
        if constexpr (std::is_same_v<T, Mod61> || std::is_same_v<T, Symbol>) {
          if (fn == Fn::div) return quotients(n, a, b, out);
        }
        for (size_t i = 0; i < n; ++i) out[i] = apply(fn, a[i], b[i]);
    }
  }
  // In a field an inverse costs sixty products or more: all are had from that of their product.
  static void quotients(size_t n, const T* a, const T* b, T* out) {
    if (n == 0) return;
    out[0] = b[0];
    for (size_t i = 1; i < n; ++i) out[i] = out[i - 1] * b[i];
    T inverse = number<T>(1) / out[n - 1];
    for (size_t i = n - 1; i > 0; --i) {
      out[i] = a[i] * inverse * out[i - 1];
      inverse = inverse * b[i];
    }
    out[0] = a[0] * inverse;
  }

  std::vector<Instr> code_;
  std::vector<std::vector<T>> registers_;
  std::vector<const T*> pointers_;
};

}  // namespace emend
