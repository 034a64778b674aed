// A partition with a kernel chosen for every group.
#pragma once

#include "ir/partition.h"
#include "kernels/kernel.h"

namespace emend {

struct Plan {
  Partition partition;
  std::vector<Candidate> choices;  // one per group; of the host's groups empty
  double estimate_s = 0;           // of all of them, with changes of layout between them
};

}  // namespace emend
