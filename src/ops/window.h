// Attributes of the pooling operators, for code that builds them.
#pragma once

#include "ops/build.h"

namespace emend {

// Windows over the spatial dimensions of x[n,c,..], one entry per spatial dimension.
struct Pool {
  Dims kernel, strides, dilations;
  Dims pads;  // begins, then ends
  EMEND_FIELDS(kernel, strides, dilations, pads)
};

struct AveragePool {
  Dims kernel, strides, dilations, pads;
  bool count_include_pad = false;
  bool ceil_mode = false;  // a last window may reach beyond the pads, which do not count there
  EMEND_FIELDS(kernel, strides, dilations, pads, count_include_pad, ceil_mode)
};

}  // namespace emend
