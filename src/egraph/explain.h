// On which firings a node or an equality rests. The answer replays: begin with the given nodes and
// unions, apply the firings in the order they come, each to the terms of the nodes it matched, and
// congruence does the rest. A *term* here is a node with the children with which it was added.
//
// Unions form a forest over nodes, so that there is one way from a node to an equal one, and it
// lies wholly in the past of whoever relied on it. A step of it is a firing or a congruence, which
// rests on the equality of children. The answer may contain a firing more than the shortest proof,
// because a firing counts as resting on every equality among the ids it dealt with.
#pragma once

#include <cstdint>
#include <vector>

#include "egraph/egraph.h"

namespace emend {

class Explainer {
 public:
  // The e-graph keeps provenance, is clean, and does not change in the meantime.
  explicit Explainer(const EGraph& g);

  // Oldest first.
  std::vector<FiringId> of_node(ENodeId n);
  std::vector<FiringId> of_equality(ClassId a, ClassId b);

  // With what the node was added.
  ENode term(ENodeId n) const;

 private:
  void need_node(ENodeId n);
  void need_equality(ENodeId a, ENodeId b);
  void need_firing(FiringId f);
  void settle_firing(FiringId f);
  // Without this union and those after it.
  bool equal_before(ENodeId a, ENodeId b, uint32_t which) const;
  // Calls see(union) from a to b until that says no; did it never? They are equal.
  template <class See>
  bool walk(ENodeId a, ENodeId b, const See& see) const;
  std::vector<FiringId> answer();

  const EGraph& g_;
  const Provenance& provenance_;
  std::vector<uint32_t> renamed_at_;              // by node
  std::vector<uint32_t> up_, up_union_, depth_;   // the forest, by node
  std::vector<uint32_t> made_begins_, made_;      // nodes by firing
  std::vector<uint32_t> united_begins_, united_;  // unions by firing

  // One question.
  std::vector<uint8_t> node_needed_, union_needed_, firing_needed_;
  std::vector<ENodeId> nodes_;
  std::vector<FiringId> firings_;
  std::vector<uint32_t> congruences_;
  std::vector<FiringId> all_;
};

}  // namespace emend
