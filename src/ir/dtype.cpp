#include "ir/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace emend {
namespace {

// clang-format off
constexpr std::array<DTypeInfo, kDTypeCount> kInfo = {{
    {"f32",         1, 32, DTypeClass::floating},
    {"f64",        11, 64, DTypeClass::floating},
    {"f16",        10, 16, DTypeClass::floating},
    {"bf16",       16, 16, DTypeClass::floating},
    {"f8e4m3fn",   17,  8, DTypeClass::floating},
    {"f8e4m3fnuz", 18,  8, DTypeClass::floating},
    {"f8e5m2",     19,  8, DTypeClass::floating},
    {"f8e5m2fnuz", 20,  8, DTypeClass::floating},
    {"f8e8m0",     24,  8, DTypeClass::floating},
    {"f4e2m1",     23,  4, DTypeClass::floating},
    {"i64",         7, 64, DTypeClass::signed_int},
    {"i32",         6, 32, DTypeClass::signed_int},
    {"i16",         5, 16, DTypeClass::signed_int},
    {"i8",          3,  8, DTypeClass::signed_int},
    {"i4",         22,  4, DTypeClass::signed_int},
    {"i2",         26,  2, DTypeClass::signed_int},
    {"u64",        13, 64, DTypeClass::unsigned_int},
    {"u32",        12, 32, DTypeClass::unsigned_int},
    {"u16",         4, 16, DTypeClass::unsigned_int},
    {"u8",          2,  8, DTypeClass::unsigned_int},
    {"u4",         21,  4, DTypeClass::unsigned_int},
    {"u2",         25,  2, DTypeClass::unsigned_int},
    {"bool",        9,  8, DTypeClass::boolean},
    {"string",      8,  0, DTypeClass::string},
    {"c64",        14, 64, DTypeClass::complex},
    {"c128",       15, 128, DTypeClass::complex},
}};

// A binary float of at most 16 bits. `infinite`: the top exponent holds infinity and NaN, as in
// IEEE 754. Otherwise the top exponent holds numbers, and NaN is one code (`nan`); no infinity.
struct NarrowFloat {
  int exponent_bits, mantissa_bits, bias;
  bool infinite, has_sign;
  int nan;  // code of the canonical NaN, -1 if the type has none
};

constexpr NarrowFloat narrow(DType t) {
  switch (t) {
    case DType::f16:        return {5, 10,  15, true,  true, 0x7e00};
    case DType::bf16:       return {8,  7, 127, true,  true, 0x7fc0};
    case DType::f8e4m3fn:   return {4,  3,   7, false, true, 0x7f};
    case DType::f8e4m3fnuz: return {4,  3,   8, false, true, 0x80};
    case DType::f8e5m2:     return {5,  2,  15, true,  true, 0x7e};
    case DType::f8e5m2fnuz: return {5,  2,  16, false, true, 0x80};
    case DType::f8e8m0:     return {8,  0, 127, false, false, 0xff};
    case DType::f4e2m1:     return {2,  1,   1, false, true, -1};
    default:                return {0,  0,   0, false, false, -1};
  }
}
// clang-format on

bool is_unsigned_zero(DType t) {
  return t == DType::f8e4m3fnuz || t == DType::f8e5m2fnuz;
}

// The code of the largest finite value, sign bit clear.
int top_code(DType t) {
  NarrowFloat f = narrow(t);
  int all = (1 << (f.exponent_bits + f.mantissa_bits)) - 1;
  if (f.infinite) return ((1 << f.exponent_bits) - 1) * (1 << f.mantissa_bits) - 1;
  if (t == DType::f8e4m3fn || t == DType::f8e8m0) return all - 1;  // the last one is NaN
  return all;
}

double decode_narrow(DType t, int code) {
  NarrowFloat f = narrow(t);
  if (t == DType::f8e8m0) {
    if (code == f.nan) return std::numeric_limits<double>::quiet_NaN();
    return std::ldexp(1.0, code - f.bias);
  }
  int sign_at = f.exponent_bits + f.mantissa_bits;
  bool negative = (code >> sign_at) & 1;
  int magnitude = code & ((1 << sign_at) - 1);
  if (is_unsigned_zero(t) && code == f.nan) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude > top_code(t)) {
    bool inf = f.infinite && magnitude == top_code(t) + 1;
    double v =
        inf ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return negative ? -v : v;
  }
  int exponent = magnitude >> f.mantissa_bits;
  int mantissa = magnitude & ((1 << f.mantissa_bits) - 1);
  double v = exponent == 0 ? std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits)
                           : std::ldexp(mantissa + (1 << f.mantissa_bits),
                                        exponent - f.bias - f.mantissa_bits);
  return negative ? -v : v;
}

