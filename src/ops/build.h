// GraphBuilder: the only way to make a node. It completes attributes, infers types and keeps the
// topological order.
//
//   GraphBuilder b;
//   NodeId x = b.input("x", Type::tensor(DType::f32, {1, 8}));
//   NodeId y = b.op("relu", {x});
//   b.output("y", y);
//   Graph g = std::move(b).build();
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ops/op_def.h"

namespace emend {

class GraphBuilder {
 public:
  NodeId input(std::string name, Type type, bool donated = false);
  NodeId constant(Tensor value);
  NodeId shared_constant(NodeId constant);  // another node of the same entry of the pool
  NodeId scalar(double value, DType dtype) { return constant(Tensor::of_real(value, dtype)); }
  NodeId ints(Dims values) { return constant(Tensor::of_ints(std::move(values))); }

  // Fails with the reason when the operands do not fit.
  Result<NodeId> try_op(OpId op, Args args, Attrs attrs = {});
  // Throws Error instead.
  NodeId op(std::string_view name, Args args, Attrs attrs = {});
  NodeId op(std::string_view name, std::initializer_list<NodeId> args, Attrs attrs = {}) {
    return op(name, Args(args.begin(), args.size()), attrs);
  }
  template <class Struct>
  requires requires { Struct::kFieldNames; }
  NodeId op(std::string_view name, std::initializer_list<NodeId> args, const Struct& attrs) {
    return op(name, Args(args.begin(), args.size()), to_attrs(attrs));
  }
  NodeId get(NodeId tuple, int64_t index);
  std::vector<NodeId> get_all(NodeId tuple);  // every item; the node itself if it is no tuple

  void output(std::string name, NodeId node);
  // Nodes made from now on carry this name (where they came from).
  void set_origin(std::string name) { origin_ = std::move(name); }
  void name(NodeId n, std::string name) { graph_.names[n] = std::move(name); }

  const Graph& graph() const { return graph_; }
  const Type& type(NodeId n) const { return graph_.types[n]; }
  const Dims& shape(NodeId n) const { return graph_.types[n].shape; }
  DType dtype(NodeId n) const { return graph_.types[n].dtype; }

  // The finished graph, without nodes and constants that no output needs. Inputs always stay.
  Graph build() &&;

 private:
  NodeId add(Node node, Type type);
  Graph graph_;
  std::string origin_;
};

// Copies nodes of `from` into `to`; `args` stand for from's inputs. Returns what from's outputs
// became.
std::vector<NodeId> splice(GraphBuilder& to, const Graph& from, Args args);

// `g` without what no output needs; ids renumbered, inputs first, otherwise the order kept.
Graph without_dead_nodes(const Graph& g);

// What the operator makes of these operands, or why not. Attributes must be complete.
Result<Type> infer_type(const OpDef& def, Attrs attrs, Types args);
// Fills defaults in and checks names and types.
Result<Attrs> complete_attrs(const OpDef& def, Attrs given);

}  // namespace emend
