// ONNX values that several tests start from.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/text.h"
#include "onnx/schema.h"

namespace emend::onnx {

inline Tensor float_tensor(const std::string& name, size_t count, float start) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = start + static_cast<float>(i);
  Tensor t;
  t.name = name;
  t.dims = {static_cast<int64_t>(count)};
  t.data_type = DataType::kFloat;
  t.raw_data = SharedBytes::adopt(std::move(values));
  return t;
}

inline Attribute int_attribute(const std::string& name, int64_t value) {
  Attribute a;
  a.name = name;
  a.type = AttributeType::kInt;
  a.i = value;
  return a;
}

inline Type tensor_type(DataType type, std::vector<Dimension> dims) {
  Type t;
  t.value = TensorType{type, Shape{std::move(dims)}};
  return t;
}

// At least one of every field of the format, with values at the edges.
inline Model model_with_everything() {
  Tensor typed;
  typed.name = "typed";
  typed.dims = {2, 0, -1};
  typed.data_type = static_cast<DataType>(99);
  typed.segment = Segment{-1, 5};
  typed.float_data = {1.5F, -0.0F, std::numeric_limits<float>::infinity()};
  typed.int32_data = {0, -1, std::numeric_limits<int32_t>::min()};
  typed.string_data = {"", std::string("\0\xff", 2)};
  typed.int64_data = {std::numeric_limits<int64_t>::min(), 127, 128};
  typed.double_data = {1e300};
  typed.uint64_data = {std::numeric_limits<uint64_t>::max()};
  typed.doc_string = "doc";
  typed.external_data = {{"location", "x"}, {"offset", "0"}};
  typed.metadata_props = {{"k", "v"}};

  SparseTensor sparse{typed, float_tensor("raw", 3, 1), {4, 5}};

  Type sequence, optional, map, sparse_type;
  sequence.value = SequenceType{tensor_type(DataType::kInt4, {})};
  optional.value = OptionalType{sequence};
  map.value = MapType{DataType::kString, optional};
  map.denotation = "denoted";
  sparse_type.value = SparseTensorType{DataType::kBool, std::nullopt};

  Dimension unknown, fixed, named;
  fixed.value = int64_t{0};
  named.value = "N";
  named.denotation = "DATA_BATCH";

  ValueInfo info;
  info.name = "x";
  info.type = tensor_type(DataType::kFloat, {unknown, fixed, named});
  info.doc_string = "an input";
  info.metadata_props = {{"a", "b"}};

  Graph inner;
  inner.name = "inner";
  inner.initializer = {float_tensor("w", 2, 0)};

  Node node;
  node.input = {"x", ""};
  node.output = {"y"};
  node.name = "first";
  node.op_type = "Everything";
  node.domain = "com.example";
  node.overload = "o";
  node.doc_string = "node doc";
  node.metadata_props = {{"m", "n"}};
  node.device_configurations = {std::string("\x0a\x01z", 3)};
  const auto add = [&](AttributeType type, auto fill) {
    Attribute a;
    a.name = str("a", node.attribute.size());
    a.type = type;
    fill(a);
    node.attribute.push_back(a);
  };
  add(AttributeType::kFloat, [](Attribute& a) { a.f = 0.0F; });
  add(AttributeType::kInt, [](Attribute& a) { a.i = 0; });
  add(AttributeType::kString, [](Attribute& a) { a.s = ""; });
  add(AttributeType::kTensor, [&](Attribute& a) { a.t = typed; });
  add(AttributeType::kGraph, [&](Attribute& a) { a.g = inner; });
  add(AttributeType::kFloats, [](Attribute& a) { a.floats = {1, 2}; });
  add(AttributeType::kInts, [](Attribute& a) { a.ints = {-1, 300}; });
  add(AttributeType::kStrings, [](Attribute& a) { a.strings = {"p", ""}; });
  add(AttributeType::kTensors, [&](Attribute& a) { a.tensors = {typed, typed}; });
  add(AttributeType::kGraphs, [&](Attribute& a) { a.graphs = {inner, Graph()}; });
  add(AttributeType::kSparseTensor, [&](Attribute& a) { a.sparse_tensor = sparse; });
  add(AttributeType::kSparseTensors, [&](Attribute& a) { a.sparse_tensors = {sparse}; });
  add(AttributeType::kType, [&](Attribute& a) { a.tp = map; });
  add(AttributeType::kTypes, [&](Attribute& a) { a.type_protos = {map, sparse_type, Type()}; });
  add(AttributeType::kInt, [](Attribute& a) { a.ref_attr_name = "outer", a.doc_string = "d"; });

  TensorAnnotation annotation;
  annotation.tensor_name = "w";
  annotation.quant_parameter_tensor_names = {{"SCALE", "s"}};

  Model m;
  m.ir_version = 13;
  m.producer_name = "emend";
  m.producer_version = "0";
  m.domain = "d";
  m.model_version = -7;
  m.doc_string = "model doc";
  m.graph.node = {node, Node()};
  m.graph.name = "g";
  m.graph.initializer = {float_tensor("big", 1000, 0), typed};
  m.graph.doc_string = "graph doc";
  m.graph.input = {info};
  m.graph.output = {info, ValueInfo()};
  m.graph.value_info = {info};
  m.graph.quantization_annotation = {annotation};
  m.graph.sparse_initializer = {sparse};
  m.graph.metadata_props = {{"gk", "gv"}};
  m.opset_import = {{"", 27}, {"com.example", 1}};
  m.metadata_props = {{"", ""}};
  m.training_info = {{m.graph, inner, {{"i", "j"}}, {{"u", "v"}}}};
  Function f;
  f.name = "f";
  f.input = {"a"};
  f.output = {"b"};
  f.attribute = {"alpha"};
  f.node = {node};
  f.doc_string = "fd";
  f.opset_import = {{"", 27}};
  f.domain = "com.example";
  f.attribute_proto = {int_attribute("beta", 3)};
  f.value_info = {info};
  f.overload = "o";
  f.metadata_props = {{"fk", "fv"}};
  m.functions = {f};
  m.configuration = {std::string("\x0a\x03gpu", 5)};
  return m;
}

