#include "ir/type.h"

#include <algorithm>

#include "base/text.h"
#include "ir/unshaped.h"

namespace emend {

bool Type::is_static() const {
  if (kind == Kind::tensor) return true;
  if (kind == Kind::tuple) {
    return std::all_of(items.begin(), items.end(), [](const Type& t) { return t.is_static(); });
  }
  return false;
}

std::string shape_text(std::span<const int64_t> shape) {
  return "[" + join(shape, ",") + "]";
}

std::string to_text(const Type& t) {
  switch (t.kind) {
    case Type::Kind::tensor:
      return str(to_text(t.dtype), shape_text(t.shape));
    case Type::Kind::sequence:
      return str("seq(", to_text(t.items[0]), ")");
    case Type::Kind::optional:
      return str("opt(", to_text(t.items[0]), ")");
    case Type::Kind::any:
      return is_unshaped(t) ? str(to_text(t.dtype), "[?]") : "any";
    case Type::Kind::tuple:
      break;
  }
  std::string out = "(";
  for (size_t i = 0; i < t.items.size(); ++i) out += (i ? ", " : "") + to_text(t.items[i]);
  return out + ")";
}

std::optional<int64_t> checked_count(std::span<const int64_t> shape) {
  int64_t n = 1;
  bool zero = false;
  for (int64_t d : shape) {
    if (d < 0) return std::nullopt;
    if (d == 0) {
      zero = true;
    } else if (n > kMaxElements / d) {
      return std::nullopt;
    } else {
      n *= d;
    }
  }
  return zero ? 0 : n;
}

int64_t count(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

Dims row_major_strides(std::span<const int64_t> shape) {
  Dims strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

}  // namespace emend
