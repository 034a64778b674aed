// Immutable tensors: a dtype, a shape and shared bytes, owned or memory-mapped. Copying a Tensor
// copies a handle. A Value is what flows at run time: a tensor, or on the host also a sequence, an
// optional or a tuple.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/type.h"

namespace emend {

class Tensor {
 public:
  Tensor() = default;
  // Views `bytes`, which `owner` keeps alive.
  Tensor(DType dtype, Dims shape, std::shared_ptr<const void> owner,
         std::span<const std::byte> bytes);
  // Allocates zeroed bytes and lets `fill` write them once.
  template <class Fill>
  static Tensor make(DType dtype, Dims shape, const Fill& fill) {
    Tensor t = zeros(dtype, std::move(shape));
    fill(const_cast<std::byte*>(t.bytes_.data()));
    return t;
  }
  static Tensor zeros(DType dtype, Dims shape);
  static Tensor of_ints(Dims values);                             // i64[n]
  static Tensor of_int(int64_t value, DType dtype = DType::i64);  // rank 0
  static Tensor of_real(double value, DType dtype);               // rank 0
  static Tensor of_reals(DType dtype, Dims shape, std::span<const double> values);
  static Tensor of_strings(Dims shape, std::vector<std::string> values);

  DType dtype() const { return dtype_; }
  const Dims& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t count() const { return emend::count(shape_); }
  Type type() const { return Type::tensor(dtype_, shape_); }
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::byte* data() const { return bytes_.data(); }
  const std::vector<std::string>& strings() const;

  double real(int64_t i) const { return load_real(dtype_, data(), static_cast<size_t>(i)); }
  int64_t integer(int64_t i) const { return load_int(dtype_, data(), static_cast<size_t>(i)); }
  Dims ints() const;                  // all elements as integers
  std::vector<double> reals() const;  // all elements as doubles
  // Same bytes under another shape of the same count.
  Tensor reshaped(Dims shape) const;
  // The bytes are not needed for now: see drop_pages in base/mapped_file.h.
  void drop_pages() const;

  // Same type and same bytes (NaNs compare by their bits).
  friend bool operator==(const Tensor& a, const Tensor& b);

 private:
  DType dtype_ = DType::f32;
  Dims shape_ = {0};
  std::shared_ptr<const void> owner_;  // for strings: a std::vector<std::string>
  std::span<const std::byte> bytes_;
};

uint64_t hash(const Tensor& t);

struct Value {
  Type::Kind kind = Type::Kind::tensor;
  Tensor tensor;
  std::vector<Value> items;  // of a tuple or sequence; an optional has none or one

  Value() = default;
  Value(Tensor t) : tensor(std::move(t)) {}
  static Value tuple(std::vector<Value> items) {
    return Value(Type::Kind::tuple, std::move(items));
  }
  static Value sequence(std::vector<Value> items) {
    return Value(Type::Kind::sequence, std::move(items));
  }
  static Value optional(std::vector<Value> item) {
    return Value(Type::Kind::optional, std::move(item));
  }

  bool is_tensor() const { return kind == Type::Kind::tensor; }
  Type type() const;
  bool operator==(const Value&) const = default;

 private:
  Value(Type::Kind k, std::vector<Value> i) : kind(k), items(std::move(i)) {}
};

}  // namespace emend
