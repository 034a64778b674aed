// Types of values. Shapes are static (decision 0004). `any` is the type of what cannot be known
// before the program runs: results of deferred ONNX nodes. Tuples are the results of operators with
// several outputs; sequences and optionals exist only on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace emend {

using Dims = std::vector<int64_t>;

struct Type {
  enum class Kind : uint8_t { tensor, tuple, sequence, optional, any };
  Kind kind = Kind::any;
  DType dtype = DType::f32;  // of a tensor
  Dims shape;                // of a tensor
  std::vector<Type> items;   // of a tuple; one for a sequence or optional

  static Type tensor(DType dtype, Dims shape) {
    return {Kind::tensor, dtype, std::move(shape), {}};
  }
  static Type tuple(std::vector<Type> items) {
    return {Kind::tuple, DType::f32, {}, std::move(items)};
  }
  static Type sequence(Type item) { return {Kind::sequence, DType::f32, {}, {std::move(item)}}; }
  static Type optional(Type item) { return {Kind::optional, DType::f32, {}, {std::move(item)}}; }
  static Type any() { return {}; }

  bool is_tensor() const { return kind == Kind::tensor; }
  // Nothing in it waits for run time.
  bool is_static() const;
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  bool operator==(const Type&) const = default;
};

std::string to_text(const Type& t);  // f32[2,3], (f32[2], i64[]), seq(f32[2]), any

// Number of elements. Shapes come from files: `checked_count` says when the product overflows
// or a dimension is negative; `count` is for shapes that were checked.
std::optional<int64_t> checked_count(std::span<const int64_t> shape);
int64_t count(std::span<const int64_t> shape);
Dims row_major_strides(std::span<const int64_t> shape);
std::string shape_text(std::span<const int64_t> shape);  // [2,3]

// A tensor larger than this many elements is refused: no machine holds it, and products of
// dimensions stay far from overflow everywhere else.
inline constexpr int64_t kMaxElements = int64_t{1} << 44;

}  // namespace emend
