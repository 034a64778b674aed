#include "ops/control_onnx.h"

#include <algorithm>
#include <map>

#include "ir/memory_budget.h"
#include "ops/control.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/onnx_lower.h"
#include "ops/subgraph.h"
#include "ops/table.h"

namespace emend {
namespace {

using Ids = std::vector<NodeId>;

const Graph& body_of(const OnnxNode& node, const char* name) {
  const AttrValue* v = node.attributes.find(name);
  if (!v || !v->as<GraphRef>()) throw Error(str(node.type, " needs the graph ", name));
  return **v->as<GraphRef>();
}

// A body lowered on its own: what it captures are inputs of it, whose values are asked for in the
// graph around it.
class BodyBuilder {
 public:
  explicit BodyBuilder(const OnnxCall& c) : call_(c) {}
  GraphBuilder b;

  Ids capture(Args outer) {
    Ids inner;
    for (NodeId n : outer) {
      inner.push_back(b.input(str("captured", inner.size()), call_.b.type(n)));
      outer_[inner.back()] = n;
    }
    return inner;
  }

  // The value of a constant, or of what is captured and known outside.
  std::optional<Tensor> known(NodeId n) const {
    if (b.graph().is_constant(n)) return b.graph().constant(n);
    auto it = outer_.find(n);
    return it == outer_.end() ? std::nullopt : call_.value_of(it->second);
  }

  // Is the condition that a body gave true? Nothing if that is not known.
  std::optional<bool> known_condition(NodeId n) const {
    auto value = known(n);
    if (!value) return std::nullopt;
    return single_integer(*value, "a loop's condition") != 0;
  }

  Result<Ids> lower(const Graph& onnx, Args args) {
    if (onnx.inputs.size() != args.size()) {
      throw Error(str("a body of ", call_.node.type, " has ", onnx.inputs.size(),
                      " inputs where there are ", args.size()));
    }
    Ids results = lower_into(b, onnx, args, [this](NodeId n) { return known(n); });
    for (const Node& n : b.graph().nodes) {
      if (op_def(n).kind == Kind::opaque)
        return fail("its body has a node that waits for run time: ", n.attrs.as<OnnxNode>().type);
    }
    return results;
  }

 private:
  const OnnxCall& call_;
  std::map<NodeId, NodeId> outer_;
};

// --- If ---

Result<Ids> if_lower(OnnxCall& c) {
  if (count(c.type(0).shape) != 1) throw Error("If: the condition must be one bool");
  const Graph &then_graph = body_of(c.node, "then_branch"),
              &else_graph = body_of(c.node, "else_branch");
  if (c.node.captures.size() != 2) throw Error("If: captured values of two branches are needed");
  // In the order of the attributes' names: else, then.
  Args captured = c.captured;
  auto else_count = static_cast<size_t>(c.node.captures[0]);
  if (else_count > captured.size()) throw Error("If: captured values are missing");
  Args for_else = captured.first(else_count), for_then = captured.subspan(else_count);
  if (auto condition = c.value(0)) {
    bool taken = condition->integer(0) != 0;
    return taken ? c.inline_graph(then_graph, for_then) : c.inline_graph(else_graph, for_else);
  }
  If a;
  for (bool taken : {true, false}) {
    BodyBuilder body(c);
    Ids inner = body.capture(captured);
    Args all = inner;
    auto results = body.lower(taken ? then_graph : else_graph,
                              taken ? all.subspan(else_count) : all.first(else_count));
    if (!results) return Failure{results.error()};
    for (size_t i = 0; i < results->size(); ++i) body.b.output(str("y", i), (*results)[i]);
    (taken ? a.then_body : a.else_body) = GraphRef(std::move(body.b).build());
  }
  Ids operands = {c.inputs[0]};
  if (c.type(0).rank() > 0) operands[0] = c.b.op("reshape", {c.inputs[0]}, Reshape{});
  operands.insert(operands.end(), captured.begin(), captured.end());
  auto node = c.b.try_op(op_named("if"), operands, to_attrs(a));
  if (!node) return Failure{node.error()};
  return c.b.get_all(*node);
}

// --- Loop and Scan as `loop` ---

// What a static loop is made from; the ONNX body takes (iteration, condition, states..) in a Loop
// and (states.., slices..) in a Scan, then what it captures.
struct StaticLoop {
  int64_t trips = 0;
  Ids states, scanned;
  Dims scan_axes, scan_reverse;
  Dims output_axes, output_reverse;  // missing ones are 0
  bool is_onnx_loop = false;
};

Result<Ids> make_loop(OnnxCall& c, const StaticLoop& from) {
  Loop a{.trips = from.trips,
         .states = static_cast<int64_t>(from.states.size()),
         .scan_axes = from.scan_axes,
         .scan_reverse = from.scan_reverse};
  BodyBuilder body(c);
  Ids args;
  NodeId iteration = body.b.input("iteration", Type::tensor(DType::i64, {}));
  // A static loop's condition is true; were it not so, the check below would say it.
  if (from.is_onnx_loop) args = {iteration, body.b.constant(Tensor::of_int(1, DType::boolean))};
  Ids operands = from.states;
  for (NodeId n : from.states) args.push_back(body.b.input("state", c.b.type(n)));
  for (size_t i = 0; i < from.scanned.size(); ++i) {
    Type t = c.b.type(from.scanned[i]);
    t.shape.erase(t.shape.begin() + from.scan_axes[i]);
    args.push_back(body.b.input("slice", t));
    operands.push_back(from.scanned[i]);
  }
  for (NodeId n : body.capture(c.captured)) args.push_back(n);
  operands.insert(operands.end(), c.captured.begin(), c.captured.end());
  auto results = body.lower(body_of(c.node, "body"), args);
  if (!results) return Failure{results.error()};
  if (from.is_onnx_loop) {
    if (results->empty() || !body.known_condition((*results)[0]).value_or(false))
      return fail("its condition is known only at run time");
    results->erase(results->begin());
  }
  if (results->size() < from.states.size())
    throw Error(str(c.node.type, ": the body gives fewer results than there are states"));
  a.output_axes = from.output_axes;
  a.output_axes.resize(results->size() - from.states.size(), 0);
  a.output_reverse = from.output_reverse;
  a.output_reverse.resize(a.output_axes.size(), 0);
  for (size_t i = 0; i < a.output_axes.size(); ++i) {
    const Type& t = body.b.type((*results)[from.states.size() + i]);
    a.output_axes[i] = normal_axis(a.output_axes[i], t.rank() + 1).value_or_throw();
  }
  for (size_t i = 0; i < results->size(); ++i) body.b.output(str("y", i), (*results)[i]);
  a.body = GraphRef(std::move(body.b).build());
  auto node = c.b.try_op(op_named("loop"), operands, to_attrs(a));
  if (!node) return Failure{node.error()};
  return c.b.get_all(*node);
}

// A loop of more nodes than this is not written out step by step.
constexpr int64_t kMaxUnrolled = 2048;

// Step after step in a row: for states that change their types or are sequences, which dissolve
// then. Built on its own first, since it may turn out not to be possible.
class Unrolling {
 public:
  explicit Unrolling(OnnxCall& c) : call_(c), body_(c) {}

