#include "ops/onnx_raise.h"

#include <algorithm>
#include <climits>
#include <map>

#include "ir/memory_budget.h"
#include "ops/families.h"
#include "ops/onnx_lower.h"
#include "ops/spell_out.h"
#include "ops/table.h"

namespace emend {

namespace {

// Other domains have version numbers of their own: the oldest that has the node as our row writes
// it.
int64_t version_of(const std::string& domain, const std::string& type, int64_t opset) {
  if (domain.empty()) return opset;
  const OnnxRow* newest = find_onnx(domain, type, INT_MAX - 1).row;
  return newest ? newest->since : 1;
}

}  // namespace

std::vector<NodeId> OnnxWriter::emit(const std::string& onnx_type, std::vector<NodeId> inputs,
                                     std::vector<Attrs::Entry> attributes, int outputs,
                                     const std::string& domain) {
  OnnxNode node{.type = onnx_type,
                .domain = domain,
                .version = version_of(domain, onnx_type, opset),
                .attributes = Attrs(std::move(attributes)),
                .outputs = outputs};
  std::vector<NodeId> present;
  const size_t least =
      onnx_type == "Loop" ? 2 : 0;  // both may be absent, and must have their place
  while (inputs.size() > least && !inputs.back().valid()) inputs.pop_back();
  for (NodeId i : inputs) {
    node.present.push_back(i.valid());
    if (i.valid()) present.push_back(i);
  }
  NodeId n = add_onnx_node(b, node, present);
  if (outputs == 1) return {n};
  std::vector<NodeId> items;
  for (int i = 0; i < outputs; ++i) items.push_back(b.get(n, i));
  return items;
}

std::vector<Attrs::Entry> given_attributes(Attrs attrs) {
  std::vector<Attrs::Entry> given;
  for (const auto& [name, value] : attrs.entries()) {
    bool empty = std::visit(
        []<class T>(const T& v) {
          if constexpr (std::is_same_v<T, Tensor>) return v.count() == 0;
          if constexpr (requires {
                          v.begin();
                          v.empty();
                        })
            return v.empty();
          return false;
        },
        value.storage());
    // ONNX has no bools among attributes.
    if (auto* flag = value.as<bool>())
      given.emplace_back(name, int64_t{*flag});
    else if (!empty)
      given.emplace_back(name, value);
  }
  return given;
}

NodeId OnnxWriter::ints(const Dims& values) {
  return b.constant(Tensor::of_ints(values));
}

NodeId OnnxWriter::number(double v) {
  return b.constant(Tensor::of_real(v, types.at(0).dtype));
}

namespace {

// The row by which an operator is written at this opset.
const OnnxRow* raising_row(const OpDef& def, int64_t opset) {
  for (const OnnxRow& r : def.onnx) {
    if (!r.lower_only && r.since <= opset && opset < r.before && (r.raise || !r.lower)) return &r;
  }
  return nullptr;
}

std::vector<NodeId> raise_by_name(OnnxWriter& w, const OpDef& def, const OnnxRow& row) {
  std::map<size_t, NodeId> shape_operands;  // by input; the arguments fill the rest in order
  std::vector<Attrs::Entry> attributes;
  for (const AttrSpec& spec : def.attrs) {
    const AttrValue& v = *w.attrs.find(spec.name);
    auto operand =
        std::find_if(row.operands.begin(), row.operands.end(), [&](const ShapeOperand& o) {
          return o.attr == spec.name && o.since <= w.opset && w.opset < o.before;
        });
    if (operand != row.operands.end()) {
      auto at = static_cast<size_t>(operand->input);
      if (auto* ints = v.as<Dims>())
        shape_operands[at] = w.ints(*ints);
      else if (auto* i = v.as<int64_t>())
        shape_operands[at] = w.b.constant(Tensor::of_int(*i));
      else if (auto* d = v.as<double>())
        shape_operands[at] = w.b.constant(Tensor::of_real(*d, DType::f32));
      else if (auto* t = v.as<Tensor>())
        shape_operands[at] = w.b.constant(*t);
      continue;
    }
    auto renamed = std::find_if(row.rename.begin(), row.rename.end(),
                                [&](const auto& r) { return r.first == spec.name; });
    const std::string& name = renamed == row.rename.end() ? spec.name : renamed->second;
    // ONNX has no bools among attributes.
    if (auto* flag = v.as<bool>())
      attributes.emplace_back(name, int64_t{*flag});
    else if (auto* t = v.as<DType>())
      attributes.emplace_back(name, int64_t{info(*t).onnx});
    else
      attributes.emplace_back(name, v);
  }
  std::vector<NodeId> inputs;
  auto rest = w.args.begin();
  while (rest != w.args.end() || !shape_operands.empty()) {
    auto given = shape_operands.extract(inputs.size());
    inputs.push_back(given ? given.mapped() : rest != w.args.end() ? *rest++ : NodeId());
  }
  int outputs = w.type.kind == Type::Kind::tuple ? static_cast<int>(w.type.items.size()) : 1;
  return w.emit(row.type, inputs, std::move(attributes), outputs, row.domain);
}

class Raising {
 public:
  Raising(GraphBuilder& b, int64_t opset) : b_(b), opset_(opset) {}

