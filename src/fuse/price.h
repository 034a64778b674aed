// What a group costs, and whether one kernel may compute it (evt.md's objective: bytes, launches,
// operations that are repeated). Read off the group's nest as the rows template runs it, which
// is what makes recomputation visible.
#pragma once

#include <map>
#include <optional>

#include "fuse/units.h"
#include "kernels/group.h"
#include "kernels/kernel.h"
#include "ops/scalar.h"

namespace emend {

// Simple operations that one evaluation is worth.
double effort(const Scalar& s);

// What prices follow from, by the group's hash: equal groups are looked at once.
struct GroupFacts {
  Graph group;
  bool feasible = false;
  std::vector<double> reads;  // bytes per load
  double writes = 0;          // bytes
  double operations = 0;
  double tasks = 1;
};
using KnownGroups = std::map<uint64_t, std::vector<GroupFacts>>;

// Prices of groups of one graph.
class GroupPrices {
 public:
  GroupPrices(const Graph& g, const Target& target, KnownGroups& seen)
      : g_(g), target_(target), seen_(seen) {}

  // Seconds; nothing if no kernel may compute the group.
  std::optional<double> operator()(const NodeGroup& group);

 private:
  const GroupFacts& facts(Graph group);
  std::optional<double> fresh(const NodeGroup& group);
  double price_alone(NodeId n) const;  // of the host's steps, and of sequential ones

  const Graph& g_;
  Target target_;
  KnownGroups& seen_;
  // By nodes and stores: searches ask about the same group several times.
  std::map<std::pair<std::vector<NodeId>, std::vector<NodeId>>, std::optional<double>> known_;
};

}  // namespace emend