int encode_narrow(DType t, double v, bool saturate) {
  NarrowFloat f = narrow(t);
  int sign_at = f.exponent_bits + f.mantissa_bits;
  // A type without NaN shows it as minus zero, the one code that nothing else needs.
  if (std::isnan(v)) return f.nan >= 0 ? f.nan : 1 << sign_at;
  bool negative = std::signbit(v);
  int sign = f.has_sign && negative ? 1 << sign_at : 0;
  double a = std::abs(v);
  if (t == DType::f8e8m0) {  // powers of two only
    if (a == 0) return 0;
    if (std::isinf(a)) return saturate ? top_code(t) : f.nan;
    int e = static_cast<int>(std::lround(std::log2(a))) + f.bias;
    return e > top_code(t) ? (saturate ? top_code(t) : f.nan) : e < 0 ? 0 : e;
  }
  auto overflow = [&] {
    if (saturate || f.nan < 0) return sign | top_code(t);
    if (f.infinite) return sign | (top_code(t) + 1);
    return is_unsigned_zero(t) ? f.nan : sign | f.nan;
  };
  if (std::isinf(a)) return overflow();
  int magnitude = 0;
  if (a != 0) {
    int e;
    std::frexp(a, &e);  // a = m * 2^e, m in [0.5, 1)
    int exponent = std::max(e - 1 + f.bias, 1);
    // In units of the last place; nearbyint rounds ties to even.
    double units = std::nearbyint(std::ldexp(a, f.mantissa_bits + f.bias - exponent));
    double code = units + std::ldexp(exponent - 1, f.mantissa_bits);
    if (code > top_code(t)) return overflow();
    magnitude = static_cast<int>(code);
  }
  if (magnitude == 0 && is_unsigned_zero(t)) return 0;
  return sign | magnitude;
}

template <class T>
T load(const std::byte* data, size_t index) {
  T v;
  std::memcpy(&v, data + index * sizeof(T), sizeof(T));
  return v;
}

template <class T>
void store(std::byte* data, size_t index, T v) {
  std::memcpy(data + index * sizeof(T), &v, sizeof(T));
}

int load_bits(const std::byte* data, size_t index, int bits) {
  size_t per_byte = static_cast<size_t>(8 / bits);
  int byte = std::to_integer<int>(data[index / per_byte]);
  return (byte >> (static_cast<int>(index % per_byte) * bits)) & ((1 << bits) - 1);
}

void store_bits(std::byte* data, size_t index, int bits, int code) {
  size_t per_byte = static_cast<size_t>(8 / bits);
  int shift = static_cast<int>(index % per_byte) * bits;
  int mask = ((1 << bits) - 1) << shift;
  auto& byte = data[index / per_byte];
  byte = static_cast<std::byte>((std::to_integer<int>(byte) & ~mask) | ((code << shift) & mask));
}

// What static_cast leaves undefined is defined here: NaN becomes 0, and values outside int64 wrap
// to its ends.
int64_t to_int64(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (v < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(v);
}

}  // namespace

const DTypeInfo& info(DType t) {
  return kInfo[static_cast<size_t>(t)];
}

std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kInfo[static_cast<size_t>(i)].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_onnx(int code) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kInfo[static_cast<size_t>(i)].onnx == code) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<size_t> storage_bytes(DType t, uint64_t count) {
  uint64_t bits = static_cast<uint64_t>(info(t).bits);
  if (bits == 0 || count > std::numeric_limits<uint64_t>::max() / bits - 8) return std::nullopt;
  return static_cast<size_t>((count * bits + 7) / 8);
}

double load_real(DType t, const std::byte* data, size_t index) {
  switch (t) {
    case DType::f32:
      return load<float>(data, index);
    case DType::f64:
      return load<double>(data, index);
    case DType::f16:
    case DType::bf16:
      return decode_narrow(t, load<uint16_t>(data, index));
    case DType::f4e2m1:
      return decode_narrow(t, load_bits(data, index, 4));
    case DType::u64:
      return static_cast<double>(load<uint64_t>(data, index));
    default:
      break;
  }
  if (is_float(t)) return decode_narrow(t, load<uint8_t>(data, index));
  return static_cast<double>(load_int(t, data, index));
}

