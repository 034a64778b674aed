#include <algorithm>
#include <map>
#include <optional>

#include "fuse/fuse.h"
#include "ops/build.h"
#include "ops/families.h"
#include "ops/table.h"
#include "ops/view.h"
#include "ops/view_compose.h"

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

// The view that a node is to its only operand.
std::optional<View> view_of(const Graph& g, NodeId n) {
  const Node& node = g.nodes[n];
  const OpDef& def = op_def(node);
  if (node.args.size() != 1 || def.kind != Kind::movement || !def.means) return std::nullopt;
  const Type& from = g.type(node.args[0]);
  if (!from.is_tensor() || !g.type(n).is_tensor()) return std::nullopt;
  return as_view(meaning_of(def, node.attrs, std::span(&from, 1)), g.type(n).shape);
}

// Views that follow one another, seen from the last one back to where others read, too.
struct ViewChain {
  NodeId from;
  View view;
  int length = 0;
};

std::optional<ViewChain> chain_to(const Graph& g, NodeId n, const std::vector<int>& uses) {
  std::optional<ViewChain> chain;
  while (g.nodes[n].op != kInputOp && g.nodes[n].op != kConstantOp &&
         (!chain || uses[n.value] == 1)) {
    auto own = view_of(g, n);
    if (!own) break;
    NodeId from = g.nodes[n].args[0];
    if (chain) {
      auto both = composed(chain->view, *own, g.type(from).shape);
      if (!both || both->mask) break;
      *own = std::move(both->view);
    }
    chain = {from, std::move(*own), chain ? chain->length + 1 : 1};
    n = from;
  }
  return chain;
}

// What a convolution reads, as one view: parts of a chain would be stored in shapes of which nobody
// knows where their channels are.
Graph with_whole_views(const Graph& g) {
  std::vector<int> uses(g.size(), 0);
  for (size_t i = 0; i < g.size(); ++i)
    for (NodeId a : g.nodes[NodeId(i)].args) ++uses[a.value];
  for (const auto& o : g.outputs) ++uses[o.node.value];
  std::map<NodeId, ViewChain> chains;
  for (size_t i = 0; i < g.size(); ++i) {
    const Node& node = g.nodes[NodeId(i)];
    if (op_def(node).name != "conv") continue;
    auto chain = chain_to(g, node.args[0], uses);
    if (chain && chain->length > 1 && !g.is_constant(chain->from))
      chains.try_emplace(node.args[0], std::move(*chain));
  }
  if (chains.empty()) return g;
  GraphBuilder b;
  std::vector<NodeId> made(g.size());
  for (const auto& i : g.inputs) made[i.node.value] = b.input(i.name, g.type(i.node), i.donated);
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n{i};
    const Node& node = g.nodes[n];
    if (node.op == kInputOp) continue;
    if (!g.names[n].empty()) b.set_origin(g.names[n]);
    if (node.op == kConstantOp) {
      made[i] = b.constant(g.constant(n));
      continue;
    }
    if (auto it = chains.find(n); it != chains.end()) {
      made[i] =
          b.op("view", {made[it->second.from.value]}, Attrs({{"map", to_text(it->second.view)}}));
      continue;
    }
    std::vector<NodeId> args;
    for (NodeId a : node.args) args.push_back(made[a.value]);
    made[i] = b.try_op(node.op, args, node.attrs).value_or_throw();
  }
  for (const auto& o : g.outputs) b.output(o.name, made[o.node.value]);
  return without_dead_nodes(std::move(b).build());
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
  return with_whole_views(std::move(b).build());
}

}  // namespace emend
