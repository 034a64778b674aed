// Operators over body graphs: `loop` and `if`. They are evaluated by running their bodies, so they
// have a value in every arithmetic in which the bodies have one.
#include "ops/control.h"

#include <algorithm>

#include "ops/control_onnx.h"
#include "ops/evaluate.h"
#include "ops/table.h"
#include "ops/tensor_parts.h"

namespace emend {
namespace {

Dims without_axis(Dims shape, int64_t axis) {
  shape.erase(shape.begin() + axis);
  return shape;
}

// The types of the body's inputs that the operands ask for.
Result<std::vector<Type>> step_types(const Loop& a, Types in) {
  auto states = static_cast<size_t>(a.states), scanned = a.scan_axes.size();
  if (a.states < 0 || states + scanned > in.size())
    return fail("loop: ", in.size(), " operands for ", a.states, " states and ", scanned, " scans");
  std::vector<Type> types = {Type::tensor(DType::i64, {})};
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].is_tensor()) return fail("loop: operand ", i, " is ", to_text(in[i]));
    if (i < states || i >= states + scanned) {
      types.push_back(in[i]);
      continue;
    }
    int64_t axis = a.scan_axes[i - states];
    if (axis < 0 || axis >= in[i].rank() || in[i].shape[static_cast<size_t>(axis)] != a.trips) {
      return fail("loop: operand ", i, " ", to_text(in[i]), " does not give ", a.trips,
                  " slices along axis ", axis);
    }
    types.push_back(Type::tensor(in[i].dtype, without_axis(in[i].shape, axis)));
  }
  return types;
}

Result<Type> loop_infer(const Loop& a, Types in) {
  if (!a.body) return fail("loop: needs a body");
  if (a.trips < 0) return fail("loop: ", a.trips, " trips");
  if (a.scan_reverse.size() != a.scan_axes.size() ||
      a.output_reverse.size() != a.output_axes.size())
    return fail("loop: axes and directions differ in number");
  auto types = step_types(a, in);
  if (!types) return Failure{types.error()};
  const Graph& body = *a.body;
  if (body.inputs.size() != types->size())
    return fail("loop: the body has ", body.inputs.size(), " inputs, not ", types->size());
  for (size_t i = 0; i < types->size(); ++i) {
    const Type& formal = body.types[body.inputs[i].node];
    if (formal != (*types)[i]) {
      return fail("loop: input ", i, " of the body is ", to_text(formal), ", not ",
                  to_text((*types)[i]));
    }
  }
  auto states = static_cast<size_t>(a.states);
  if (body.outputs.size() != states + a.output_axes.size())
    return fail("loop: the body has ", body.outputs.size(), " outputs");
  std::vector<Type> results;
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    Type t = body.types[body.outputs[i].node];
    if (!t.is_tensor()) return fail("loop: output ", i, " of the body is ", to_text(t));
    if (i < states) {
      if (t != in[i])
        return fail("loop: state ", i, " changes from ", to_text(in[i]), " to ", to_text(t));
    } else {
      int64_t axis = a.output_axes[i - states];
      if (axis < 0 || axis > t.rank()) return fail("loop: no axis ", axis, " for ", to_text(t));
      t.shape.insert(t.shape.begin() + axis, a.trips);
    }
    results.push_back(std::move(t));
  }
  return Type::tuple(std::move(results));
}

Value loop_eval(const EvalContext& c, const Loop& a, std::span<const Value> v) {
  auto states = static_cast<size_t>(a.states), scanned = a.scan_axes.size();
  std::vector<Value> current(v.begin(), v.begin() + a.states);
  std::vector<std::vector<Tensor>> collected(a.output_axes.size());
  for (int64_t step = 0; step < a.trips; ++step) {
    std::vector<Value> inputs = {Tensor::of_int(step)};
    inputs.insert(inputs.end(), current.begin(), current.end());
    for (size_t i = 0; i < scanned; ++i) {
      int64_t at = a.scan_reverse[i] ? a.trips - 1 - step : step;
      inputs.emplace_back(slice_of(v[states + i].tensor, a.scan_axes[i], at));
    }
    inputs.insert(inputs.end(), v.begin() + a.states + static_cast<int64_t>(scanned), v.end());
    auto results = evaluate(
        *a.body, inputs, {.arithmetic = c.arithmetic, .repetition = step_of(c.repetition, step)});
    std::move(results.begin(), results.begin() + a.states, current.begin());
    for (size_t i = 0; i < collected.size(); ++i)
      collected[i].push_back(results[states + i].tensor);
  }
  for (size_t i = 0; i < collected.size(); ++i) {
    if (a.trips == 0) {
      const Type& t = c.type.items[states + i];
      current.emplace_back(Tensor::zeros(stored_dtype(c.arithmetic, t.dtype), t.shape));
      continue;
    }
    if (a.output_reverse[i]) std::reverse(collected[i].begin(), collected[i].end());
    current.emplace_back(stacked(collected[i], a.output_axes[i]));
  }
  return Value::tuple(std::move(current));
}

