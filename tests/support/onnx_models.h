// Small ONNX models for tests, built as values of the file format and imported from memory.
#pragma once

#include <string>
#include <vector>

#include "import/onnx.h"
#include "onnx/write.h"

namespace emend {

inline onnx::Type float_type(const std::vector<std::variant<int64_t, std::string>>& dims) {
  onnx::Shape shape;
  for (const auto& d : dims) {
    onnx::Dimension& out = shape.dim.emplace_back();
    std::visit([&](const auto& v) { out.value = v; }, d);
  }
  onnx::Type t;
  t.value = onnx::TensorType{onnx::DataType::kFloat, std::move(shape)};
  return t;
}

inline onnx::ValueInfo value_info(const std::string& name,
                                  const std::vector<std::variant<int64_t, std::string>>& dims) {
  onnx::ValueInfo v;
  v.name = name;
  v.type = float_type(dims);
  return v;
}

inline onnx::Node onnx_node(const std::string& type, std::vector<std::string> inputs,
                            std::vector<std::string> outputs, std::vector<onnx::Attribute> a = {}) {
  onnx::Node n;
  n.op_type = type;
  n.input = std::move(inputs);
  n.output = std::move(outputs);
  n.attribute = std::move(a);
  return n;
}

inline onnx::Tensor int_tensor(const std::string& name, std::vector<int64_t> values) {
  onnx::Tensor t;
  t.name = name;
  t.dims = {static_cast<int64_t>(values.size())};
  t.data_type = onnx::DataType::kInt64;
  t.int64_data = std::move(values);
  return t;
}

inline onnx::Attribute graph_attribute(const std::string& name, onnx::Graph g) {
  onnx::Attribute a;
  a.name = name;
  a.type = onnx::AttributeType::kGraph;
  a.g = std::move(g);
  return a;
}

inline onnx::Model onnx_model(std::vector<onnx::ValueInfo> inputs, std::vector<onnx::Node> nodes,
                              std::vector<onnx::ValueInfo> outputs) {
  onnx::Model m;
  m.ir_version = 8;
  m.opset_import = {{"", 17}};
  m.graph.name = "test";
  m.graph.input = std::move(inputs);
  m.graph.node = std::move(nodes);
  m.graph.output = std::move(outputs);
  return m;
}

inline OnnxFile onnx_file(const onnx::Model& m) {
  return OnnxFile(SharedBytes::adopt(onnx::serialize(m)), "test.onnx");
}

}  // namespace emend
