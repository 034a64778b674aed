// Attributes of the random operators, for code that builds them. Numbers are counter-based: an
// element's value depends on (seed, stream, its position) alone, so that evaluation order, tiling
// and recomputation do not matter. `stream` tells the nodes of a program apart.
#pragma once

#include "ops/build.h"

namespace emend {

struct RandomUniform {
  Dims shape;
  DType dtype = DType::f32;
  double low = 0, high = 1;
  double seed = 0;  // 0: none was given
  int64_t stream = 0;
  EMEND_FIELDS(shape, dtype, low, high, seed, stream)
};
struct RandomNormal {
  Dims shape;
  DType dtype = DType::f32;
  double mean = 0, scale = 1;
  double seed = 0;
  int64_t stream = 0;
  EMEND_FIELDS(shape, dtype, mean, scale, seed, stream)
};
struct Dropout {
  double ratio = 0.5, seed = 0;
  int64_t stream = 0;
  EMEND_FIELDS(ratio, seed, stream)
};

}  // namespace emend