Result<Type> if_infer(const If& a, Types in) {
  if (!a.then_body || !a.else_body) return fail("if: needs two bodies");
  if (in[0] != Type::tensor(DType::boolean, {}))
    return fail("if: the condition is ", to_text(in[0]), ", not bool[]");
  std::vector<Type> results[2];
  for (const GraphRef* body : {&a.then_body, &a.else_body}) {
    const Graph& g = **body;
    if (g.inputs.size() + 1 != in.size())
      return fail("if: a body has ", g.inputs.size(), " inputs for ", in.size() - 1, " operands");
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      if (g.types[g.inputs[i].node] != in[i + 1]) {
        return fail("if: input ", i, " of a body is ", to_text(g.types[g.inputs[i].node]), ", not ",
                    to_text(in[i + 1]));
      }
    }
    for (const auto& o : g.outputs) results[body == &a.else_body].push_back(g.types[o.node]);
  }
  if (results[0] != results[1]) {
    return fail("if: one body gives ", to_text(Type::tuple(results[0])), ", the other ",
                to_text(Type::tuple(results[1])));
  }
  return Type::tuple(std::move(results[0]));
}

}  // namespace

LoopResults add_loop(GraphBuilder& b, const LoopOperands& operands,
                     const std::function<LoopResults(GraphBuilder&, const LoopStep&)>& step) {
  Loop a{.trips = operands.trips, .states = static_cast<int64_t>(operands.states.size())};
  GraphBuilder body;
  LoopStep s{.iteration = body.input("iteration", Type::tensor(DType::i64, {}))};
  std::vector<NodeId> args;
  for (NodeId n : operands.states) {
    s.states.push_back(body.input(str("state", s.states.size()), b.type(n)));
    args.push_back(n);
  }
  for (const Scanned& x : operands.scanned) {
    a.scan_axes.push_back(x.axis);
    a.scan_reverse.push_back(x.reverse);
    if (!b.type(x.node).is_tensor() || x.axis < 0 || x.axis >= b.type(x.node).rank())
      throw Error(str("a loop cannot scan ", to_text(b.type(x.node)), " along axis ", x.axis));
    Type slice = Type::tensor(b.dtype(x.node), without_axis(b.shape(x.node), x.axis));
    s.slices.push_back(body.input(str("slice", s.slices.size()), slice));
    args.push_back(x.node);
  }
  for (NodeId n : operands.captured) {
    s.captured.push_back(body.input(str("captured", s.captured.size()), b.type(n)));
    args.push_back(n);
  }
  LoopResults made = step(body, s);
  for (size_t i = 0; i < made.states.size(); ++i) body.output(str("state", i), made.states[i]);
  for (size_t i = 0; i < made.outputs.size(); ++i) body.output(str("output", i), made.outputs[i]);
  a.output_axes = operands.output_axes;
  a.output_reverse = operands.output_reverse;
  a.output_axes.resize(made.outputs.size(), 0);
  a.output_reverse.resize(made.outputs.size(), 0);
  a.body = GraphRef(std::move(body).build());
  auto items = b.get_all(b.op("loop", args, to_attrs(a)));
  return {{items.begin(), items.begin() + a.states}, {items.begin() + a.states, items.end()}};
}

std::vector<OpDef> control_ops() {
  return {
      define<Loop>({.name = "loop",
                    .min_args = 0,
                    .max_args = -1,
                    .kind = Kind::scan,
                    .infer = loop_infer,
                    .eval = loop_eval,
                    .onnx = {onnx_loop(), onnx_scan_with_batch(), onnx_scan()},
                    .doc = "runs a body graph `trips` times: states are carried from step to step, "
                           "scanned operands are cut into slices, outputs are stacked"}),
      define<If>({.name = "if",
                  .max_args = -1,
                  .kind = Kind::scan,
                  .infer = if_infer,
                  .eval =
                      [](const EvalContext& c, const If& a, std::span<const Value> v) {
                        const GraphRef& body = v[0].tensor.integer(0) ? a.then_body : a.else_body;
                        return Value::tuple(
                            evaluate(*body, v.subspan(1),
                                     {.arithmetic = c.arithmetic, .repetition = c.repetition}));
                      },
                  .onnx = {onnx_if()},
                  .doc = "one of two body graphs over the same operands, chosen by the first "
                         "operand; a tuple of the body's outputs"}),
  };
}

}  // namespace emend
