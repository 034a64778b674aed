#include "ops/onnx_lower.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "ir/memory_budget.h"
#include "ops/evaluate.h"
#include "ops/table.h"

namespace emend {

const Type& OnnxCall::type(size_t i) const {
  if (!has(i)) throw Error(str(node.type, " needs input ", i));
  return b.type(inputs[i]);
}

std::optional<Tensor> OnnxCall::value(size_t i) const {
  return has(i) && value_of ? value_of(inputs[i]) : std::nullopt;
}

std::optional<Tensor> value_of_data(const OnnxCall& c, size_t i) {
  bool known = c.has(i) && follows_from(Known::constants_and_sizes, c.b.graph(), c.inputs[i]);
  return known ? c.value(i) : std::nullopt;
}

bool follows_from(Known known, const Graph& g, NodeId value) {
  std::vector<NodeId> open = {value};
  std::set<NodeId> seen;
  while (!open.empty()) {
    NodeId id = open.back();
    open.pop_back();
    if (g.is_constant(id) || !seen.insert(id).second) continue;
    const Node& n = g.nodes[id];
    Kind kind = op_def(n).kind;
    if (n.op == kInputOp || kind == Kind::random) return false;
    if (kind == Kind::opaque) {
      if (known == Known::constants) return false;
      auto node = n.attrs.as<OnnxNode>();
      if (node.domain.empty() && (node.type == "Shape" || node.type == "Size")) continue;
    }
    open.insert(open.end(), n.args.begin(), n.args.end());
  }
  return true;
}

namespace {

// A value as a list of numbers; lists of attributes are copied a few times on their way.
void spend_list(const Tensor& v) {
  spend_memory(4 * sizeof(int64_t) * static_cast<uint64_t>(v.count()), "a list of numbers");
}

Dims list_of(const Tensor& v) {
  spend_list(v);
  return v.ints();
}

}  // namespace

Result<Dims> OnnxCall::ints(size_t i) const {
  if (!has(i)) throw Error(str(node.type, " needs input ", i));
  auto v = value(i);
  if (!v) return fail("the value of input ", i, " is not known before run time");
  if (v->dtype() == DType::string || is_complex(v->dtype()))
    throw Error(str(node.type, ": input ", i, " is ", to_text(v->type()), ", not integers"));
  return list_of(*v);
}

namespace {

// A value larger than this is not a shape operand.
constexpr int64_t kMaxFolded = 1 << 20;
// What is evaluated by hand may take more than linear time (sorting, suppressing boxes,
// determinants); of more elements than this it waits for run time.
constexpr int64_t kMaxByHand = 1 << 14;

// What a value follows from: inputs, constants alone, or sizes (and constants).
enum class Source : uint8_t { inputs, constants, sizes };

class Lowering {
 public:
  Lowering(GraphBuilder& b, InputValue input_value, const LowerOptions& options = {})
      : b_(b), input_value_(std::move(input_value)), options_(options) {}

  std::vector<NodeId> run(const Graph& g, Args args) {
    IdVec<NodeId, NodeId> made(g.size());
    std::map<NodeId, std::vector<NodeId>> tuples;
    for (size_t i = 0; i < args.size(); ++i) made[g.inputs[i].node] = args[i];
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId id{i};
      const Node& n = g.nodes[id];
      b_.set_origin(g.names[id]);
      if (n.op == kInputOp) continue;
      if (n.op == kConstantOp) {
        made[id] = b_.constant(g.constant(id));
      } else if (n.op == kGetOp && tuples.contains(n.args[0])) {
        made[id] = tuples[n.args[0]].at(static_cast<size_t>(n.attrs.get<int64_t>("index")));
      } else {
        std::vector<NodeId> operands;
        for (NodeId a : n.args) operands.push_back(made[a]);
        if (op_def(n).kind != Kind::opaque) {
          made[id] = b_.try_op(n.op, operands, n.attrs).value_or_throw();
          continue;
        }
        auto node = n.attrs.as<OnnxNode>();
        auto results = with_note(
            [&] {
              return str("node ", g.names[id].empty() ? "" : g.names[id] + " ", "(", node.type,
                         ")");
            },
            [&] { return lower_node(node, operands, g.names[id]); });
        made[id] = results.empty() ? NodeId() : results[0];
        tuples[id] = std::move(results);
      }
    }
    std::vector<NodeId> results;
    for (const auto& o : g.outputs) results.push_back(made[o.node]);
    return results;
  }

