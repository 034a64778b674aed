// Groups joined beyond what islands allow: two nuclei in one kernel. Islands keep nuclei apart, as
// nearly all kernels do; where a kernel of the catalogue is made for more (attention: two products
// and the softmax between them) and its price is below that of the kernels that it replaces, their
// groups become one. Only groups whose results nobody else needs are taken in, so that no group
// can come to wait for itself.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "fuse/units.h"
#include "kernels/kernel.h"

namespace emend {

// What a group takes by the best kernel, by its hash: equal layers are asked about once.
struct KernelSeconds {
  Graph group;
  std::vector<bool> constant;
  bool joining = false;  // by kernels that join groups, or by all the others
  bool images = false;   // with channels last, too
  std::optional<double> seconds;
};
using KnownSeconds = std::map<uint64_t, std::vector<KernelSeconds>>;

// `groups` are sets of units, each after those that it reads from, and so is the result.
std::vector<std::vector<NodeId>> joined(const Units& units, std::vector<std::vector<NodeId>> groups,
                                        const Catalogue& catalogue, const Target& target,
                                        KnownSeconds& known);

}  // namespace emend
