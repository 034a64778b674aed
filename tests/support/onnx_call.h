// One ONNX node as a program: for tests of what the rows of the operator table make of it.
#pragma once

#include <gtest/gtest.h>

#include "ops/evaluate.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"

namespace emend {

struct OnnxInput {
  Tensor value;
  bool known = false;  // a constant of the graph instead of an input
};

inline Tensor real_tensor(Dims shape, std::vector<double> v, DType t = DType::f32) {
  return Tensor::of_reals(t, std::move(shape), v);
}

// 0, 1, 2, .. folded into a small range: exact in every arithmetic, with repetitions.
inline Tensor small_numbers(Dims shape, int64_t modulus = 11, int64_t shift = 5) {
  std::vector<double> v;
  for (int64_t i = 0; i < count(shape); ++i)
    v.push_back(static_cast<double>(i * 7 % modulus - shift));
  return real_tensor(std::move(shape), v);
}

// One node of a type and version. `operand(b, i)` adds operand i, or gives no node where it is
// absent.
inline Graph onnx_graph(const std::string& type, int64_t version, size_t operands,
                        const std::function<NodeId(GraphBuilder&, size_t)>& operand,
                        std::vector<Attrs::Entry> attributes = {}, int64_t outputs = 1) {
  GraphBuilder b;
  OnnxNode n{.type = type,
             .version = version,
             .attributes = Attrs(std::move(attributes)),
             .outputs = outputs};
  std::vector<NodeId> args;
  for (size_t i = 0; i < operands; ++i) {
    NodeId arg = operand(b, i);
    n.present.push_back(arg.valid());
    if (arg.valid()) args.push_back(arg);
  }
  NodeId made = add_onnx_node(b, n, args);
  for (int64_t i = 0; i < outputs; ++i) b.output(str("y", i), outputs == 1 ? made : b.get(made, i));
  return std::move(b).build();
}

// Lowered, with these values of inputs known; nothing may be left for run time.
inline Graph lowered(const Graph& onnx, std::map<std::string, Tensor> values = {}) {
  Lowered low = lower_onnx(onnx, {.input_values = std::move(values)});
  EXPECT_TRUE(low.deferred.empty()) << low.deferred[0];
  return low.graph;
}

inline Graph lowered_node(const std::string& type, int64_t version,
                          const std::vector<OnnxInput>& inputs,
                          std::vector<Attrs::Entry> attributes = {}, int64_t outputs = 1) {
  auto operand = [&](GraphBuilder& b, size_t i) {
    const Tensor& v = inputs[i].value;
    return inputs[i].known ? b.constant(v) : b.input(str("x", i), v.type());
  };
  return lowered(onnx_graph(type, version, inputs.size(), operand, std::move(attributes), outputs));
}

// Runs `g` on the inputs that are no constants.
inline std::vector<Tensor> run_on(const Graph& g, const std::vector<OnnxInput>& inputs,
                                  Arithmetic a = Arithmetic::own) {
  std::vector<Value> in;
  for (const OnnxInput& i : inputs)
    if (!i.known) in.emplace_back(converted(i.value, a));
  std::vector<Tensor> out;
  for (Value& v : evaluate(g, in, {.arithmetic = a})) out.push_back(v.tensor);
  return out;
}

// What the node computes, checked to survive being written and read again at these opsets.
inline std::vector<Tensor> run_node(const std::string& type, int64_t version,
                                    const std::vector<OnnxInput>& inputs,
                                    std::vector<Attrs::Entry> attributes = {}, int64_t outputs = 1,
                                    std::vector<int64_t> rewritten_at = {}) {
  Graph g = lowered_node(type, version, inputs, attributes, outputs);
  auto out = run_on(g, inputs);
  if (rewritten_at.empty()) rewritten_at = {version};
  for (int64_t opset : rewritten_at) {
    Lowered again = lower_onnx(raise_onnx(g, opset));
    EXPECT_TRUE(again.deferred.empty()) << type << " at " << opset << ": " << again.deferred[0];
    EXPECT_EQ(run_on(again.graph, inputs), out) << type << " at " << opset;
  }
  return out;
}

}  // namespace emend
