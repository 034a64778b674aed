// A group as it reads and writes memory, with its nest: what kernels look at. Made once for all of
// them.
#pragma once

#include "kernels/layout.h"
#include "kernels/nest.h"

namespace emend {

struct GroupInMemory {
  explicit GroupInMemory(const Graph& logical, const Layouts& layouts = {})
      : graph(laid_out(logical, layouts)), nest(nest_of(graph)) {}
  Graph graph;
  Result<Nest> nest;
};

}  // namespace emend