  Result<Ids> run(const StaticLoop& from) {
    const Graph& onnx = body_of(call_.node, "body");
    if (from.trips > kMaxUnrolled / static_cast<int64_t>(onnx.size() + 1))
      return fail("it is too long to be written out step by step");
    Ids states = bring(from.states), captured = bring(call_.captured);
    std::vector<Ids> outputs;
    for (int64_t step = 0; step < from.trips; ++step) {
      Ids args = {body_.b.constant(Tensor::of_int(step)),
                  body_.b.constant(Tensor::of_int(1, DType::boolean))};
      args.insert(args.end(), states.begin(), states.end());
      args.insert(args.end(), captured.begin(), captured.end());
      auto results = body_.lower(onnx, args);
      if (!results) return Failure{results.error()};
      if (results->size() < states.size() + 1)
        throw Error("Loop: the body gives fewer results than there are states");
      auto goes_on = body_.known_condition((*results)[0]);
      if (!goes_on) return fail("its condition is known only at run time");
      std::copy_n(results->begin() + 1, states.size(), states.begin());
      outputs.resize(results->size() - 1 - states.size());
      for (size_t i = 0; i < outputs.size(); ++i)
        outputs[i].push_back((*results)[1 + states.size() + i]);
      if (!*goes_on) break;
    }
    if (outputs.empty() && onnx.outputs.size() > 1 + states.size())
      return fail("it makes no step, and what it would give is not known");
    for (const Ids& parts : outputs) {
      auto whole = stack(parts);
      if (!whole) return Failure{whole.error()};
      states.push_back(*whole);
    }
    for (size_t i = 0; i < states.size(); ++i) body_.b.output(str("y", i), states[i]);
    return splice(call_.b, std::move(body_.b).build(), operands_);
  }

 private:
  // Outer values as inputs; a sequence of known items stays one.
  Ids bring(Args outer) {
    Ids inner;
    for (NodeId n : outer) {
      Node node = call_.b.graph().nodes[n];
      if (op_def(node).name == "sequence") {
        inner.push_back(
            body_.b.try_op(node.op, bring(Args(node.args.data(), node.args.size())), node.attrs)
                .value_or_throw());
      } else {
        inner.push_back(body_.capture(Args(&n, 1))[0]);
        operands_.push_back(n);
      }
    }
    return inner;
  }

