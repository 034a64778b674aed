// The operator `patch`: another tensor in a box of the first. What repairs a program that is wrong
// there (docs/decisions/0034).
//   patch[begin=[0,0,5,0]](base, fix)     base, but fix from there on, as far as fix reaches
#pragma once

#include "ops/build.h"

namespace emend {

struct Patch {
  Dims begin;  // the first position of the box; its shape is the operand's
  EMEND_FIELDS(begin)
};

}  // namespace emend