  // One ONNX node: operators by its row, or an `onnx` node. One id per output.
  std::vector<NodeId> lower_node(const OnnxNode& node, Args operands, const std::string& name) {
    spend_node(name.size());
    const Source source = source_of(node, operands);
    const bool kept = options_.kept.contains(name) ||
                      (source == Source::sizes && options_.kept_of_sizes.contains(name));
    auto result = kept ? keep(node, operands) : try_lower(node, operands);
    if (!result) {
      deferred.push_back(
          str(name.empty() ? "a node" : name, " (", node.type, "): ", result.error()));
      return results_of(node, add_onnx_node(b_, node, operands));
    }
    if (source == Source::inputs || kept) return std::move(*result);
    for (NodeId r : *result) sources_[r] = source;
    if (source == Source::sizes) {
      auto& values = of_sizes[name];
      for (NodeId r : *result) values.push_back(value_of(r));
    }
    return std::move(*result);
  }

  Result<std::vector<NodeId>> try_lower(const OnnxNode& node, Args operands) {
    OnnxEntry entry = find_onnx(node.domain, node.type, node.version);
    if (!entry.row) {
      return fail("the operator ", node.domain.empty() ? "" : node.domain + ".", node.type,
                  " of opset ", node.version, " is not known");
    }
    for (NodeId n : operands) {
      if (b_.type(n).kind == Type::Kind::any)
        return fail("an operand's type is known only at run time");
    }
    OnnxCall call{b_,
                  node,
                  {},
                  {},
                  [this](NodeId n) { return value_of(n); },
                  [this](const Graph& g, Args args) { return run(g, args); }};
    size_t next = 0;
    for (int64_t present : node.present)
      call.inputs.push_back(present ? operands[next++] : NodeId());
    call.captured.assign(operands.begin() + static_cast<int64_t>(next), operands.end());
    auto results = lower_by_row(call, entry);
    if (results && static_cast<int64_t>(results->size()) < node.outputs) {
      return fail("output ", results->size(), " is not supported");
    }
    return results;
  }

  std::vector<std::string> deferred;
  std::map<std::string, std::vector<std::optional<Tensor>>> of_sizes;

 private:
  std::vector<NodeId> results_of(const OnnxNode& node, NodeId n) {
    if (node.outputs == 1) return {n};
    std::vector<NodeId> items;
    for (int64_t i = 0; i < node.outputs; ++i) items.push_back(b_.get(n, i));
    return items;
  }

  Source source_of(NodeId n) const {
    if (b_.graph().is_constant(n) && !sources_.contains(n)) return Source::constants;
    auto it = sources_.find(n);
    return it == sources_.end() ? Source::inputs : it->second;
  }

  Source source_of(const OnnxNode& node, Args operands) const {
    const bool is_size = node.domain.empty() && (node.type == "Shape" || node.type == "Size");
    OnnxEntry entry = find_onnx(node.domain, node.type, node.version);
    if (!entry.row || op_def(entry.op).kind == Kind::random) return Source::inputs;
    Source all = Source::constants;
    for (NodeId n : operands) {
      const Source one = source_of(n);
      if (one == Source::inputs) return is_size ? Source::sizes : Source::inputs;
      if (one == Source::sizes) all = Source::sizes;
    }
    return all;
  }

  // The node as it is, with the types, and the values where they are known, that lowering it finds.
  Result<std::vector<NodeId>> keep(OnnxNode node, Args operands) {
    GraphBuilder scratch;
    std::vector<NodeId> stand_ins;
    for (NodeId n : operands) {
      if (b_.type(n).kind == Type::Kind::any)
        return fail("an operand's type is known only at run time");
      auto value = b_.type(n).is_tensor() ? value_of(n) : std::nullopt;
      stand_ins.push_back(value ? scratch.constant(*value)
                                : scratch.input(str("x", stand_ins.size()), b_.type(n)));
    }
    Lowering lowering(scratch, {});
    auto lowered = lowering.try_lower(node, stand_ins);
    if (!lowered) return Failure{lowered.error()};
    std::vector<Type> types;
    for (NodeId r : *lowered) types.push_back(scratch.type(r));
    types.resize(static_cast<size_t>(node.outputs), Type::any());
    node.result = node.outputs == 1 ? types[0] : Type::tuple(std::move(types));
    auto results = results_of(node, add_onnx_node(b_, node, operands));
    for (size_t i = 0; i < results.size(); ++i)
      folded_[results[i]] = lowering.value_of((*lowered)[i]);
    return results;
  }

