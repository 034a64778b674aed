// What a tensor holds, as bytes. The format stores elements in raw_data or in one of five typed
// lists; this is the one place that knows which, how wide, and what a shape demands.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "onnx/schema.h"

namespace emend::onnx {

// "float", "int4" ...; "type 99" for a number that the format does not list.
std::string type_name(DataType type);

// 32 for float, 4 for int4; 0 for strings, undefined and unknown types.
int element_bits(DataType type);

// The product of the dimensions; fails on a negative one and when it does not fit 63 bits.
Result<uint64_t> element_count(std::span<const int64_t> dims);

// Bytes that `dims` elements of a fixed-width type take: two int4 share one, the last may be alone.
Result<uint64_t> byte_size(DataType type, std::span<const int64_t> dims);

// The elements in row-major order, little-endian, as raw_data holds them: shared where they are
// stored so, converted from a typed list otherwise. Fails where count and shape disagree, for
// strings (use string_data) and for external data that has not been attached.
Result<SharedBytes> tensor_bytes(const Tensor& tensor);

}  // namespace emend::onnx
