// A program: nodes in topological order with their types, several inputs, several roots, and a pool
// of constants. A plain value: passes take `const Graph&` and return a new one. Made by
// GraphBuilder (ops/build.h), which is the only place that infers types.
//
// Invariants (ops/verify.h checks them): operands stand before their users; types[n] is what the
// operator infers; the inputs' nodes stand first, in their order, with index k; every constant
// node's index is in the pool.
#pragma once

#include <string>
#include <vector>

#include "base/id.h"
#include "ir/node.h"
#include "ir/tensor.h"

namespace emend {

struct GraphInput {
  std::string name;
  NodeId node;
  bool donated = false;  // the program may overwrite its storage (parameter updates)
  bool operator==(const GraphInput&) const = default;
};

struct GraphOutput {
  std::string name;
  NodeId node;
  Dims strides;  // of a kernel's group: where elements go in something larger; none: row-major
  bool operator==(const GraphOutput&) const = default;
};

struct Graph {
  IdVec<NodeId, Node> nodes;
  IdVec<NodeId, Type> types;
  IdVec<NodeId, std::string>
      names;  // where a node came from, in the input model's words; may be ""
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  IdVec<ConstId, Tensor> constants;

  size_t size() const { return nodes.size(); }
  const Type& type(NodeId n) const { return types[n]; }
  bool is_constant(NodeId n) const { return nodes[n].op == kConstantOp; }
  const Tensor& constant(NodeId n) const {
    return constants[ConstId(static_cast<size_t>(nodes[n].attrs.get<int64_t>("index")))];
  }
  // Structure, types, constants and I/O names; the nodes' own names do not count.
  friend bool operator==(const Graph& a, const Graph& b);
};

uint64_t hash(const Graph& g);

// For every node, how many operands and outputs refer to it.
IdVec<NodeId, int> use_counts(const Graph& g);

}  // namespace emend