int64_t load_int(DType t, const std::byte* data, size_t index) {
  switch (t) {
    case DType::i64:
      return load<int64_t>(data, index);
    case DType::i32:
      return load<int32_t>(data, index);
    case DType::i16:
      return load<int16_t>(data, index);
    case DType::i8:
      return load<int8_t>(data, index);
    case DType::u64:
      return static_cast<int64_t>(load<uint64_t>(data, index));
    case DType::u32:
      return load<uint32_t>(data, index);
    case DType::u16:
      return load<uint16_t>(data, index);
    case DType::u8:
      return load<uint8_t>(data, index);
    case DType::boolean:
      return load<uint8_t>(data, index) != 0;
    case DType::u4:
      return load_bits(data, index, 4);
    case DType::u2:
      return load_bits(data, index, 2);
    case DType::i4:
      return (load_bits(data, index, 4) ^ 8) - 8;
    case DType::i2:
      return (load_bits(data, index, 2) ^ 2) - 2;
    default:
      break;
  }
  // Types come from files: that an operator wants a number of a string is not our mistake.
  if (!is_float(t)) throw Error(str("there is no number in a ", to_text(t)));
  return to_int64(load_real(t, data, index));
}

void store_real(DType t, std::byte* data, size_t index, double value, bool saturate) {
  switch (t) {
    case DType::f32:
      return store(data, index, static_cast<float>(value));
    case DType::f64:
      return store(data, index, value);
    case DType::f16:
    case DType::bf16:
      return store(data, index, static_cast<uint16_t>(encode_narrow(t, value, saturate)));
    case DType::f4e2m1:
      return store_bits(data, index, 4, encode_narrow(t, value, saturate));
    case DType::boolean:
      return store<uint8_t>(data, index, value != 0);
    case DType::u64:
      return store(data, index,
                   value >= 0x1p63 ? static_cast<uint64_t>(std::min(value, 0x1.fffffffffffffp63))
                                   : static_cast<uint64_t>(to_int64(value)));
    default:
      break;
  }
  if (is_float(t))
    return store(data, index, static_cast<uint8_t>(encode_narrow(t, value, saturate)));
  if (saturate) value = std::isnan(value) ? 0 : std::min(std::max(value, lowest(t)), highest(t));
  store_int(t, data, index, to_int64(value));
}

void store_int(DType t, std::byte* data, size_t index, int64_t value) {
  switch (info(t).bits) {
    case 64: {
      if (is_float(t)) return store_real(t, data, index, static_cast<double>(value));
      return store(data, index, value);
    }
    case 32: {
      if (is_float(t)) return store_real(t, data, index, static_cast<double>(value));
      return store(data, index, static_cast<int32_t>(value));
    }
    default:
      break;
  }
  if (is_float(t)) return store_real(t, data, index, static_cast<double>(value));
  switch (info(t).bits) {
    case 16:
      return store(data, index, static_cast<int16_t>(value));
    case 8:
      return store(data, index, static_cast<int8_t>(t == DType::boolean ? (value != 0) : value));
    case 4:
      return store_bits(data, index, 4, static_cast<int>(value & 15));
    case 2:
      return store_bits(data, index, 2, static_cast<int>(value & 3));
    default:
      throw Error(str("a ", to_text(t), " holds no number"));
  }
}

double round_to(DType t, double value, bool saturate) {
  if (t == DType::f64) return value;
  if (t == DType::f32) return static_cast<float>(value);
  std::byte storage[8] = {};
  store_real(t, storage, 0, value, saturate);
  return load_real(t, storage, 0);
}

double highest(DType t) {
  switch (t) {
    case DType::f32:
      return std::numeric_limits<float>::max();
    case DType::f64:
      return std::numeric_limits<double>::max();
    case DType::boolean:
      return 1;
    default:
      break;
  }
  if (is_float(t)) return decode_narrow(t, top_code(t));
  int bits = info(t).bits - (info(t).kind == DTypeClass::signed_int ? 1 : 0);
  return std::ldexp(1.0, bits) - 1;
}

double lowest(DType t) {
  if (t == DType::f8e8m0) return decode_narrow(t, 0);
  if (is_float(t)) return -highest(t);
  return info(t).kind == DTypeClass::signed_int ? -std::ldexp(1.0, info(t).bits - 1) : 0;
}

}  // namespace emend
