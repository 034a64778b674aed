// What fusion decides about: the *units* of a graph, the nodes that some group must compute. The
// others belong to whoever needs them and follow from the units: inputs and constants are loaded,
// renamings are looked through, and *dissolved* nodes (cheap ones: views, casts, a few operations)
// are computed again by every group that needs them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/partition.h"

namespace emend {

enum class Role : uint8_t {
  given,        // an input or a constant
  renaming,     // only another shape for the same memory
  item,         // one of several results of what is sequential: its group stores it
  host,         // evaluated by the reference
  sequential,   // steps that follow one another: a kernel of its own
  pointwise,    // elementwise operators, views, gathers
  reduction,    // each element of what is reduced counts once
  window,       // elements are read several times: convolutions' kin, pooling
  contraction,  // sums of products
};

// Groups of these have no other nodes.
inline bool stays_alone(Role r) {
  return r == Role::host || r == Role::sequential;
}

// Of a node that nests can hold.
Role role_of(const Graph& g, NodeId n);

class Units {
 public:
  explicit Units(const Graph& g);

  const Graph& graph() const { return *g_; }
  Role role(NodeId n) const { return roles_[n]; }
  const std::string& reason(NodeId n) const { return reasons_[n]; }  // why it is the host's
  bool is_unit(NodeId n) const { return roles_[n] >= Role::host && !dissolved_[n]; }
  bool is_view(NodeId n) const { return views_[n]; }  // only moves elements of one operand
  // Takes every element from one of more than two operands: what it reads is computed for all.
  bool is_junction(NodeId n) const { return junctions_[n]; }
  bool cheap(NodeId n) const { return cheap_[n]; }  // may be dissolved
  bool dissolved(NodeId n) const { return dissolved_[n]; }
  void dissolve(NodeId n, bool yes = true) { dissolved_[n] = yes; }

  // Units that read this one's value or produce what this one reads, renamings and dissolved nodes
  // looked through; sorted.
  std::vector<NodeId> users(NodeId n) const;
  std::vector<NodeId> producers(NodeId n) const;
  // Units that pass over the same value, so that a group of both reads (or, if it is dissolved,
  // computes) it once altogether; sorted.
  std::vector<NodeId> siblings(NodeId n) const;
  // Values of which a unit takes each element once, looking through such nodes; sorted. Nuclei have
  // none: what they read, they read in an order of their own.
  std::vector<NodeId> passes_over(NodeId n, const std::function<bool(NodeId)>& through) const;

  // The group that computes these units (sorted): with the renamings and dissolved nodes it needs
  // inside, and its stores.
  NodeGroup group(const std::vector<NodeId>& units) const;

 private:
  bool see_through(NodeId n) const {
    return roles_[n] == Role::renaming || roles_[n] == Role::item || dissolved_[n];
  }
  bool only_items_are_used(NodeId n) const;
  void take_in_matrices(NodeId loop);
  NodeGroup sequential_group(NodeId n) const;
  void dissolve_byte_factors();
  const Graph* g_;
  IdVec<NodeId, Role> roles_;
  IdVec<NodeId, std::string> reasons_;
  IdVec<NodeId, bool> views_, junctions_, cheap_, dissolved_, output_;
  IdVec<NodeId, int64_t> points_;  // of the loops of a unit that passes over memory
  IdVec<NodeId, std::vector<NodeId>> direct_users_;
};

}  // namespace emend