  Result<NodeId> stack(const Ids& parts) {
    Ids rows;
    for (NodeId n : parts) {
      if (body_.b.type(n) != body_.b.type(parts[0]) || !body_.b.type(n).is_tensor())
        return fail("its outputs differ in type");
      Dims shape = body_.b.shape(n);
      shape.insert(shape.begin(), 1);
      rows.push_back(body_.b.op("reshape", {n}, Reshape{shape}));
    }
    return body_.b.op("concat", rows, to_attrs(Axis{0}));
  }

  OnnxCall& call_;
  BodyBuilder body_;
  Ids operands_;
};

Result<Ids> loop_lower(OnnxCall& c) {
  if (!c.has(0)) return fail("it runs until its condition is false");
  StaticLoop from{.is_onnx_loop = true};
  auto trips = c.value(0);
  if (!trips) return fail("the number of trips is known only at run time");
  from.trips = std::max<int64_t>(0, single_integer(*trips, "the number of trips"));
  if (c.has(1)) {
    auto condition = c.value(1);
    if (!condition) return fail("its condition is known only at run time");
    if (single_integer(*condition, "a loop's condition") == 0) from.trips = 0;
  }
  bool tensors = true;
  for (size_t i = 2; i < c.inputs.size(); ++i) {
    tensors = tensors && c.type(i).is_tensor();
    from.states.push_back(c.inputs[i]);
  }
  auto loop = tensors ? make_loop(c, from) : fail("a state is no tensor");
  if (loop) return loop;
  auto unrolled = Unrolling(c).run(from);
  if (unrolled) return unrolled;
  return fail(loop.error(), "; ", unrolled.error());
}

// The axes and directions of a Scan of opset 9 or more, axes counted from the front.
StaticLoop scan_form(const OnnxNode& node, std::span<const Type> inputs) {
  StaticLoop from;
  auto scans = static_cast<size_t>(node.attributes.get_or<int64_t>("num_scan_inputs", 1));
  if (scans < 1 || scans > inputs.size())
    throw Error(str("Scan: num_scan_inputs is ", scans, " of ", inputs.size(), " inputs"));
  from.scan_axes = node.attributes.get_or<Dims>("scan_input_axes", {});
  from.scan_reverse = node.attributes.get_or<Dims>("scan_input_directions", {});
  from.output_axes = node.attributes.get_or<Dims>("scan_output_axes", {});
  from.output_reverse = node.attributes.get_or<Dims>("scan_output_directions", {});
  from.scan_axes.resize(scans, 0);
  from.scan_reverse.resize(scans, 0);
  for (size_t i = 0; i < scans; ++i) {
    const Type& t = inputs[inputs.size() - scans + i];
    if (!t.is_tensor()) throw Error(str("Scan: input ", i, " is ", to_text(t)));
    int64_t& axis = from.scan_axes[i];
    axis = normal_axis(axis, t.rank()).value_or_throw();
    int64_t extent = t.shape[static_cast<size_t>(axis)];
    if (i > 0 && extent != from.trips)
      throw Error(str("Scan: inputs of ", from.trips, " and ", extent, " slices"));
    from.trips = extent;
  }
  return from;
}

Result<Ids> scan_lower(OnnxCall& c) {
  std::vector<Type> types;
  for (size_t i = 0; i < c.inputs.size(); ++i) types.push_back(c.type(i));
  StaticLoop from = scan_form(c.node, types);
  auto states = c.inputs.size() - from.scan_axes.size();
  from.states.assign(c.inputs.begin(), c.inputs.begin() + static_cast<int64_t>(states));
  from.scanned.assign(c.inputs.begin() + static_cast<int64_t>(states), c.inputs.end());
  return make_loop(c, from);
}

// A part [begin, begin + size) of one dimension; the dimension may be dropped.
NodeId cut(GraphBuilder& b, NodeId x, size_t dim, int64_t begin, int64_t size, bool drop) {
  Dims shape = b.shape(x);
  if (dim >= shape.size()) throw Error(str("Scan: ", shape_text(shape), " has no batch"));
  Slice s{.starts = Dims(shape.size(), 0), .sizes = shape, .steps = Dims(shape.size(), 1)};
  s.starts[dim] = begin;
  s.sizes[dim] = size;
  NodeId part = b.op("slice", {x}, s);
  if (!drop) return part;
  s.sizes.erase(s.sizes.begin() + static_cast<int64_t>(dim));
  return b.op("reshape", {part}, Reshape{s.sizes});
}

// Opset 8: dimension 0 of everything is the batch, 1 the sequence, whose lengths may differ.
Result<Ids> scan_with_batch_lower(OnnxCall& c) {
  auto scans = static_cast<size_t>(c.int_attr("num_scan_inputs", 1));
  if (c.inputs.size() < 1 + scans) throw Error("Scan: too few inputs");
  size_t first_scan = c.inputs.size() - scans;
  const Dims& scanned = c.type(first_scan).shape;
  if (scanned.size() < 2) throw Error("Scan: scanned inputs need a batch and a sequence dimension");
  int64_t batch = scanned[0], longest = scanned[1];
  spend_memory(static_cast<uint64_t>(batch) * sizeof(int64_t), "a list of lengths");
  Dims lengths(static_cast<size_t>(batch), longest);
  if (c.has(0)) {
    auto given = c.ints(0);
    if (!given) return Failure{given.error()};
    lengths = *given;
  }
  std::vector<Ids> parts;  // per result, per item of the batch
  for (int64_t item = 0; item < batch; ++item) {
    spend_node(0);
    StaticLoop from{.trips = lengths.at(static_cast<size_t>(item)),
                    .scan_axes = Dims(scans, 0),
                    .scan_reverse = c.ints_attr("directions")};
    from.scan_reverse.resize(scans, 0);
    if (from.trips < 0 || from.trips > longest)
      throw Error(str("Scan: a sequence of length ", from.trips, " in ", longest));
    for (size_t i = 1; i < c.inputs.size(); ++i) {
      c.type(i);  // every input must be there
      NodeId x = cut(c.b, c.inputs[i], 0, item, 1, true);
      if (i < first_scan)
        from.states.push_back(x);
      else
        from.scanned.push_back(cut(c.b, x, 0, 0, from.trips, false));
    }
    auto results = make_loop(c, from);
    if (!results) return Failure{results.error()};
    parts.resize(results->size());
    for (size_t i = 0; i < results->size(); ++i) {
      NodeId y = (*results)[i];
      Dims shape = c.b.shape(y);
      if (i >= from.states.size()) {  // shorter sequences are filled up with zeros
        Pad pad{.pads = Dims(2 * shape.size(), 0)};
        pad.pads[shape.size()] = longest - from.trips;
        shape[0] = longest;
        y = c.b.op("pad", {y}, pad);
      }
      shape.insert(shape.begin(), 1);
      parts[i].push_back(c.b.op("reshape", {y}, Reshape{shape}));
    }
  }
  Ids results;
  for (const Ids& p : parts) results.push_back(c.b.op("concat", p, to_attrs(Axis{0})));
  return results;
}

// --- on the host ---

// The operands of a Loop or Scan by what they are for.
std::vector<Value> loop_run(const OnnxNode& node, std::span<const Value> operands,
                            uint64_t repetition) {
  HostLoop loop{.repetition = repetition};
  size_t next = 0;
  auto present = [&](size_t i) { return i < node.present.size() && node.present[i] != 0; };
  if (present(0)) loop.trips = single_integer(operands[next++].tensor, "the number of trips");
  if (present(1))
    loop.condition = single_integer(operands[next++].tensor, "a loop's condition") != 0;
  for (size_t i = 2; i < node.present.size(); ++i) {
    if (!present(i)) throw Error(str("Loop: state ", i - 2, " has no value"));
    loop.states.push_back(operands[next++]);
  }
  loop.captured = operands.subspan(next);
  loop.takes_condition = true;
  return run_host_loop(body_of(node, "body"), std::move(loop));
}

std::vector<Value> scan_run(const OnnxNode& node, std::span<const Value> operands,
                            uint64_t repetition) {
  std::vector<Type> types;
  for (size_t i = 0; i < node.present.size(); ++i) types.push_back(operands[i].type());
  StaticLoop form = scan_form(node, types);
  HostLoop loop{.trips = form.trips, .repetition = repetition};
  size_t states = types.size() - form.scan_axes.size();
  loop.states.assign(operands.begin(), operands.begin() + static_cast<int64_t>(states));
  for (size_t i = 0; i < form.scan_axes.size(); ++i)
    loop.scanned.push_back(
        {operands[states + i].tensor, form.scan_axes[i], form.scan_reverse[i] != 0});
  loop.output_axes = form.output_axes;
  loop.output_reverse = form.output_reverse;
  loop.captured = operands.subspan(types.size());
  return run_host_loop(body_of(node, "body"), std::move(loop));
}

}  // namespace

OnnxRow onnx_if() {
  return {.type = "If", .lower = if_lower, .raise = if_raise};
}
OnnxRow onnx_loop() {
  return {.type = "Loop", .lower = loop_lower, .raise = loop_raise, .run = loop_run};
}
OnnxRow onnx_scan_with_batch() {
  return {
      .type = "Scan", .since = 8, .before = 9, .lower = scan_with_batch_lower, .lower_only = true};
}
OnnxRow onnx_scan() {
  return {.type = "Scan", .since = 9, .lower = scan_lower, .run = scan_run, .lower_only = true};
}

}  // namespace emend
