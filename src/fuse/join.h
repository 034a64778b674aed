// Groups joined beyond what islands allow: two nuclei in one kernel. Islands keep nuclei apart, as
// nearly all kernels do; where a kernel of the catalogue is made for more (attention: two products
// and the softmax between them) and its price is below that of the kernels that it replaces, their
// groups become one. Only groups whose results nobody else needs are taken in, so that no group
// can come to wait for itself.
#pragma once

#include <vector>

#include "fuse/units.h"
#include "kernels/kernel.h"

namespace emend {

// `groups` are sets of units, each after those that it reads from, and so is the result.
std::vector<std::vector<NodeId>> joined(const Units& units, std::vector<std::vector<NodeId>> groups,
                                        const Catalogue& catalogue, const Target& target);

}  // namespace emend
