// Tensors as the evaluator sees them: elements of any storage type read and written as one number
// type T, one at a time or in runs.
#pragma once

#include <complex>
#include <cstring>

#include "ir/tensor.h"
#include "ops/scalar_eval.h"

namespace emend {

// An operand or result as the evaluator sees it.
struct Stored {
  DType dtype;   // as stored
  bool encoded;  // holds exact numbers in raw form (a float of the program, arithmetic exact)
  Dims shape, strides;
  const std::byte* data;
};

template <class T>
T load_as(const Stored& s, size_t at) {
  if constexpr (std::is_same_v<T, Mod61>) {
    if (s.encoded) return Mod61(static_cast<uint64_t>(load_int(DType::u64, s.data, at)));
    return Mod61::of(load_int(s.dtype, s.data, at));
  } else if constexpr (std::is_same_v<T, Symbol>) {
    if (!s.encoded) return Symbol::of(load_int(s.dtype, s.data, at));
    Symbol v;
    std::memcpy(&v, s.data + at * sizeof(Symbol), sizeof(Symbol));
    return v;
  } else if constexpr (std::is_same_v<T, CheckedInt>) {
    return CheckedInt(load_int(s.dtype, s.data, at));
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    if (s.dtype == DType::c64) {
      return {load_real(DType::f32, s.data, at * 2), load_real(DType::f32, s.data, at * 2 + 1)};
    }
    if (s.dtype == DType::c128) {
      return {load_real(DType::f64, s.data, at * 2), load_real(DType::f64, s.data, at * 2 + 1)};
    }
    return load_real(s.dtype, s.data, at);
  } else if constexpr (kIsReal<T>) {
    return static_cast<T>(load_real(s.dtype, s.data, at));
  } else {
    return static_cast<T>(load_int(s.dtype, s.data, at));
  }
}

template <class T>
void store_as(DType dtype, std::byte* data, size_t at, const T& v) {
  if constexpr (std::is_same_v<T, Symbol>) {
    if (dtype != DType::c128) throw Inexact("an integer depends on a real number");
    std::memcpy(data + at * sizeof(Symbol), &v, sizeof(Symbol));
  } else if constexpr (kIsExact<T>) {
    store_int(dtype, data, at, static_cast<int64_t>(v.v));
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    if (is_complex(dtype)) {
      DType part = dtype == DType::c64 ? DType::f32 : DType::f64;
      store_real(part, data, at * 2, v.real());
      store_real(part, data, at * 2 + 1, v.imag());
    } else {
      store_real(dtype, data, at, v.real());
    }
  } else if constexpr (kIsReal<T>) {
    store_real(dtype, data, at, v);
  } else {
    store_int(dtype, data, at, static_cast<int64_t>(v));
  }
}
// Calls use(load), where load(at) is element `at` as a T: the storage type is looked at once, not
// for every element.
template <class T, class Use>
void with_loader(const Stored& s, const Use& use) {
  auto plain = [&]<class S>(S) {
    use([data = s.data](int64_t at) {
      S v;
      std::memcpy(&v, data + static_cast<size_t>(at) * sizeof(S), sizeof(S));
      return static_cast<T>(v);
    });
  };
  if constexpr (kIsReal<T> || kIsInt<T>) {
    if (s.dtype == DType::f32 && kIsReal<T>) return plain(float{});
    if (s.dtype == DType::f64 && kIsReal<T>) return plain(double{});
    if (s.dtype == DType::i64) return plain(int64_t{});
    if (s.dtype == DType::i32) return plain(int32_t{});
    if (s.dtype == DType::u8) return plain(uint8_t{});
  }
  use([&s](int64_t at) { return load_as<T>(s, static_cast<size_t>(at)); });
}

// The storage type whose elements are T's own bytes.
template <class T>
constexpr std::optional<DType> own_dtype() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  return std::nullopt;
}

// Consecutive elements.
template <class T>
void store_run(DType dtype, std::byte* data, size_t first, size_t n, const T* values) {
  if (own_dtype<T>() == dtype) {
    std::memcpy(data + first * sizeof(T), values, n * sizeof(T));
    return;
  }
  for (size_t i = 0; i < n; ++i) store_as(dtype, data, first + i, values[i]);
}

}  // namespace emend
