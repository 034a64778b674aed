// How much memory a value takes.
#pragma once

#include "ir/type.h"

namespace emend {

// Of a tensor, or of all tensors in a tuple; elements are packed. Of what has no size before the
// program runs, nothing.
inline double bytes_of(const Type& t) {
  double sum = 0;
  for (const Type& item : t.items) sum += bytes_of(item);
  if (!t.is_tensor() || t.dtype == DType::string) return sum;
  return static_cast<double>(
      storage_bytes(t.dtype, static_cast<uint64_t>(count(t.shape))).value_or(0));
}

}  // namespace emend