  // Rows read inputs, shapes and lists of attributes by `at`: a malformed node has fewer.
  Result<std::vector<NodeId>> lower_by_row(OnnxCall& c, OnnxEntry entry) {
    try {
      return entry.row->lower ? entry.row->lower(c) : lower_by_name(c, entry);
    } catch (const std::out_of_range&) {
      throw Error("has too few inputs, dimensions or entries of an attribute");
    }
  }

  // The default: attributes by name, shape operands from inputs.
  Result<std::vector<NodeId>> lower_by_name(OnnxCall& c, OnnxEntry entry) {
    const OpDef& def = op_def(entry.op);
    const OnnxRow& row = *entry.row;
    std::vector<Attrs::Entry> attrs;
    std::set<std::string> known = {"consumed_inputs"};  // of opsets long gone, without meaning
    std::set<size_t> taken;
    for (const AttrSpec& spec : def.attrs) {
      auto renamed = std::find_if(row.rename.begin(), row.rename.end(),
                                  [&](const auto& r) { return r.first == spec.name; });
      std::string name = renamed == row.rename.end() ? spec.name : renamed->second;
      known.insert(name);
      if (const AttrValue* v = c.node.attributes.find(name))
        attrs.emplace_back(spec.name, *v);
      else if (const double* real = spec.fallback.as<double>())
        attrs.emplace_back(spec.name, c.real_attr(name, *real));
      for (const ShapeOperand& o : row.operands) {
        auto input = static_cast<size_t>(o.input);
        if (o.attr != spec.name || c.version() < o.since || c.version() >= o.before) continue;
        taken.insert(input);
        if (!c.has(input)) continue;
        auto v = c.value(input);
        if (!v) return fail("the value of input ", input, " is not known before run time");
        attrs.emplace_back(spec.name, operand_value(spec, *v));
      }
    }
    for (const auto& [name, value] : c.node.attributes.entries()) {
      if (!known.contains(name)) return fail("attribute ", name, " is not understood");
    }
    std::vector<NodeId> args;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (taken.contains(i)) continue;
      if (!c.has(i)) {
        if (i + 1 < c.inputs.size()) return fail("input ", i, " is left out");
        continue;
      }
      args.push_back(c.inputs[i]);
    }
    NodeId n = b_.op(def.name, args, Attrs(std::move(attrs)));
    return b_.get_all(n);
  }

  static AttrValue operand_value(const AttrSpec& spec, const Tensor& v) {
    if (spec.fallback.as<Dims>()) return list_of(v);
    if (spec.fallback.as<std::vector<double>>()) {
      spend_list(v);
      return v.reals();
    }
    if (v.count() < 1) throw Error(str("attribute ", spec.name, " is empty"));
    if (spec.fallback.as<double>()) return v.real(0);
    if (spec.fallback.as<bool>()) return v.integer(0) != 0;
    if (spec.fallback.as<Tensor>()) return v;
    return v.integer(0);
  }

  // The value of a node if it follows from constants (and inputs of given value) alone.
  std::optional<Tensor> value_of(NodeId id) {
    const Graph& g = b_.graph();
    if (g.is_constant(id)) return g.constant(id);
    if (auto it = folded_.find(id); it != folded_.end()) return it->second;
    std::optional<Tensor> value = fold(id);
    folded_[id] = value;
    return value;
  }

  std::optional<Tensor> fold(NodeId id) {
    Node n = b_.graph().nodes[id];  // copies: folding operands may grow nothing, but stays safe
    Type type = b_.type(id);
    if (n.op == kInputOp) return input_value_ ? input_value_(id) : std::nullopt;
    const OpDef& def = op_def(n);
    if (!type.is_static() || def.kind == Kind::opaque || def.kind == Kind::random)
      return std::nullopt;
    if (type.is_tensor() && count(type.shape) > kMaxFolded) return std::nullopt;
    std::vector<Value> operands;
    std::vector<Type> types;
    for (NodeId a : n.args) {
      if (b_.type(a).kind == Type::Kind::tuple) return fold_item(n, a);
      auto v = value_of(a);
      if (!v) return std::nullopt;
      operands.emplace_back(*v);
      types.push_back(b_.type(a));
    }
    if (!is_quick(def, types)) return std::nullopt;
    EvalContext c{Arithmetic::own, &def, n.attrs, types, type};
    return evaluate_node(c, operands).tensor;
  }

  static bool is_quick(const OpDef& def, Types operands) {
    int64_t elements = 0;
    for (const Type& t : operands) elements += t.is_tensor() ? count(t.shape) : 0;
    return !def.eval || elements <= kMaxByHand;
  }

