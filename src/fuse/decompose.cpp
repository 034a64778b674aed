#include <algorithm>

#include "fuse/fuse.h"
#include "ops/build.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

// What a node of the old graph became: one node, or the items of a tuple.
using Made = std::vector<NodeId>;

void copy_into(GraphBuilder& b, const Graph& g, std::vector<NodeId> inputs,
               std::vector<Made>& outputs);

// As one node: a tuple that was taken apart is put together for whoever wants it whole.
NodeId whole(GraphBuilder& b, const Type& type, const Made& made) {
  bool apart = type.kind == Type::Kind::tuple && b.type(made[0]).kind != Type::Kind::tuple;
  return apart ? b.op("tuple", made) : made[0];
}

Attrs with_decomposed_bodies(Attrs attrs) {
  Attrs result = attrs;
  for (const auto& [name, value] : attrs.entries()) {
    const GraphRef* body = value.as<GraphRef>();
    if (body && *body) result = result.with(name, GraphRef(decomposed(**body)));
  }
  return result;
}

Made copy_node(GraphBuilder& b, const Graph& g, NodeId n, const std::vector<Made>& made) {
  const Node& node = g.nodes[n];
  if (node.op == kConstantOp) return {b.constant(g.constant(n))};
  if (node.op == kGetOp) {
    const Made& tuple = made[node.args[0].value];
    auto index = node.attrs.get<int64_t>("index");
    // A tuple that was taken apart is its items; one that a node still makes is asked.
    if (b.type(tuple[0]).kind == Type::Kind::tuple) return {b.get(tuple[0], index)};
    return {tuple[static_cast<size_t>(index)]};
  }
  std::vector<NodeId> args;
  std::vector<Type> types;
  for (NodeId a : node.args) {
    args.push_back(whole(b, g.type(a), made[a.value]));
    types.push_back(g.type(a));
  }
  const OpDef& def = op_def(node);
  auto is_tuple = [](const Type& t) { return t.kind == Type::Kind::tuple; };
  if (def.name == "tuple" && std::ranges::none_of(types, is_tuple)) return args;
  if (def.expand && !def.means && !def.eval && def.body.empty()) {
    std::vector<Made> results;
    copy_into(b, expansion(def, node.attrs, types), args, results);
    Made items;
    for (const Made& r : results) items.push_back(r[0]);
    return items;
  }
  Attrs attrs = def.kind == Kind::scan ? with_decomposed_bodies(node.attrs) : node.attrs;
  return {b.try_op(node.op, args, attrs).value_or_throw()};
}

void copy_into(GraphBuilder& b, const Graph& g, std::vector<NodeId> inputs,
               std::vector<Made>& outputs) {
  std::vector<Made> made(g.size());
  for (size_t i = 0; i < inputs.size(); ++i) made[g.inputs[i].node.value] = {inputs[i]};
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n{i};
    if (g.nodes[n].op == kInputOp) continue;
    if (!g.names[n].empty()) b.set_origin(g.names[n]);
    made[i] = copy_node(b, g, n, made);
  }
  for (const auto& o : g.outputs) outputs.push_back(made[o.node.value]);
}

}  // namespace

Graph decomposed(const Graph& g) {
  GraphBuilder b;
  std::vector<NodeId> inputs;
  for (const auto& i : g.inputs) inputs.push_back(b.input(i.name, g.type(i.node), i.donated));
  std::vector<Made> outputs;
  copy_into(b, g, inputs, outputs);
  for (size_t o = 0; o < g.outputs.size(); ++o)
    b.output(g.outputs[o].name, whole(b, g.type(g.outputs[o].node), outputs[o]));
  return std::move(b).build();
}

}  // namespace emend
