#include "export/graph_writer.h"

#include <algorithm>

#include "export/wire.h"
#include "ops/onnx_row.h"
#include "ops/table.h"

namespace emend {
namespace {

onnx::Node identity(const std::string& from, const std::string& to) {
  onnx::Node n;
  n.op_type = "Identity";
  n.name = to;
  n.input = {from};
  n.output = {to};
  return n;
}

}  // namespace

GraphWriter::Place GraphWriter::place_of(const Graph& g, NodeId n) {
  const Node& node = g.nodes[n];
  if (node.op == kGetOp) return {node.args[0], node.attrs.get<int64_t>("index")};
  return {n, 0};
}

std::string GraphWriter::fresh(const std::string& wanted) {
  if (used_.insert(wanted).second) return wanted;
  for (size_t& k = counts_[wanted];;) {
    std::string name = str(wanted, "_", ++k);
    if (used_.insert(name).second) return name;
  }
}

onnx::Graph GraphWriter::main_graph(const Graph& g) {
  onnx::Graph out;
  Page page{g, out};
  std::vector<std::string> outputs;
  for (const auto& i : g.inputs) {
    used_.insert(i.name);
    page.names[{i.node, 0}] = i.name;
    out.input.emplace_back().name = i.name;
  }
  for (const auto& o : g.outputs) {
    used_.insert(o.name);
    outputs.push_back(o.name);
  }
  write(page, std::move(outputs));
  return out;
}

// What computes an output is called like it, once; whatever else an output shows (an input, a
// constant, another output's value) goes through an Identity, unless it has that name already.
void GraphWriter::write(Page& page, std::vector<std::string> output_names) {
  const Graph& g = page.g;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    Place p = place_of(g, g.outputs[i].node);
    bool computed = g.nodes[p.node].op != kInputOp && g.nodes[p.node].op != kConstantOp;
    if (computed) page.names.insert({p, output_names[i]});
  }
  // Several nodes may come from one of the input model: the last one makes its result.
  std::unordered_map<std::string, NodeId> last;
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    if (g.nodes[id].op != kGetOp) last[g.names[id]] = id;
  }
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    if (n.op == kInputOp || n.op == kGetOp) continue;
    write_node(page, id, last.at(g.names[id]) == id && !g.names[id].empty());
  }
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    page.out.output.emplace_back().name = output_names[i];
    const std::string& name = page.names.at(place_of(g, g.outputs[i].node));
    if (name == output_names[i]) continue;
    page.out.node.push_back(identity(name, output_names[i]));
    domains_.insert({"", 0});
  }
}

void GraphWriter::write_node(Page& page, NodeId id, bool keeps_name) {
  const Graph& g = page.g;
  const Node& n = g.nodes[id];
  const std::string& origin = g.names[id];
  if (n.op == kConstantOp) {
    std::string name = fresh(origin.empty() ? "constant" : keeps_name ? origin : origin + "_c");
    page.names[{id, 0}] = name;
    page.out.initializer.push_back(to_wire(g.constant(id), name));
    return;
  }
  EMEND_ASSERT(op_def(n).kind == Kind::opaque, op_def(n).name, " was not raised");
  auto node = n.attrs.as<OnnxNode>();
  int64_t& version = domains_[node.domain];
  version = std::max(version, node.version);
  onnx::Node out;
  out.op_type = node.type;
  out.domain = node.domain;
  size_t next = 0;
  for (int64_t present : node.present)
    out.input.push_back(present ? page.names.at(place_of(g, n.args[next++])) : "");
  std::vector<NodeId> captured(n.args.begin() + static_cast<ptrdiff_t>(next), n.args.end());
  size_t first_captured = 0, graph_index = 0;
  for (const auto& [name, value] : node.attributes.entries()) {
    auto* body = value.as<GraphRef>();
    if (!body) {
      out.attribute.push_back(to_wire(name, value));
      continue;
    }
    auto count = static_cast<size_t>(node.captures.at(graph_index++));
    out.attribute.push_back(
        subgraph(page, name, **body, std::span(captured).subspan(first_captured, count)));
    first_captured += count;
  }
  std::string wanted = origin.empty() ? node.type : keeps_name ? origin : origin + "_" + node.type;
  for (int64_t r = 0; r < node.outputs; ++r) {
    auto [it, unnamed] = page.names.insert({{id, r}, ""});
    if (unnamed) it->second = fresh(r == 0 ? wanted : str(wanted, "_", r));
    out.output.push_back(it->second);
  }
  out.name = out.output[0];
  describe_results(page, node, out);
  page.out.node.push_back(std::move(out));
}

// What the file said of an operator that we do not know, nobody could infer again.
void GraphWriter::describe_results(Page& page, const OnnxNode& node, const onnx::Node& written) {
  for (size_t r = 0; r < written.output.size(); ++r) {
    const Type& type = node.outputs == 1                       ? node.result
                       : node.result.kind == Type::Kind::tuple ? node.result.items.at(r)
                                                               : node.result;
    bool is_output = std::any_of(page.g.outputs.begin(), page.g.outputs.end(),
                                 [&](const auto& o) { return o.name == written.output[r]; });
    if (!type.is_tensor() || is_output) continue;
    onnx::ValueInfo& info = page.out.value_info.emplace_back();
    info.name = written.output[r];
    info.type = to_wire(type);
  }
}

onnx::Attribute GraphWriter::subgraph(Page& page, const std::string& name, const Graph& body,
                                      std::span<const NodeId> captured) {
  onnx::Attribute out;
  out.name = name;
  out.type = onnx::AttributeType::kGraph;
  onnx::Graph& graph = out.g.emplace();
  graph.name = name;
  Page inner{body, graph};
  EMEND_ASSERT(captured.size() <= body.inputs.size(), name);
  size_t formal = body.inputs.size() - captured.size();
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    NodeId input = body.inputs[i].node;
    if (i >= formal) {
      inner.names[{input, 0}] = page.names.at(place_of(page.g, captured[i - formal]));
      continue;
    }
    std::string formal_name = fresh(body.inputs[i].name.empty() ? "x" : body.inputs[i].name);
    inner.names[{input, 0}] = formal_name;
    onnx::ValueInfo& info = graph.input.emplace_back();
    info.name = formal_name;
    if (body.types[input] != Type::any()) info.type = to_wire(body.types[input]);
  }
  std::vector<std::string> outputs;
  for (const auto& o : body.outputs) outputs.push_back(fresh(o.name.empty() ? "y" : o.name));
  write(inner, std::move(outputs));
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    const Type& type = body.types[body.outputs[i].node];
    if (type != Type::any()) graph.output[i].type = to_wire(type);
  }
  return out;
}

}  // namespace emend
