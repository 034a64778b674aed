// The type of what is known to be a tensor of some element type, and no more: an `any` of shape
// [-1], printed f32[?]. Values inside subgraphs often have it, and other runtimes want to be told.
#pragma once

#include "ir/type.h"

namespace emend {

inline Type unshaped(DType dtype) {
  return {Type::Kind::any, dtype, {-1}, {}};
}
inline bool is_unshaped(const Type& t) {
  return t.kind == Type::Kind::any && !t.shape.empty();
}

}  // namespace emend
