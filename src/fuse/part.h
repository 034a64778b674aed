// Views stored where kernels want them to be. A group takes in the views that its nucleus reads
// through, which saves a pass over memory; but the fastest kernels read memory along plain strides,
// so a view may be worth a pass of its own: phases of an image, before a convolution that Winograd
// takes only then. The kernels' prices decide.
#pragma once

#include <vector>

#include "fuse/fuse.h"
#include "fuse/units.h"

namespace emend {

// `groups` are sets of units, each after those that it reads from, and so is the result. Views that
// are stored become units.
std::vector<std::vector<NodeId>> parted(Units& units, std::vector<std::vector<NodeId>> groups,
                                        const GroupSeconds& seconds);

}  // namespace emend
