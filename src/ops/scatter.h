// Writing where data says, in index notation: in row-major order of the updates u,
//   x[place(u)] = reduce(x[place(u)], update[u]),
// without a reduction the last one stays.
#pragma once

#include <optional>

#include "ops/meaning.h"
#include "ops/op_def.h"

namespace emend {

struct Scatter {
  Dims updates;                  // iterators 0 .. run over the updates
  std::vector<Read> reads;       // of the indices, operand 1
  std::vector<IndexExpr> place;  // in operand 0; may use a read each
  Reduce reduce = Reduce::none;
};

std::optional<Scatter> as_scatter(const OpDef& def, const Attrs& attrs, std::span<const Type> in);

}  // namespace emend
