#include "onnx/tensor_data.h"

#include <limits>

namespace emend::onnx {
namespace {

struct TypeRow {
  DataType type;
  const char* name;
  int bits;
  // The list that holds elements of this type when raw_data does not.
  enum class List { kNone, kFloat, kInt32, kInt64, kDouble, kUint64, kString } list;
};

// clang-format off
constexpr TypeRow kTypes[] = {
    {DataType::kUndefined,       "undefined",       0, TypeRow::List::kNone},
    {DataType::kFloat,           "float",          32, TypeRow::List::kFloat},
    {DataType::kUint8,           "uint8",           8, TypeRow::List::kInt32},
    {DataType::kInt8,            "int8",            8, TypeRow::List::kInt32},
    {DataType::kUint16,          "uint16",         16, TypeRow::List::kInt32},
    {DataType::kInt16,           "int16",          16, TypeRow::List::kInt32},
    {DataType::kInt32,           "int32",          32, TypeRow::List::kInt32},
    {DataType::kInt64,           "int64",          64, TypeRow::List::kInt64},
    {DataType::kString,          "string",          0, TypeRow::List::kString},
    {DataType::kBool,            "bool",            8, TypeRow::List::kInt32},
    {DataType::kFloat16,         "float16",        16, TypeRow::List::kInt32},
    {DataType::kDouble,          "double",         64, TypeRow::List::kDouble},
    {DataType::kUint32,          "uint32",         32, TypeRow::List::kUint64},
    {DataType::kUint64,          "uint64",         64, TypeRow::List::kUint64},
    {DataType::kComplex64,       "complex64",      64, TypeRow::List::kFloat},
    {DataType::kComplex128,      "complex128",    128, TypeRow::List::kDouble},
    {DataType::kBfloat16,        "bfloat16",       16, TypeRow::List::kInt32},
    {DataType::kFloat8E4M3FN,    "float8e4m3fn",    8, TypeRow::List::kInt32},
    {DataType::kFloat8E4M3FNUZ,  "float8e4m3fnuz",  8, TypeRow::List::kInt32},
    {DataType::kFloat8E5M2,      "float8e5m2",      8, TypeRow::List::kInt32},
    {DataType::kFloat8E5M2FNUZ,  "float8e5m2fnuz",  8, TypeRow::List::kInt32},
    {DataType::kUint4,           "uint4",           4, TypeRow::List::kInt32},
    {DataType::kInt4,            "int4",            4, TypeRow::List::kInt32},
    {DataType::kFloat4E2M1,      "float4e2m1",      4, TypeRow::List::kInt32},
    {DataType::kFloat8E8M0,      "float8e8m0",      8, TypeRow::List::kInt32},
    {DataType::kUint2,           "uint2",           2, TypeRow::List::kInt32},
    {DataType::kInt2,            "int2",            2, TypeRow::List::kInt32},
};
// clang-format on

const TypeRow* find(DataType type) {
  const auto at = static_cast<size_t>(static_cast<int32_t>(type));
  if (static_cast<int32_t>(type) < 0 || at >= std::size(kTypes)) return nullptr;
  return &kTypes[at];  // rows stand in the order of their numbers
}

// The low bytes of every entry, one after the other.
template <class Narrow, class Wide>
SharedBytes narrowed(const std::vector<Wide>& list) {
  std::vector<Narrow> out;
  out.reserve(list.size());
  for (const Wide v : list) out.push_back(static_cast<Narrow>(v));
  return SharedBytes::adopt(std::move(out));
}

SharedBytes from_int32_data(const std::vector<int32_t>& list, int bits) {
  if (bits <= 8) return narrowed<uint8_t>(list);  // small elements come packed, a byte an entry
  if (bits == 16) return narrowed<uint16_t>(list);
  return narrowed<uint32_t>(list);
}

}  // namespace

std::string type_name(DataType type) {
  const TypeRow* row = find(type);
  return row ? row->name : str("type ", static_cast<int32_t>(type));
}

int element_bits(DataType type) {
  const TypeRow* row = find(type);
  return row ? row->bits : 0;
}

Result<uint64_t> element_count(std::span<const int64_t> dims) {
  // A zero anywhere makes the product zero, but must not hide a negative or hopeless neighbour.
  uint64_t count = 1;
  bool none = false;
  for (const int64_t d : dims) {
    if (d < 0) return fail("dimension ", d, " is negative");
    if (d == 0) none = true;
    if (d == 0) continue;
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (count > kMost / static_cast<uint64_t>(d)) {
      return fail("shape [", join(dims, ","), "] has more elements than 63 bits can count");
    }
    count *= static_cast<uint64_t>(d);
  }
  return none ? 0 : count;
}

Result<uint64_t> byte_size(DataType type, std::span<const int64_t> dims) {
  const auto bits = static_cast<uint64_t>(element_bits(type));
  if (bits == 0) return fail("elements of ", type_name(type), " have no fixed size");
  const auto count = element_count(dims);
  if (!count) return count;
  if (*count > std::numeric_limits<uint64_t>::max() / bits) {
    return fail("shape [", join(dims, ","), "] of ", type_name(type), " is too large");
  }
  return *count * bits / 8 + (*count * bits % 8 != 0);
}

Result<SharedBytes> tensor_bytes(const Tensor& tensor) {
  if (tensor.data_location == DataLocation::kExternal) {
    return fail("the elements are in another file that has not been read");
  }
  const auto size = byte_size(tensor.data_type, tensor.dims);
  if (!size) return fail(size.error());
  const TypeRow& row = *find(tensor.data_type);
  const SharedBytes bytes = [&] {
    if (tensor.raw_data && !(tensor.raw_data->empty() && *size > 0)) return *tensor.raw_data;
    switch (row.list) {
      case TypeRow::List::kFloat:
        return tensor.float_data.bytes();
      case TypeRow::List::kInt32:
        return from_int32_data(tensor.int32_data, row.bits);
      case TypeRow::List::kInt64:
        return SharedBytes::adopt(tensor.int64_data);
      case TypeRow::List::kDouble:
        return tensor.double_data.bytes();
      case TypeRow::List::kUint64:
        return row.bits == 32 ? narrowed<uint32_t>(tensor.uint64_data)
                              : SharedBytes::adopt(tensor.uint64_data);
      default:
        return SharedBytes();
    }
  }();
  if (bytes.size() != *size) {
    return fail("holds ", bytes.size(), " bytes where ", row.name, "[", join(tensor.dims, ","),
                "] takes ", *size);
  }
  return bytes;
}

}  // namespace emend::onnx
