// Attention heads: packing [batch, sequence, heads * size] and [batch, heads, sequence, size].
#pragma once

#include "ops/compose.h"

namespace emend {

// A rank 4 operand has its heads apart already.
Formula split_heads(const Formula& x, int64_t heads);
Formula merge_heads(const Formula& x);
// Every head (dimension 1) repeated in place, so that each serves a group of query heads.
Formula repeat_heads(const Formula& x, int64_t heads);

}  // namespace emend
