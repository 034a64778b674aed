// Attention heads: packing [batch, sequence, heads * size] and [batch, heads, sequence, size].
#pragma once

#include "ops/compose.h"

namespace emend {

// A rank 4 operand has its heads apart already.
Expr split_heads(const Expr& x, int64_t heads);
Expr merge_heads(const Expr& x);
// Every head (dimension 1) repeated in place, so that each serves a group of query heads.
Expr repeat_heads(const Expr& x, int64_t heads);

}  // namespace emend
