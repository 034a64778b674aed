#include "ops/verify.h"

#include "ops/build.h"
#include "ops/table.h"

namespace emend {
namespace {

std::optional<std::string> node_fault(const Graph& g, NodeId id) {
  const Node& n = g.nodes[id];
  if (n.op.value >= all_ops().size()) return "unknown operator";
  for (NodeId a : n.args) {
    if (!a.valid() || a.value >= id.value) return "an operand does not stand before its user";
  }
  if (n.op == kInputOp) {
    auto k = n.attrs.get_or<int64_t>("index", -1);
    bool known = k >= 0 && k < static_cast<int64_t>(g.inputs.size());
    return known && g.inputs[static_cast<size_t>(k)].node == id ? std::nullopt
                                                                : std::optional("is no input");
  }
  if (n.op == kConstantOp) {
    auto k = n.attrs.get_or<int64_t>("index", -1);
    if (k < 0 || k >= static_cast<int64_t>(g.constants.size())) return "its constant is missing";
    if (g.constant(id).type() != g.types[id]) return "its constant has another type";
    return std::nullopt;
  }
  const OpDef& def = op_def(n);
  auto complete = complete_attrs(def, n.attrs);
  if (!complete) return complete.error();
  if (!(*complete == n.attrs)) return "attributes are incomplete";
  std::vector<Type> types;
  for (NodeId a : n.args) types.push_back(g.types[a]);
  auto type = infer_type(def, n.attrs, types);
  if (!type) return type.error();
  if (*type != g.types[id])
    return str("its type is ", to_text(g.types[id]), " instead of ", to_text(*type));
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_fault(const Graph& g) {
  if (g.types.size() != g.size() || g.names.size() != g.size())
    return "types, names and nodes differ in number";
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    if (g.inputs[i].node != NodeId(i)) return str("input ", i, " does not stand at its place");
  }
  for (const auto& o : g.outputs) {
    if (!o.node.valid() || o.node.value >= g.size())
      return str("output ", o.name, " is not a node");
  }
  for (size_t i = 0; i < g.size(); ++i) {
    if (auto fault = node_fault(g, NodeId(i))) {
      return str(
          "node %", i, " (",
          g.nodes[NodeId(i)].op.value < all_ops().size() ? op_def(g.nodes[NodeId(i)]).name : "?",
          "): ", *fault);
    }
  }
  return std::nullopt;
}

void verify(const Graph& g, const std::string& after) {
  auto fault = find_fault(g);
  EMEND_ASSERT(!fault, "after ", after, ": ", fault.value_or(""));
}

}  // namespace emend
