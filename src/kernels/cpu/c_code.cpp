#include "kernels/cpu/c_code.h"

#include <cstdio>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

namespace emend {
namespace {

// Functions of printed scalar bodies, for integers and in vectorisable form for floats; the bounds
// on the error of the latter stand in tests/unit/c_code_test.cpp. Those that stand in loops over
// lanes are inlined whatever the length of the kernel: a call is one lane at a time.
constexpr const char* kPrelude = R"(
#include <math.h>
#include <stdint.h>
#include <string.h>
#define EM_INLINE static inline __attribute__((always_inline))
typedef union { float f; int32_t i; } em_bits;
EM_INLINE float em_bf16_load(uint16_t h) { em_bits b; b.i = (int32_t)((uint32_t)h << 16); return b.f; }
EM_INLINE uint16_t em_bf16_store(float x) {
  em_bits b; b.f = x;
  uint32_t u = (uint32_t)b.i;
  return x != x ? (uint16_t)((u >> 16) | 64) : (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
/* To integers: towards zero; what does not fit gives an end of the range, not a number 0. */
EM_INLINE int64_t em_to_i64(double x) {
  return x != x ? 0 : x >= 9223372036854775807.0 ? INT64_MAX : x <= -9223372036854775808.0 ? INT64_MIN : (int64_t)x;
}
EM_INLINE uint64_t em_to_u64(double x) {
  return x != x || x <= 0 ? 0 : x >= 18446744073709551615.0 ? UINT64_MAX : (uint64_t)x;
}
/* The least whole number that is not below a / b, b > 0. */
static inline int64_t em_ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
#define EM_INTEGER(T, S)                                                                       \
  static inline T div##S(T a, T b) { return b == 0 ? 0 : b == (T)-1 && (T)-1 < 0 ? (T)(0 - a) : a / b; } \
  static inline T fmod##S(T a, T b) { return b == 0 || (b == (T)-1 && (T)-1 < 0) ? 0 : a % b; } \
  static inline T fabs##S(T a) { return a < 0 ? (T)(0 - a) : a; }                              \
  static inline T shl##S(T a, T b) { return b < 0 || b > 63 ? 0 : (T)((uint64_t)a << b); }     \
  static inline T shr##S(T a, T b) { return b < 0 || b > 63 ? 0 : (T)((uint64_t)a >> b); }     \
  static inline T pow##S(T a, T b) {                                                           \
    if (b < 0) return a == 1 ? 1 : a != (T)-1 ? 0 : b & 1 ? a : 1;                             \
    T r = 1;                                                                                   \
    for (uint64_t e = (uint64_t)b; e; e >>= 1, a *= a) if (e & 1) r *= a;                      \
    return r;                                                                                  \
  }                                                                                            \
  static inline T floor##S(T a) { return a; }                                                  \
  static inline T ceil##S(T a) { return a; }                                                   \
  static inline T rint##S(T a) { return a; }                                                   \
  static inline T trunc##S(T a) { return a; }
EM_INTEGER(int64_t, _i)
EM_INTEGER(uint64_t, _u)
#define EM_REAL(F)                                                          \
  static inline int64_t F##_i(int64_t a) { return em_to_i64(F((double)a)); } \
  static inline uint64_t F##_u(uint64_t a) { return em_to_u64(F((double)a)); }
EM_REAL(sqrt) EM_REAL(exp) EM_REAL(log) EM_REAL(log1p) EM_REAL(sin) EM_REAL(cos) EM_REAL(tan)
EM_REAL(asin) EM_REAL(acos) EM_REAL(atan) EM_REAL(sinh) EM_REAL(cosh) EM_REAL(tanh)
EM_REAL(asinh) EM_REAL(acosh) EM_REAL(atanh) EM_REAL(erf)
#define EM_ORDER(T, S)                                                    \
  EM_INLINE T em_max##S(T a, T b) { return a > b || a != a ? a : b; } \
  EM_INLINE T em_min##S(T a, T b) { return a < b || a != a ? a : b; }
EM_ORDER(float, f)
EM_ORDER(double, )
EM_ORDER(int64_t, _i)
EM_ORDER(uint64_t, _u)
#pragma omp declare reduction(em_max : float : omp_out = em_maxf(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#pragma omp declare reduction(em_max : double : omp_out = em_max(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#pragma omp declare reduction(em_max : int64_t : omp_out = em_max_i(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#pragma omp declare reduction(em_max : uint64_t : omp_out = em_max_u(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#pragma omp declare reduction(em_min : float : omp_out = em_minf(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#pragma omp declare reduction(em_min : double : omp_out = em_min(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#pragma omp declare reduction(em_min : int64_t : omp_out = em_min_i(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#pragma omp declare reduction(em_min : uint64_t : omp_out = em_min_u(omp_out, omp_in)) initializer(omp_priv = omp_orig)
/* e^x = 2^n e^r, |r| <= ln 2 / 2: e^r by a polynomial of degree 7. n is rounded by adding a number whose last bit is 1;
   the sum's low bits are n. */
#define EM_ROUND 12582912.f
EM_INLINE float em_exp_parts(float x, em_bits* n) {
  n->f = fmaf(x, 1.44269504088896341f, EM_ROUND);
  float whole = n->f - EM_ROUND;
  float r = fmaf(whole, -0.693145751953125f, x);
  r = fmaf(whole, -1.42860677e-6f, r);
  float p = 1.989928465e-04f;
  p = fmaf(p, r, 1.393364732e-03f);
  p = fmaf(p, r, 8.333298470e-03f);
  p = fmaf(p, r, 4.166646496e-02f);
  p = fmaf(p, r, 1.666666672e-01f);
  p = fmaf(p, r, 5.000000013e-01f);
  return fmaf(p * r, r, r) + 1.f;
}
EM_INLINE float em_expf(float x) {
  em_bits n, a, b;
  float p = em_exp_parts(x, &n);
  /* two steps, so that denormal results come out right */
  int32_t k = n.i - 0x4b400000, h = k >> 1;
  a.i = (h << 23) + 0x3f800000;
  b.i = ((k - h) << 23) + 0x3f800000;
  float e = p * a.f * b.f;
  e = x > 88.72284f ? INFINITY : e;
  return x < -104.f ? 0.f : e;
}
/* e^x for |x| < 87. */
EM_INLINE float em_exp_mid(float x) {
  em_bits n, e;
  e.f = em_exp_parts(x, &n);
  e.i += n.i << 23;
  return e.f;
}
/* tanh by e^2x away from 0 and an odd polynomial near it. */
EM_INLINE float em_tanhf(float x) {
  float a = fabsf(x);
  float e = em_exp_mid(-2.f * (a > 20.f ? 20.f : a));
  float far = (1.f - e) / (1.f + e);
  float s = x * x;
  float p = -5.70498872745e-3f;
  p = fmaf(p, s, 2.06390887954e-2f);
  p = fmaf(p, s, -5.37397155531e-2f);
  p = fmaf(p, s, 1.33314422036e-1f);
  p = fmaf(p, s, -3.33332819422e-1f);
  float near = fmaf(p * s, a, a);
  return copysignf(a < 0.625f ? near : far, x);
}
/* log x for x > 0 by mantissa and exponent, a polynomial of degree 8 on [sqrt 1/2, sqrt 2]. */
EM_INLINE float em_logf(float x) {
  float scaled = x < 1.17549435e-38f ? x * 8388608.f : x;
  float shift = x < 1.17549435e-38f ? -23.f : 0.f;
  em_bits b;
  b.f = scaled;
  int32_t k = (b.i >> 23) - 126;
  b.i = (b.i & 0x7fffff) | 0x3f000000;
  float m = b.f;
  int32_t low = m < 0.707106781f;
  float n = (float)(k - low) + shift;
  m = (low ? m + m : m) - 1.f;
  float z = m * m;
  float p = 7.0376836292e-2f;
  p = fmaf(p, m, -1.1514610310e-1f);
  p = fmaf(p, m, 1.1676998740e-1f);
  p = fmaf(p, m, -1.2420140846e-1f);
  p = fmaf(p, m, 1.4249322787e-1f);
  p = fmaf(p, m, -1.6668057665e-1f);
  p = fmaf(p, m, 2.0000714765e-1f);
  p = fmaf(p, m, -2.4999993993e-1f);
  p = fmaf(p, m, 3.3333331174e-1f);
  float y = p * m * z;
  y = fmaf(n, -2.12194440e-4f, y);
  y = fmaf(z, -0.5f, y);
  float r = fmaf(n, 0.693359375f, m + y);
  r = x > 3.402823466e38f ? x : r;
  r = x == 0.f ? -INFINITY : r;
  return x < 0.f || x != x ? NAN : r;
}
/* erf: an odd polynomial below 0.92, beyond it 1 - e^(x p(x)) with p fitted to log(erfc x) / x. */
EM_INLINE float em_erff(float x) {
  float a = fabsf(x);
  float s = a * a;
  float q = 8.357102213e-05f;
  q = fmaf(q, s, -8.140137691e-04f);
  q = fmaf(q, s, 5.200860107e-03f);
  q = fmaf(q, s, -2.685935559e-02f);
  q = fmaf(q, s, 1.128369533e-01f);
  q = fmaf(q, s, -3.761263378e-01f);
  q = fmaf(q, s, 1.128379167e+00f);
  float near = q * a;
  float c = a > 4.f ? 4.f : a;
  float p = 9.194299114e-07f;
  p = fmaf(p, c, -3.216489724e-05f);
  p = fmaf(p, c, 4.826005559e-04f);
  p = fmaf(p, c, -4.240228913e-03f);
  p = fmaf(p, c, 2.499564977e-02f);
  p = fmaf(p, c, -1.076680000e-01f);
  p = fmaf(p, c, -6.342783138e-01f);
  p = fmaf(p, c, -1.128865854e+00f);
  float far = 1.f - em_exp_mid(p * c);
  return copysignf(a < 0.92f ? near : far, x);
}
#define expf em_expf
#define tanhf em_tanhf
#define logf em_logf
#define erff em_erff
)";

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
}

}  // namespace