  // `results[n]` are the ONNX values that stand for node n: several for a tuple.
  std::vector<NodeId> run(const Graph& g, Args args) {
    std::map<NodeId, std::vector<NodeId>> results;
    for (size_t i = 0; i < args.size(); ++i) results[g.inputs[i].node] = {args[i]};
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId id{i};
      const Node& n = g.nodes[id];
      b_.set_origin(g.names[id]);
      if (n.op == kInputOp) continue;
      if (n.op == kConstantOp) {
        results[id] = {b_.constant(g.constant(id))};
      } else if (n.op == kGetOp) {
        results[id] = {results[n.args[0]].at(static_cast<size_t>(n.attrs.get<int64_t>("index")))};
      } else if (op_def(n).name == "tuple") {
        for (NodeId a : n.args) results[id].push_back(results[a].at(0));
      } else {
        results[id] = raise_node(g, id, results);
      }
    }
    std::vector<NodeId> outputs;
    for (const auto& o : g.outputs) outputs.push_back(results[o.node].at(0));
    return outputs;
  }

 private:
  std::vector<NodeId> raise_node(const Graph& g, NodeId id,
                                 const std::map<NodeId, std::vector<NodeId>>& results) {
    const Node& n = g.nodes[id];
    const OpDef& def = op_def(n);
    OnnxWriter w{b_, g, id, n.attrs, {}, {}, g.types[id], opset_};
    for (NodeId a : n.args) {
      w.args.push_back(results.at(a).at(0));
      w.types.push_back(g.types[a]);
    }
    if (def.kind == Kind::opaque) {
      auto node = n.attrs.as<OnnxNode>();
      NodeId made = add_onnx_node(b_, node, w.args);
      if (node.outputs == 1) return {made};
      return b_.get_all(made);
    }
    if (const OnnxRow* row = raising_row(def, opset_)) {
      auto made = row->raise ? row->raise(w) : raise_by_name(w, def, *row);
      if (!made.empty()) return made;
    }
    for (const OnnxRow& row : def.onnx) {
      if (!row.spell || opset_ >= row.since) continue;
      auto made = row.spell(w);
      if (!made.empty()) return made;
    }
    if (def.expand) return run(expansion(def, n.attrs, w.types), w.args);
    if (auto spelled = spelled_out(def, n.attrs, w.types)) return run(*spelled, w.args);
    throw Error(str("operator ", def.name, g.names[id].empty() ? "" : " of node " + g.names[id],
                    " cannot be written at opset ", opset_, "; try a higher --target-opset"));
  }

  GraphBuilder& b_;
  int64_t opset_;
};

// What may be made of a program while it is written: operators without a word of their own in ONNX
// are written out with the constants that they imply, which may be larger than anything in the
// file.
uint64_t memory_to_raise(const Graph& g) {
  uint64_t bytes = uint64_t{128} << 20;
  for (const Tensor& t : g.constants) bytes += t.bytes().size();
  return bytes;
}

}  // namespace

Graph raise_onnx(const Graph& g, int64_t opset) {
  const MemoryBudget budget(memory_to_raise(g));
  GraphBuilder b;
  std::vector<NodeId> args;
  for (const auto& i : g.inputs) args.push_back(b.input(i.name, g.types[i.node], i.donated));
  auto outputs = Raising(b, opset).run(g, args);
  for (size_t i = 0; i < outputs.size(); ++i) b.output(g.outputs[i].name, outputs[i]);
  return std::move(b).build();
}

}  // namespace emend
