#include "ops/subgraph.h"

#include <algorithm>

#include "ops/build.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/onnx_lower.h"
#include "ops/tensor_parts.h"

namespace emend {
namespace {

std::vector<NodeId> add_inputs(GraphBuilder& b, const Graph& onnx, std::span<const Type> types) {
  if (onnx.inputs.size() != types.size()) {
    throw Error(str("a body has ", onnx.inputs.size(), " inputs where there are ", types.size(),
                    " values"));
  }
  std::vector<NodeId> ids;
  for (size_t i = 0; i < types.size(); ++i) ids.push_back(b.input(onnx.inputs[i].name, types[i]));
  return ids;
}

// What the body is given in step number `step`.
std::vector<Value> arguments(const HostLoop& loop, int64_t step) {
  std::vector<Value> v;
  if (loop.takes_condition)
    v = {Tensor::of_int(step), Tensor::of_int(loop.condition, DType::boolean)};
  v.insert(v.end(), loop.states.begin(), loop.states.end());
  for (const HostScan& s : loop.scanned)
    v.emplace_back(slice_of(s.tensor, s.axis, s.reverse ? loop.trips - 1 - step : step));
  v.insert(v.end(), loop.captured.begin(), loop.captured.end());
  return v;
}

// The types of what it would be given, where there is no first step.
std::vector<Type> argument_types(const HostLoop& loop) {
  std::vector<Type> types;
  if (loop.takes_condition)
    types = {Type::tensor(DType::i64, {}), Type::tensor(DType::boolean, {})};
  for (const Value& v : loop.states) types.push_back(v.type());
  for (const HostScan& s : loop.scanned) {
    Dims shape = s.tensor.shape();
    shape.erase(shape.begin() + s.axis);
    types.push_back(Type::tensor(s.tensor.dtype(), std::move(shape)));
  }
  for (const Value& v : loop.captured) types.push_back(v.type());
  return types;
}

}  // namespace

int64_t single_integer(const Tensor& t, const char* what) {
  if (t.count() != 1 || t.dtype() == DType::string)
    throw Error(str(what, " must be one number, not ", to_text(t.type())));
  return t.integer(0);
}

std::vector<Value> HostBody::run(std::span<const Value> inputs, uint64_t repetition) {
  std::vector<Type> types;
  for (const Value& v : inputs) types.push_back(v.type());
  if (!reusable_ || types != types_) {
    GraphBuilder b;
    auto ids = add_inputs(b, onnx_, types);
    bool looked = false;
    auto results = lower_into(b, onnx_, ids, [&](NodeId n) -> std::optional<Tensor> {
      auto at = static_cast<size_t>(std::find(ids.begin(), ids.end(), n) - ids.begin());
      if (at >= inputs.size() || !inputs[at].is_tensor()) return std::nullopt;
      looked |= at < fixed_from_;
      return inputs[at].tensor;
    });
    for (size_t i = 0; i < results.size(); ++i) b.output(str("y", i), results[i]);
    lowered_ = std::move(b).build();
    types_ = std::move(types);
    reusable_ = !looked;
  }
  return evaluate(lowered_, inputs, {.repetition = repetition});
}

std::vector<Type> HostBody::result_types(std::span<const Type> inputs) const {
  GraphBuilder b;
  auto ids = add_inputs(b, onnx_, inputs);
  std::vector<Type> types;
  for (NodeId n : lower_into(b, onnx_, ids)) types.push_back(b.type(n));
  return types;
}

std::vector<Value> run_host_loop(const Graph& onnx_body, HostLoop loop) {
  size_t leading = loop.takes_condition ? 2 : 0, conditions = loop.takes_condition ? 1 : 0;
  size_t states = loop.states.size(), first_output = conditions + states;
  if (onnx_body.outputs.size() < first_output)
    throw Error("a loop's body gives fewer results than there are states");
  std::vector<std::vector<Tensor>> collected(onnx_body.outputs.size() - first_output);
  loop.output_axes.resize(collected.size(), 0);
  loop.output_reverse.resize(collected.size(), 0);
  HostBody body(onnx_body, leading + states + loop.scanned.size());
  int64_t steps = 0;
  for (; steps < loop.trips && loop.condition; ++steps) {
    auto results = body.run(arguments(loop, steps), step_of(loop.repetition, steps));
    if (loop.takes_condition)
      loop.condition = single_integer(results[0].tensor, "a loop's condition") != 0;
    for (size_t i = 0; i < states; ++i) loop.states[i] = std::move(results[conditions + i]);
    for (size_t i = 0; i < collected.size(); ++i) {
      const Value& v = results[first_output + i];
      if (!v.is_tensor()) throw Error(str("a loop cannot stack ", to_text(v.type())));
      collected[i].push_back(v.tensor);
    }
  }
  std::vector<Type> types;
  if (steps == 0 && !collected.empty()) types = body.result_types(argument_types(loop));
  std::vector<Value> all = std::move(loop.states);
  for (size_t i = 0; i < collected.size(); ++i) {
    Type of = steps ? collected[i][0].type() : types[first_output + i];
    if (!of.is_tensor())
      throw Error(str("a loop made no step, and the type of its output ", i, " is not known"));
    int64_t axis = normal_axis(loop.output_axes[i], of.rank() + 1).value_or_throw();
    if (steps == 0) {
      of.shape.insert(of.shape.begin() + axis, 0);
      all.emplace_back(Tensor::zeros(of.dtype, of.shape));
      continue;
    }
    if (loop.output_reverse[i]) std::reverse(collected[i].begin(), collected[i].end());
    all.emplace_back(stacked(collected[i], axis));
  }
  return all;
}

}  // namespace emend
