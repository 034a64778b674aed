#include "kernels/sequential.h"

#include <algorithm>

#include "kernels/nest.h"
#include "kernels/recurrence.h"
#include "ops/families.h"
#include "ops/running.h"
#include "ops/table.h"

namespace emend {
namespace {

std::vector<Type> operand_types(const Graph& g, NodeId n) {
  std::vector<Type> types;
  for (NodeId a : g.nodes[n].args) types.push_back(g.type(a));
  return types;
}

// Elements that C can compute with, at least one of them.
bool is_plain(const Type& t) {
  DType one[] = {t.dtype};
  return t.is_tensor() && working_type(one) && count(t.shape) > 0;
}

// A group holds constants of one element itself: they are no memory.
bool holds_scalars(const Graph& g, NodeId n) {
  return std::ranges::any_of(
      g.nodes[n].args, [&](NodeId a) { return g.is_constant(a) && g.constant(a).count() == 1; });
}

}  // namespace

std::optional<Scan> scan_of(const Graph& g, NodeId n) {
  const Node& node = g.nodes[n];
  if (!op_def(node).means || node.args.size() != 1 || !is_plain(g.type(n))) return {};
  if (holds_scalars(g, n)) return {};
  std::vector<Type> types = operand_types(g, n);
  if (types[0].dtype != g.type(n).dtype) return {};
  Meaning m = meaning_of(op_def(node), node.attrs, types);
  auto running = as_running(m, types[0].shape);
  if (!running) return {};
  auto shape = std::span(m.out);
  return Scan{m.reduce,
              running->from_end,
              running->exclusive,
              count(shape.first(running->axis)),
              shape[running->axis],
              count(shape.subspan(running->axis + 1))};
}

std::optional<Scatter> scatter_of(const Graph& g, NodeId n) {
  const Node& node = g.nodes[n];
  std::vector<Type> types = operand_types(g, n);
  if (!std::ranges::all_of(types, is_plain)) return {};
  if (holds_scalars(g, n)) return {};
  auto s = as_scatter(op_def(node), node.attrs, types);
  if (!s) return {};
  // Narrow floats are rounded once, after all updates: that takes memory that nobody has.
  bool adds = s->reduce == Reduce::sum || s->reduce == Reduce::product;
  if (adds && is_float(types[0].dtype) && info(types[0].dtype).bits < 32) return {};
  return s;
}

bool is_sequential(const Graph& g, NodeId n) {
  return scan_of(g, n) || scatter_of(g, n) || recurrence_of(g, n);
}
bool is_sequential(const Graph& g, const NodeGroup& group) {
  if (group.host) return false;
  if (group.nodes.size() == 1) return is_sequential(g, group.nodes[0]);
  // Only a loop has others with it: views of its matrices, and its results.
  return std::ranges::any_of(group.nodes,
                             [&](NodeId n) { return op_def(g.nodes[n]).kind == Kind::scan; });
}

NodeId only_node(const Graph& group) {
  NodeId only;
  for (size_t i = 0; i < group.size(); ++i) {
    if (group.nodes[NodeId(i)].op == kInputOp) continue;
    if (only.valid()) return {};
    only = NodeId(i);
  }
  return only;
}

}  // namespace emend
