// Chooses a kernel, its configuration and layouts for every group of a partition.
#pragma once

#include "kernels/plan.h"

namespace emend {

Plan select(const Graph& g, Partition partition, const Catalogue& catalogue, const Target& target);

}  // namespace emend
