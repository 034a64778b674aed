#include "ops/build.h"

#include <algorithm>

#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

bool is_structure(OpId op) {
  return op == kInputOp || op == kConstantOp;
}

}  // namespace

Result<Attrs> complete_attrs(const OpDef& def, Attrs given) {
  std::vector<Attrs::Entry> entries;
  size_t known = 0;
  for (const AttrSpec& spec : def.attrs) {
    const AttrValue* v = given.find(spec.name);
    if (!v) {
      if (spec.required) return fail(def.name, " needs the attribute ", spec.name);
      entries.emplace_back(spec.name, spec.fallback);
      continue;
    }
    ++known;
    if (v->storage().index() == spec.fallback.storage().index()) {
      entries.emplace_back(spec.name, *v);
    } else if (spec.fallback.as<double>() && v->as<int64_t>()) {
      entries.emplace_back(spec.name, static_cast<double>(*v->as<int64_t>()));
    } else if (spec.fallback.as<bool>() && v->as<int64_t>()) {
      entries.emplace_back(spec.name, *v->as<int64_t>() != 0);
    } else {
      return fail(def.name, ": attribute ", spec.name, " has the wrong type: ", to_text(*v));
    }
  }
  if (known != given.entries().size()) {
    for (const auto& entry : given.entries()) {
      auto spec = std::find_if(def.attrs.begin(), def.attrs.end(),
                               [&](const AttrSpec& s) { return s.name == entry.first; });
      if (spec == def.attrs.end()) return fail(def.name, " has no attribute ", entry.first);
    }
  }
  return Attrs(std::move(entries));
}

Result<Type> infer_type(const OpDef& def, Attrs attrs, Types args) {
  auto n = static_cast<int>(args.size());
  if (n < def.min_args || (def.max_args >= 0 && n > def.max_args)) {
    return fail(def.name, " takes ", def.min_args,
                def.max_args == def.min_args ? ""
                : def.max_args < 0           ? " or more"
                                             : str(" to ", def.max_args),
                " operands, got ", n);
  }
  bool on_host = def.kind == Kind::structure || def.kind == Kind::host ||
                 def.kind == Kind::opaque || def.kind == Kind::scan;
  for (size_t i = 0; i < args.size() && !on_host; ++i) {
    if (!args[i].is_tensor()) return fail(def.name, ": operand ", i, " is ", to_text(args[i]));
  }
  auto type = def.infer ? def.infer(attrs, args) : infer_by_expansion(def, attrs, args);
  if (type && type->is_tensor() && !checked_count(type->shape)) {
    return fail(def.name, " would make a tensor of absurd shape ", shape_text(type->shape));
  }
  return type;
}

NodeId GraphBuilder::add(Node node, Type type) {
  graph_.types.push_back(std::move(type));
  graph_.names.push_back(origin_);
  return graph_.nodes.push_back(std::move(node));
}

NodeId GraphBuilder::input(std::string name, Type type, bool donated) {
  auto index = static_cast<int64_t>(graph_.inputs.size());
  NodeId n = add({kInputOp, Attrs({{"index", index}}), {}}, std::move(type));
  graph_.names[n] = name;
  graph_.inputs.push_back({std::move(name), n, donated});
  return n;
}

NodeId GraphBuilder::constant(Tensor value) {
  Type type = value.type();
  auto index = static_cast<int64_t>(graph_.constants.push_back(std::move(value)).value);
  return add({kConstantOp, Attrs({{"index", index}}), {}}, std::move(type));
}

NodeId GraphBuilder::shared_constant(NodeId constant) {
  EMEND_ASSERT(graph_.is_constant(constant));
  return add(graph_.nodes[constant], graph_.types[constant]);
}

Result<NodeId> GraphBuilder::try_op(OpId op, Args args, Attrs attrs) {
  EMEND_ASSERT(op.valid() && !is_structure(op));
  const OpDef& def = op_def(op);
  auto complete = complete_attrs(def, attrs);
  if (!complete) return Failure{complete.error()};
  std::vector<Type> types;
  for (NodeId a : args) {
    // An id that stands for an absent input of an ONNX node.
    if (!a.valid()) return fail(def.name, ": operand ", types.size(), " is missing");
    EMEND_ASSERT(a.value < graph_.size(), def.name, ": operand out of range");
    types.push_back(graph_.types[a]);
  }
  auto type = infer_type(def, *complete, types);
  if (!type) return Failure{type.error()};
  return add({op, *complete, SmallVec<NodeId, 4>(args)}, std::move(*type));
}

