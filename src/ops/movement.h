// Attributes of the movement operators, for code that builds them.
#pragma once

#include "ops/build.h"

namespace emend {

struct Reshape {
  Dims shape;
  EMEND_FIELDS(shape)
};
struct Transpose {
  Dims perm;
  EMEND_FIELDS(perm)
};
struct Broadcast {
  Dims shape;
  EMEND_FIELDS(shape)
};
struct Slice {
  Dims starts, sizes, steps;  // one per dimension
  EMEND_FIELDS(starts, sizes, steps)
};
struct Pad {
  Dims pads;  // begins, then ends
  double value = 0;
  EMEND_FIELDS(pads, value)
};
struct Border {
  Dims pads;         // begins, then ends; never negative
  std::string mode;  // edge, reflect or wrap
  EMEND_FIELDS(pads, mode)
};
struct Tile {
  Dims repeats;
  EMEND_FIELDS(repeats)
};
struct Axis {
  int64_t axis = 0;
  EMEND_FIELDS(axis)
};
struct Split {
  int64_t axis = 0;
  Dims sizes;
  EMEND_FIELDS(axis, sizes)
};

// Elements indices[0], indices[1], .. along an axis, as a concatenation of slices: for index lists
// that are a few runs.
NodeId take_runs(GraphBuilder& b, NodeId x, size_t axis, const Dims& indices);

}  // namespace emend
