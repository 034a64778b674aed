// Kernels may want weights repacked, and panels of a narrow weight are mostly padding. Weights as
// stored take at most `factor` times what the graph holds; what would not keep to that is not
// offered. Half of what may be added goes to every use of a weight by its size, half to all uses
// alike, so that a small weight may grow as much as it likes.
#pragma once

#include "ir/partition.h"
#include "kernels/kernel.h"

namespace emend {

Catalogue within_memory(const Catalogue& catalogue, const Graph& g, const Partition& partition,
                        double factor);

}  // namespace emend
