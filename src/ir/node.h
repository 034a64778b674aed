// One node type for graphs and e-graphs (decision 0001): an operator, its attributes and its
// operands. In a Graph an operand is a NodeId, in an e-graph a class id.
#pragma once

#include <span>

#include "base/hash.h"
#include "base/id.h"
#include "base/small_vec.h"
#include "ir/attrs.h"

namespace emend {

using OpId = Id<struct OpTag>;        // index into the operator table of ops/table.h
using NodeId = Id<struct NodeTag>;    // index into Graph::nodes
using ConstId = Id<struct ConstTag>;  // index into Graph::constants

// The three operators that the structure of a graph itself needs stand first in the table.
inline constexpr OpId kInputOp{0};     // attribute index: which input
inline constexpr OpId kConstantOp{1};  // attribute index: which constant
inline constexpr OpId kGetOp{2};       // attribute index: which item of the tuple operand

template <class Ref>
struct NodeOf {
  OpId op;
  Attrs attrs;
  SmallVec<Ref, 4> args;

  bool operator==(const NodeOf&) const = default;
};

using Node = NodeOf<NodeId>;

template <class Ref>
uint64_t hash(const NodeOf<Ref>& n) {
  uint64_t h = hash_mix(n.op.value, n.attrs.hash());
  for (Ref r : n.args) h = hash_mix(h, r.value);
  return h;
}

}  // namespace emend
