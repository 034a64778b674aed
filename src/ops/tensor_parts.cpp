#include "ops/tensor_parts.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace emend {
namespace {

// A tensor as seen from one of its dimensions: outer x extent x inner.
struct Sides {
  int64_t outer = 1, extent = 1, inner = 1;
};

Sides sides_of(const Dims& shape, int64_t axis) {
  EMEND_ASSERT(axis >= 0 && axis < static_cast<int64_t>(shape.size()), shape_text(shape));
  auto k = static_cast<size_t>(axis);
  return {count(std::span(shape).first(k)), shape[k], count(std::span(shape).subspan(k + 1))};
}

// Moves runs of elements between tensors of one dtype, strings and packed types included.
class Mover {
 public:
  Mover(DType dtype, int64_t elements) : dtype_(dtype) {
    if (dtype == DType::string)
      strings_.resize(static_cast<size_t>(elements));
    else
      bytes_.resize(storage_bytes(dtype, static_cast<uint64_t>(elements)).value());
  }

  void copy(const Tensor& from, int64_t source, int64_t target, int64_t n) {
    auto s = static_cast<size_t>(source), t = static_cast<size_t>(target),
         length = static_cast<size_t>(n);
    auto bits = static_cast<size_t>(info(dtype_).bits);
    if (n == 0) return;
    if (dtype_ == DType::string) {
      std::copy_n(from.strings().begin() + source, n, strings_.begin() + target);
    } else if (bits % 8 == 0) {
      std::memcpy(bytes_.data() + t * bits / 8, from.data() + s * bits / 8, length * bits / 8);
    } else {
      for (size_t i = 0; i < length; ++i) copy_bits(from.data(), (s + i) * bits, (t + i) * bits);
    }
  }

  Tensor finish(Dims shape) && {
    if (dtype_ == DType::string) return Tensor::of_strings(std::move(shape), std::move(strings_));
    return Tensor::make(dtype_, std::move(shape), [&](std::byte* out) {
      if (!bytes_.empty()) std::memcpy(out, bytes_.data(), bytes_.size());
    });
  }

 private:
  // One packed element; it never straddles a byte.
  void copy_bits(const std::byte* from, size_t source, size_t target) {
    auto mask = static_cast<unsigned>((1 << info(dtype_).bits) - 1);
    auto value = std::to_integer<unsigned>(from[source / 8]) >> (source % 8) & mask;
    bytes_[target / 8] |= static_cast<std::byte>(value << (target % 8));
  }

  DType dtype_;
  std::vector<std::byte> bytes_;
  std::vector<std::string> strings_;
};

}  // namespace

bool cuts(const Dims& sizes, int64_t extent) {
  int64_t rest = extent;  // counted down, since a sum may overflow
  for (int64_t s : sizes) {
    if (s < 0 || s > rest) return false;
    rest -= s;
  }
  return rest == 0;
}

Tensor part_of(const Tensor& t, int64_t axis, int64_t begin, int64_t size) {
  Sides s = sides_of(t.shape(), axis);
  EMEND_ASSERT(begin >= 0 && size >= 0 && begin + size <= s.extent, begin, " ", size);
  Dims shape = t.shape();
  shape[static_cast<size_t>(axis)] = size;
  Mover mover(t.dtype(), count(shape));
  for (int64_t o = 0; o < s.outer; ++o) {
    mover.copy(t, (o * s.extent + begin) * s.inner, o * size * s.inner, size * s.inner);
  }
  return std::move(mover).finish(std::move(shape));
}

Tensor slice_of(const Tensor& t, int64_t axis, int64_t position) {
  Dims shape = t.shape();
  shape.erase(shape.begin() + axis);
  return part_of(t, axis, position, 1).reshaped(std::move(shape));
}

Tensor joined(std::span<const Tensor> parts, int64_t axis) {
  EMEND_ASSERT(!parts.empty());
  Dims shape = parts[0].shape();
  auto k = static_cast<size_t>(axis);
  EMEND_ASSERT(k < shape.size(), axis);
  shape[k] = 0;
  for (const Tensor& p : parts) {
    Dims same = p.shape();
    if (same.size() == shape.size()) same[k] = parts[0].shape()[k];
    if (p.dtype() != parts[0].dtype() || same != parts[0].shape()) {
      throw Error(str("tensors ", to_text(parts[0].type()), " and ", to_text(p.type()),
                      " do not fit together along axis ", axis));
    }
    shape[k] += p.shape()[k];
  }
  Sides all = sides_of(shape, axis);
  Mover mover(parts[0].dtype(), count(shape));
  int64_t begin = 0;
  for (const Tensor& p : parts) {
    int64_t run = p.shape()[k] * all.inner;
    for (int64_t o = 0; o < all.outer; ++o) {
      mover.copy(p, o * run, (o * all.extent + begin) * all.inner, run);
    }
    begin += p.shape()[k];
  }
  return std::move(mover).finish(std::move(shape));
}

Tensor stacked(std::span<const Tensor> parts, int64_t axis) {
  std::vector<Tensor> raised;
  for (const Tensor& p : parts) {
    Dims shape = p.shape();
    EMEND_ASSERT(axis >= 0 && axis <= p.rank(), axis);
    shape.insert(shape.begin() + axis, 1);
    raised.push_back(p.reshaped(std::move(shape)));
  }
  return joined(raised, axis);
}

}  // namespace emend
