#include "kernels/group.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "ops/build.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {

bool is_renaming(const Graph& g, NodeId n) {
  const Node& node = g.nodes[n];
  const OpDef& def = op_def(node);
  if (def.kind != Kind::movement || node.args.size() != 1 || !def.means) return false;
  const Type& from = g.type(node.args[0]);
  if (!from.is_tensor() || from.dtype != g.type(n).dtype || from.dtype == DType::string) {
    return false;
  }
  return is_reshape(meaning_of(def, node.attrs, std::span(&from, 1)), from.shape);
}

NodeId storage_of(const Graph& g, NodeId n) {
  while (is_renaming(g, n)) n = g.nodes[n].args[0];
  return n;
}

Outline outlined(const Graph& g, const NodeGroup& group) {
  Outline out;
  GraphBuilder b;
  std::map<NodeId, NodeId> made;
  auto inside = [&](NodeId n) {
    return std::find(group.nodes.begin(), group.nodes.end(), n) != group.nodes.end();
  };
  // Inputs stand first in a graph.
  for (NodeId n : group.nodes) {
    for (NodeId a : g.nodes[n].args) {
      if (inside(a) || made.count(a) || (g.is_constant(a) && g.constant(a).count() == 1)) continue;
      made[a] = b.input(str("x", out.loads.size()), g.type(a));
      out.loads.push_back(a);
    }
  }
  for (NodeId n : group.nodes) {
    std::vector<NodeId> args;
    for (NodeId a : g.nodes[n].args) {
      if (!made.count(a)) made[a] = b.constant(g.constant(a));
      args.push_back(made[a]);
    }
    made[n] = b.try_op(g.nodes[n].op, args, g.nodes[n].attrs).value_or_throw();
  }
  for (NodeId n : group.stores)
    b.output(str("y", out.stores.size()), made[n]), out.stores.push_back(n);
  out.graph = std::move(b).build();
  return out;
}

}  // namespace emend