  // One item of a tuple that follows from constants.
  std::optional<Tensor> fold_item(const Node& get, NodeId tuple) {
    if (get.op != kGetOp) return std::nullopt;
    Node n = b_.graph().nodes[tuple];
    if (op_def(n).kind == Kind::opaque || op_def(n).kind == Kind::random) return std::nullopt;
    std::vector<Value> operands;
    std::vector<Type> types;
    for (NodeId a : n.args) {
      auto v = b_.type(a).is_tensor() ? value_of(a) : std::nullopt;
      if (!v) return std::nullopt;
      operands.emplace_back(*v);
      types.push_back(b_.type(a));
    }
    if (!is_quick(op_def(n), types)) return std::nullopt;
    EvalContext c{Arithmetic::own, &op_def(n), n.attrs, types, b_.type(tuple)};
    return evaluate_node(c, operands)
        .items.at(static_cast<size_t>(get.attrs.get<int64_t>("index")))
        .tensor;
  }

  GraphBuilder& b_;
  InputValue input_value_;
  LowerOptions options_;
  std::map<NodeId, std::optional<Tensor>> folded_;
  std::map<NodeId, Source> sources_;  // of results that follow from no input
};

// With all operands at hand: lower this one node and run what comes out.
Value evaluate_onnx(const EvalContext& c, const OnnxNode& node, std::span<const Value> values) {
  GraphBuilder b;
  std::vector<NodeId> operands;
  std::vector<Value> inputs;
  for (const Value& v : values) {
    if (v.is_tensor()) {
      operands.push_back(b.constant(v.tensor));
    } else {
      operands.push_back(b.input(str("x", inputs.size()), v.type()));
      inputs.push_back(v);
    }
  }
  if (c.arithmetic != Arithmetic::own) throw Inexact(str("host node ", node.type));
  Lowering lowering(b, {});
  auto results = lowering.try_lower(node, operands);
  std::vector<Value> outputs;
  if (results) {
    for (size_t i = 0; i < results->size(); ++i) b.output(str("y", i), (*results)[i]);
    outputs = evaluate(std::move(b).build(), inputs, {.repetition = c.repetition});
  } else {
    OnnxEntry entry = find_onnx(node.domain, node.type, node.version);
    if (!entry.row || !entry.row->run)
      throw Error(str(node.type, " cannot be run: ", results.error()));
    outputs = entry.row->run(node, values, c.repetition);
  }
  if (node.outputs == 1) return std::move(outputs[0]);
  return Value::tuple(std::move(outputs));
}

}  // namespace

NodeId add_onnx_node(GraphBuilder& b, const OnnxNode& node, Args operands) {
  return b.op("onnx", operands, to_attrs(node));
}

std::vector<NodeId> lower_into(GraphBuilder& b, const Graph& onnx, Args args,
                               InputValue input_value) {
  return Lowering(b, std::move(input_value)).run(onnx, args);
}

Lowered lower_onnx(const Graph& onnx, const LowerOptions& options) {
  GraphBuilder b;
  std::vector<NodeId> args;
  std::map<NodeId, std::pair<std::string, Tensor>> values;
  for (const auto& i : onnx.inputs) {
    NodeId n = b.input(i.name, onnx.types[i.node], i.donated);
    args.push_back(n);
    if (auto it = options.input_values.find(i.name); it != options.input_values.end())
      values.insert({n, *it});
  }
  std::vector<std::pair<std::string, Tensor>> pinned;
  Lowering lowering(
      b,
      [&](NodeId n) -> std::optional<Tensor> {
        auto it = values.find(n);
        if (it == values.end()) return std::nullopt;
        pinned.push_back(it->second);
        return it->second.second;
      },
      options);
  auto results = lowering.run(onnx, args);
  for (size_t i = 0; i < results.size(); ++i) b.output(onnx.outputs[i].name, results[i]);
  return {std::move(b).build(), std::move(pinned), std::move(lowering.deferred),
          std::move(lowering.of_sizes)};
}

std::vector<OpDef> opaque_ops() {
  return {define<OnnxNode>(
      {.name = "onnx",
       .min_args = 0,
       .max_args = -1,
       .kind = Kind::opaque,
       .infer = [](const OnnxNode& n, Types) -> Result<Type> {
         if (n.outputs == 1) return n.result;
         if (n.result.kind == Type::Kind::tuple) return n.result;
         return Type::tuple(std::vector<Type>(static_cast<size_t>(n.outputs), Type::any()));
       },
       .eval = evaluate_onnx,
       .doc =
           "an ONNX node as it came: unknown, or waiting for values that exist only at run time"})};
}

}  // namespace emend
