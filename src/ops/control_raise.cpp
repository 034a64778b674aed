// `if` and `loop` as ONNX nodes: If, and Scan or Loop.
#include <numeric>

#include "ops/control.h"
#include "ops/control_onnx.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"

namespace emend {
namespace {

using Ids = std::vector<NodeId>;

Ids emit_with_bodies(OnnxWriter& w, OnnxNode node, const Ids& inputs, Args captured) {
  node.version = w.opset;
  Ids operands;
  for (NodeId n : inputs) {
    node.present.push_back(n.valid());
    if (n.valid()) operands.push_back(n);
  }
  operands.insert(operands.end(), captured.begin(), captured.end());
  NodeId made = add_onnx_node(w.b, node, operands);
  if (node.outputs == 1) return {made};
  return w.b.get_all(made);
}

// A body of `onnx` nodes with other inputs than the loop's own: inside it, an OnnxWriter's emit is
// at hand, and every operand of the loop can be an input.
struct RaisedBody {
  GraphBuilder b;
  int64_t opset;
  NodeId emit(const std::string& type, const Ids& inputs, std::vector<Attrs::Entry> attributes) {
    OnnxNode node{.type = type,
                  .version = opset,
                  .attributes = Attrs(std::move(attributes)),
                  .present = Dims(inputs.size(), 1)};
    return add_onnx_node(b, node, inputs);
  }
};

// n integers: start, start + step, ..
Tensor counted(int64_t n, int64_t start, int64_t step) {
  return Tensor::make(DType::i64, {n}, [&](std::byte* data) {
    for (int64_t i = 0; i < n; ++i)
      store_int(DType::i64, data, static_cast<size_t>(i), start + i * step);
  });
}

// Scan: the iteration's number, where the body uses it, is one more scanned tensor.
Ids raise_as_scan(OnnxWriter& w, const Loop& a) {
  const Graph& body = *a.body;
  auto states = static_cast<size_t>(a.states), scanned = a.scan_axes.size();
  bool counts = use_counts(body)[body.inputs[0].node] > 0;
  RaisedBody r{.opset = w.opset};
  Ids inputs(w.args.begin(), w.args.begin() + static_cast<int64_t>(states + scanned));
  Ids args(1);
  auto take = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i)
      args.push_back(r.b.input(str("x", i), body.types[body.inputs[i].node]));
  };
  Loop s = a;
  take(1, 1 + states + scanned);
  if (counts) {
    args[0] = r.b.input("iteration", body.types[body.inputs[0].node]);
    inputs.push_back(w.b.constant(counted(a.trips, 0, 1)));
    s.scan_axes.push_back(0);
    s.scan_reverse.push_back(0);
  } else {
    args[0] = r.b.constant(Tensor::of_int(0));  // stands for what nothing reads
  }
  take(1 + states + scanned, body.inputs.size());
  Ids results = splice(r.b, raise_onnx(body, w.opset), args);
  for (size_t i = 0; i < results.size(); ++i) r.b.output(str("y", i), results[i]);
  OnnxNode node{.type = "Scan",
                .attributes = Attrs({{"body", GraphRef(std::move(r.b).build())},
                                     {"num_scan_inputs", static_cast<int64_t>(s.scan_axes.size())},
                                     {"scan_input_axes", s.scan_axes},
                                     {"scan_input_directions", s.scan_reverse},
                                     {"scan_output_axes", s.output_axes},
                                     {"scan_output_directions", s.output_reverse}}),
                .outputs = static_cast<int64_t>(results.size()),
                .captures = {static_cast<int64_t>(w.args.size() - states - scanned)}};
  if (s.output_axes.empty())
    node.attributes = node.attributes.without("scan_output_axes").without("scan_output_directions");
  return emit_with_bodies(w, node, inputs, Args(w.args).subspan(states + scanned));
}

// Loop: scanned tensors are captured and gathered from; outputs are put in their order afterwards.
Ids raise_as_loop(OnnxWriter& w, const Loop& a) {
  const Graph& body = *a.body;
  auto states = static_cast<size_t>(a.states), scanned = a.scan_axes.size();
  RaisedBody r{.opset = w.opset};
  NodeId iteration = r.b.input("iteration", Type::tensor(DType::i64, {}));
  NodeId condition = r.b.input("condition", Type::tensor(DType::boolean, {}));
  Ids args = {iteration}, captured;
  for (size_t i = 0; i < states; ++i) args.push_back(r.b.input(str("state", i), w.types[i]));
  for (size_t i = states; i < w.args.size(); ++i)
    captured.push_back(r.b.input(str("captured", i - states), w.types[i]));
  for (size_t i = 0; i < scanned; ++i) {
    NodeId at = iteration;
    if (a.scan_reverse[i])
      at = r.emit("Sub", {r.b.constant(Tensor::of_int(a.trips - 1)), iteration}, {});
    args.push_back(r.emit("Gather", {captured[i], at}, {{"axis", a.scan_axes[i]}}));
  }
  args.insert(args.end(), captured.begin() + static_cast<int64_t>(scanned), captured.end());
  Ids results = splice(r.b, raise_onnx(body, w.opset), args);
  r.b.output("condition_out", r.emit("Identity", {condition}, {}));
  for (size_t i = 0; i < results.size(); ++i) r.b.output(str("y", i), results[i]);
  OnnxNode node{.type = "Loop",
                .attributes = Attrs({{"body", GraphRef(std::move(r.b).build())}}),
                .outputs = static_cast<int64_t>(results.size()),
                .captures = {static_cast<int64_t>(captured.size())}};
  Ids inputs = {w.b.constant(Tensor::of_int(a.trips)),
                w.b.constant(Tensor::of_int(1, DType::boolean))};
  inputs.insert(inputs.end(), w.args.begin(), w.args.begin() + a.states);
  Ids made = emit_with_bodies(w, node, inputs, Args(w.args).subspan(states));
  for (size_t i = 0; i < a.output_axes.size(); ++i) {
    NodeId& y = made[states + i];
    if (a.output_reverse[i]) {
      NodeId backwards = w.b.constant(counted(a.trips, a.trips - 1, -1));
      y = w.emit("Gather", {y, backwards}, {{"axis", 0}})[0];
    }
    if (a.output_axes[i] == 0) continue;
    Dims perm(w.type.items[states + i].shape.size() - 1);
    std::iota(perm.begin(), perm.end(), 1);
    perm.insert(perm.begin() + a.output_axes[i], 0);
    y = w.emit("Transpose", {y}, {{"perm", perm}})[0];
  }
  return made;
}

}  // namespace

std::vector<NodeId> if_raise(OnnxWriter& w) {
  auto a = w.attrs.as<If>();
  Ids captured;  // once for each branch
  for (int branch = 0; branch < 2; ++branch)
    captured.insert(captured.end(), w.args.begin() + 1, w.args.end());
  auto each = static_cast<int64_t>(w.args.size() - 1);
  OnnxNode node{.type = "If",
                .attributes = Attrs({{"then_branch", GraphRef(raise_onnx(*a.then_body, w.opset))},
                                     {"else_branch", GraphRef(raise_onnx(*a.else_body, w.opset))}}),
                .outputs = static_cast<int64_t>(w.type.items.size()),
                .captures = {each, each}};
  return emit_with_bodies(w, node, {w.args[0]}, captured);
}

std::vector<NodeId> loop_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Loop>();
  bool as_scan = w.opset >= 9 && !a.scan_axes.empty();
  return as_scan ? raise_as_scan(w, a) : raise_as_loop(w, a);
}

}  // namespace emend