std::string c_storage(DType t) {
  switch (t) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::f16:
      return "_Float16";
    case DType::bf16:
      return "uint16_t";
    case DType::boolean:
      return "uint8_t";
    default:
      break;
  }
  EMEND_ASSERT(is_integer(t) && info(t).bits >= 8, to_text(t));
  bool is_signed = info(t).kind == DTypeClass::signed_int;
  return str(is_signed ? "int" : "uint", info(t).bits, "_t");
}

std::string c_work(DType t) {
  return c_storage(t);
}

std::string c_converted(DType from, DType to, const std::string& value) {
  if (from == to) return value;
  if (is_float(from) && to == DType::i64) return str("em_to_i64(", value, ")");
  if (is_float(from) && to == DType::u64) return str("em_to_u64(", value, ")");
  return str("(", c_work(to), ")(", value, ")");
}

std::string c_load(DType stored, DType work, const std::string& element) {
  if (stored == work) return element;
  std::string value = stored == DType::bf16 ? str("em_bf16_load(", element, ")") : element;
  return str("(", c_work(work), ")", value);
}

std::string c_store(DType stored, DType work, const std::string& value) {
  if (stored == work) return value;
  if (stored == DType::bf16) return str("em_bf16_store((float)(", value, "))");
  if (stored == DType::boolean) return str("(uint8_t)((", value, ") != 0)");
  if (is_integer(stored) && is_float(work)) {
    bool big = stored == DType::u64;
    return str("(", c_storage(stored), ")", big ? "em_to_u64(" : "em_to_i64(", value, ")");
  }
  return str("(", c_storage(stored), ")(", value, ")");
}