// Sequences, maps and optionals inside one another.
inline Sequence nested_sequence() {
  Sequence inner;
  inner.elem_type = ValueKind::kTensor;
  inner.tensor_values = {float_tensor("a", 2, 0), float_tensor("b", 0, 0)};
  Map map;
  map.key_type = DataType::kInt64;
  map.keys = {3, -4};
  map.string_keys = {"k"};
  map.values = inner;
  Optional optional;
  optional.elem_type = ValueKind::kSequence;
  optional.sequence_value = inner;
  optional.map_value = map;
  optional.optional_value = optional;
  Sequence outer;
  outer.name = "outer";
  outer.elem_type = ValueKind::kSequence;
  outer.sequence_values = {inner, Sequence()};
  outer.optional_values = {optional};
  outer.map_values = {map};
  return outer;
}

// One initializer, float[4], said to be elsewhere.
inline Model model_with_reference(const std::string& location, const std::string& offset,
                                  const std::string& length) {
  Model model;
  Tensor t;
  t.name = "w";
  t.dims = {4};
  t.data_type = DataType::kFloat;
  t.data_location = DataLocation::kExternal;
  t.external_data = {{"location", location}};
  if (!offset.empty()) t.external_data.push_back({"offset", offset});
  if (!length.empty()) t.external_data.push_back({"length", length});
  model.graph.initializer = {t};
  return model;
}

// Two tensors large enough for the data file, one small, one in a subgraph, one in an attribute.
inline Model model_with_weights(float start) {
  Model model;
  model.ir_version = 8;
  model.graph.initializer = {float_tensor("a", 1500, start), float_tensor("small", 3, start),
                             float_tensor("b", 700, start + 1)};
  Graph inner;
  inner.initializer = {float_tensor("c", 900, start + 2)};
  Attribute body, constant;
  body.name = "body";
  body.g = inner;
  constant.name = "value";
  constant.t = float_tensor("d", 500, start + 3);
  Node node;
  node.attribute = {body, constant};
  model.graph.node = {node};
  return model;
}

}  // namespace emend::onnx