NodeId GraphBuilder::op(std::string_view name, Args args, Attrs attrs) {
  return try_op(op_named(name), args, attrs).value_or_throw();
}

NodeId GraphBuilder::get(NodeId tuple, int64_t index) {
  return op("get", {tuple}, Attrs({{"index", index}}));
}

std::vector<NodeId> GraphBuilder::get_all(NodeId tuple) {
  if (type(tuple).kind != Type::Kind::tuple) return {tuple};
  std::vector<NodeId> items;
  size_t n = type(tuple).items.size();
  for (size_t i = 0; i < n; ++i) items.push_back(get(tuple, static_cast<int64_t>(i)));
  return items;
}

void GraphBuilder::output(std::string name, NodeId node) {
  EMEND_ASSERT(node.valid() && node.value < graph_.size(), name);
  graph_.outputs.push_back({.name = std::move(name), .node = node});
}

Graph GraphBuilder::build() && {
  return without_dead_nodes(graph_);
}

Graph without_dead_nodes(const Graph& g) {
  IdVec<NodeId, char> needed(g.size(), 0);
  for (const auto& i : g.inputs) needed[i.node] = 1;
  for (const auto& o : g.outputs) needed[o.node] = 1;
  for (size_t i = g.size(); i-- > 0;) {
    if (!needed[NodeId(i)]) continue;
    for (NodeId a : g.nodes[NodeId(i)].args) needed[a] = 1;
  }
  Graph out;
  IdVec<NodeId, NodeId> renamed(g.size());
  IdVec<ConstId, int64_t> constants(g.constants.size(), -1);
  std::vector<NodeId> order;
  for (const auto& i : g.inputs) order.push_back(i.node);
  for (size_t i = 0; i < g.size(); ++i) {
    if (g.nodes[NodeId(i)].op != kInputOp) order.push_back(NodeId(i));
  }
  for (NodeId old : order) {
    if (!needed[old]) continue;
    Node n = g.nodes[old];
    for (NodeId& a : n.args) a = renamed[a];
    if (n.op == kConstantOp) {
      ConstId c{static_cast<size_t>(n.attrs.get<int64_t>("index"))};
      if (constants[c] < 0) {
        constants[c] = static_cast<int64_t>(out.constants.push_back(g.constants[c]).value);
      }
      n.attrs = Attrs({{"index", constants[c]}});
    }
    renamed[old] = out.nodes.push_back(std::move(n));
    out.types.push_back(g.types[old]);
    out.names.push_back(g.names[old]);
  }
  out.inputs = g.inputs;
  out.outputs = g.outputs;
  for (auto& i : out.inputs) i.node = renamed[i.node];
  for (auto& o : out.outputs) o.node = renamed[o.node];
  return out;
}

std::vector<NodeId> splice(GraphBuilder& to, const Graph& from, Args args) {
  EMEND_ASSERT(args.size() == from.inputs.size(), args.size(), " for ", from.inputs.size());
  IdVec<NodeId, NodeId> made(from.size());
  for (size_t i = 0; i < args.size(); ++i) made[from.inputs[i].node] = args[i];
  for (size_t i = 0; i < from.size(); ++i) {
    NodeId id{i};
    const Node& n = from.nodes[id];
    if (n.op == kInputOp) continue;
    to.set_origin(from.names[id]);
    if (n.op == kConstantOp) {
      made[id] = to.constant(from.constant(id));
      continue;
    }
    std::vector<NodeId> operands;
    for (NodeId a : n.args) operands.push_back(made[a]);
    made[id] = to.try_op(n.op, operands, n.attrs).value_or_throw();
  }
  std::vector<NodeId> results;
  for (const auto& o : from.outputs) results.push_back(made[o.node]);
  return results;
}

}  // namespace emend