std::string c_rounded(DType to, DType work, const std::string& value) {
  if (to == work) return value;
  return c_load(
      to, work,
      to == DType::bf16 ? c_store(to, work, value) : str("(", c_store(to, work, value), ")"));
}

std::string c_neutral(Reduce how, DType result, DType work) {
  bool most = how == Reduce::max;
  switch (how) {
    case Reduce::product:
      return "1";
    case Reduce::max:
    case Reduce::min:
      if (is_float(work)) return most ? "-INFINITY" : "INFINITY";
      if (result == DType::boolean) return most ? "0" : "1";
      if (info(result).kind == DTypeClass::unsigned_int)
        return most ? "0" : str("UINT", info(result).bits, "_MAX");
      return str("INT", info(result).bits, most ? "_MIN" : "_MAX");
    default:
      return "0";
  }
}

std::string c_combined(Reduce how, DType work, const std::string& a, const std::string& b) {
  std::string suffix = work == DType::f32   ? "f"
                       : work == DType::f64 ? ""
                       : work == DType::i64 ? "_i"
                                            : "_u";
  switch (how) {
    case Reduce::sum:
      return str(a, " + ", b);
    case Reduce::product:
      return str(a, " * ", b);
    case Reduce::max:
      return str("em_max", suffix, "(", a, ", ", b, ")");
    default:
      return str("em_min", suffix, "(", a, ", ", b, ")");
  }
}

const std::string& c_prelude() {
  static const std::string kText = kPrelude;
  return kText;
}

KernelCode named_kernel(std::string text, int64_t tasks) {
  char name[32];
  std::snprintf(name, sizeof name, "emend_%016llx",
                static_cast<unsigned long long>(hash_bytes(text.data(), text.size())));
  replace_all(text, "ENTRY", name);
  return {std::move(text), name, tasks, {}};
}

}  // namespace emend
