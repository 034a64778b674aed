// Attributes of the operators whose places depend on data, for code that builds them.
#pragma once

#include "ops/build.h"

namespace emend {

struct GatherNd {
  int64_t batch_dims = 0;
  EMEND_FIELDS(batch_dims)
};
struct ScatterElements {
  int64_t axis = 0;
  std::string reduction = "none";  // none, add, mul, max, min
  EMEND_FIELDS(axis, reduction)
};
struct ScatterNd {
  std::string reduction = "none";
  EMEND_FIELDS(reduction)
};
struct TopK {
  int64_t k = 1, axis = -1;
  bool largest = true;
  EMEND_FIELDS(k, axis, largest)
};
struct ArgReduce {
  int64_t axis = 0;
  bool keepdims = true, select_last_index = false;
  EMEND_FIELDS(axis, keepdims, select_last_index)
};

// The integers 0 .. n-1 along one axis of a tensor of that rank; the other dimensions are 1.
// An operator and no constant: it takes no memory while only types are asked for.
NodeId iota_along(GraphBuilder& b, int64_t n, size_t axis, size_t rank, DType dtype = DType::i64);

}  // namespace emend
