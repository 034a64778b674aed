// Element types: all of ONNX's. Elements are stored as ONNX stores them (little endian; 4- and
// 2-bit types packed, low bits first), so that weights can be used from a mapped file. Rounding
// into a narrow float is to nearest, ties to even; what overflows becomes infinity, or NaN where
// the type has no infinity, unless saturation is asked for. docs/ir.md states the meaning of each
// type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace emend {

enum class DType : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f4e2m1,
  i64,
  i32,
  i16,
  i8,
  i4,
  i2,
  u64,
  u32,
  u16,
  u8,
  u4,
  u2,
  boolean,
  string,
  c64,
  c128,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::c128) + 1;

enum class DTypeClass : uint8_t { floating, signed_int, unsigned_int, boolean, string, complex };

struct DTypeInfo {
  std::string_view name;  // as printed: "f32", "bool"
  int onnx;               // TensorProto.DataType
  int bits;               // of one stored element; 0 for strings
  DTypeClass kind;
};

const DTypeInfo& info(DType t);
std::optional<DType> dtype_named(std::string_view name);
std::optional<DType> dtype_from_onnx(int code);
inline std::string_view to_text(DType t) {
  return info(t).name;
}

inline bool is_float(DType t) {
  return info(t).kind == DTypeClass::floating;
}
inline bool is_complex(DType t) {
  return info(t).kind == DTypeClass::complex;
}
inline bool is_integer(DType t) {
  return info(t).kind == DTypeClass::signed_int || info(t).kind == DTypeClass::unsigned_int;
}

// Bytes of `count` packed elements; nullopt on overflow or for strings.
std::optional<size_t> storage_bytes(DType t, uint64_t count);

// One element at a time. `load_real` and `store_real` serve every type that holds real numbers,
// `load_int`/`store_int` are exact for integers and bool (stores wrap, as C conversions do).
double load_real(DType t, const std::byte* data, size_t index);
int64_t load_int(DType t, const std::byte* data, size_t index);
void store_real(DType t, std::byte* data, size_t index, double value, bool saturate = false);
void store_int(DType t, std::byte* data, size_t index, int64_t value);

// The nearest value that `t` can hold.
double round_to(DType t, double value, bool saturate = false);
// Largest and smallest finite values.
double highest(DType t);
double lowest(DType t);

}  // namespace emend
