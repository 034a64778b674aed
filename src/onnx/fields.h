// The one table of field numbers. Each message lists (number, name, member) in ascending order;
// reading, writing, measuring, error paths and the walk over all tensors follow from it and from
// the members' types. Only the sources of this folder include it.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "base/text.h"
#include "onnx/schema.h"

namespace emend::onnx {

template <class Message, class Member>
struct Field {
  uint32_t number;
  const char* name;
  Member Message::*member;
  bool packed = false;  // how a list of numbers is written; both forms are read
};
template <class Message, class Member>
Field(uint32_t, const char*, Member Message::*) -> Field<Message, Member>;
template <class Message, class Member>
Field(uint32_t, const char*, Member Message::*, bool) -> Field<Message, Member>;

// One alternative of a variant member: a `oneof`, of which the file's last word counts.
template <class Alternative, class Message, class Member>
struct Choice {
  uint32_t number;
  const char* name;
  Member Message::*member;
};

template <class Alternative, class Message, class Member>
constexpr Choice<Alternative, Message, Member> choice(uint32_t number, const char* name,
                                                      Member Message::*member) {
  return {number, name, member};
}

template <class Message>
inline constexpr int kFields = 0;  // not a message

// clang-format off
template <> inline constexpr auto kFields<StringPair> = std::tuple{
    Field{1, "key", &StringPair::key},
    Field{2, "value", &StringPair::value}};

template <> inline constexpr auto kFields<OperatorSetId> = std::tuple{
    Field{1, "domain", &OperatorSetId::domain},
    Field{2, "version", &OperatorSetId::version}};

template <> inline constexpr auto kFields<Segment> = std::tuple{
    Field{1, "begin", &Segment::begin},
    Field{2, "end", &Segment::end}};

template <> inline constexpr auto kFields<Tensor> = std::tuple{
    Field{1, "dims", &Tensor::dims},
    Field{2, "data_type", &Tensor::data_type},
    Field{3, "segment", &Tensor::segment},
    Field{4, "float_data", &Tensor::float_data},
    Field{5, "int32_data", &Tensor::int32_data, true},
    Field{6, "string_data", &Tensor::string_data},
    Field{7, "int64_data", &Tensor::int64_data, true},
    Field{8, "name", &Tensor::name},
    Field{9, "raw_data", &Tensor::raw_data},
    Field{10, "double_data", &Tensor::double_data},
    Field{11, "uint64_data", &Tensor::uint64_data, true},
    Field{12, "doc_string", &Tensor::doc_string},
    Field{13, "external_data", &Tensor::external_data},
    Field{14, "data_location", &Tensor::data_location},
    Field{16, "metadata_props", &Tensor::metadata_props}};

template <> inline constexpr auto kFields<SparseTensor> = std::tuple{
    Field{1, "values", &SparseTensor::values},
    Field{2, "indices", &SparseTensor::indices},
    Field{3, "dims", &SparseTensor::dims}};

template <> inline constexpr auto kFields<Dimension> = std::tuple{
    choice<int64_t>(1, "dim_value", &Dimension::value),
    choice<std::string>(2, "dim_param", &Dimension::value),
    Field{3, "denotation", &Dimension::denotation}};

template <> inline constexpr auto kFields<Shape> = std::tuple{
    Field{1, "dim", &Shape::dim}};

template <> inline constexpr auto kFields<TensorType> = std::tuple{
    Field{1, "elem_type", &TensorType::elem_type},
    Field{2, "shape", &TensorType::shape}};

template <> inline constexpr auto kFields<SparseTensorType> = std::tuple{
    Field{1, "elem_type", &SparseTensorType::elem_type},
    Field{2, "shape", &SparseTensorType::shape}};

template <> inline constexpr auto kFields<SequenceType> = std::tuple{
    Field{1, "elem_type", &SequenceType::elem_type}};

template <> inline constexpr auto kFields<OptionalType> = std::tuple{
    Field{1, "elem_type", &OptionalType::elem_type}};

template <> inline constexpr auto kFields<MapType> = std::tuple{
    Field{1, "key_type", &MapType::key_type},
    Field{2, "value_type", &MapType::value_type}};

template <> inline constexpr auto kFields<Type> = std::tuple{
    choice<TensorType>(1, "tensor_type", &Type::value),
    choice<SequenceType>(4, "sequence_type", &Type::value),
    choice<MapType>(5, "map_type", &Type::value),
    Field{6, "denotation", &Type::denotation},
    choice<SparseTensorType>(8, "sparse_tensor_type", &Type::value),
    choice<OptionalType>(9, "optional_type", &Type::value)};

template <> inline constexpr auto kFields<ValueInfo> = std::tuple{
    Field{1, "name", &ValueInfo::name},
    Field{2, "type", &ValueInfo::type},
    Field{3, "doc_string", &ValueInfo::doc_string},
    Field{4, "metadata_props", &ValueInfo::metadata_props}};

template <> inline constexpr auto kFields<Attribute> = std::tuple{
    Field{1, "name", &Attribute::name},
    Field{2, "f", &Attribute::f},
    Field{3, "i", &Attribute::i},
    Field{4, "s", &Attribute::s},
    Field{5, "t", &Attribute::t},
    Field{6, "g", &Attribute::g},
    Field{7, "floats", &Attribute::floats},
    Field{8, "ints", &Attribute::ints},
    Field{9, "strings", &Attribute::strings},
    Field{10, "tensors", &Attribute::tensors},
    Field{11, "graphs", &Attribute::graphs},
    Field{13, "doc_string", &Attribute::doc_string},
    Field{14, "tp", &Attribute::tp},
    Field{15, "type_protos", &Attribute::type_protos},
    Field{20, "type", &Attribute::type},
    Field{21, "ref_attr_name", &Attribute::ref_attr_name},
    Field{22, "sparse_tensor", &Attribute::sparse_tensor},
    Field{23, "sparse_tensors", &Attribute::sparse_tensors}};

template <> inline constexpr auto kFields<Node> = std::tuple{
    Field{1, "input", &Node::input},
    Field{2, "output", &Node::output},
    Field{3, "name", &Node::name},
    Field{4, "op_type", &Node::op_type},
    Field{5, "attribute", &Node::attribute},
    Field{6, "doc_string", &Node::doc_string},
    Field{7, "domain", &Node::domain},
    Field{8, "overload", &Node::overload},
    Field{9, "metadata_props", &Node::metadata_props},
    Field{10, "device_configurations", &Node::device_configurations}};

template <> inline constexpr auto kFields<TensorAnnotation> = std::tuple{
    Field{1, "tensor_name", &TensorAnnotation::tensor_name},
    Field{2, "quant_parameter_tensor_names", &TensorAnnotation::quant_parameter_tensor_names}};

template <> inline constexpr auto kFields<Graph> = std::tuple{
    Field{1, "node", &Graph::node},
    Field{2, "name", &Graph::name},
    Field{5, "initializer", &Graph::initializer},
    Field{10, "doc_string", &Graph::doc_string},
    Field{11, "input", &Graph::input},
    Field{12, "output", &Graph::output},
    Field{13, "value_info", &Graph::value_info},
    Field{14, "quantization_annotation", &Graph::quantization_annotation},
    Field{15, "sparse_initializer", &Graph::sparse_initializer},
    Field{16, "metadata_props", &Graph::metadata_props}};

template <> inline constexpr auto kFields<Function> = std::tuple{
    Field{1, "name", &Function::name},
    Field{4, "input", &Function::input},
    Field{5, "output", &Function::output},
    Field{6, "attribute", &Function::attribute},
    Field{7, "node", &Function::node},
    Field{8, "doc_string", &Function::doc_string},
    Field{9, "opset_import", &Function::opset_import},
    Field{10, "domain", &Function::domain},
    Field{11, "attribute_proto", &Function::attribute_proto},
    Field{12, "value_info", &Function::value_info},
    Field{13, "overload", &Function::overload},
    Field{14, "metadata_props", &Function::metadata_props}};

template <> inline constexpr auto kFields<TrainingInfo> = std::tuple{
    Field{1, "initialization", &TrainingInfo::initialization},
    Field{2, "algorithm", &TrainingInfo::algorithm},
    Field{3, "initialization_binding", &TrainingInfo::initialization_binding},
    Field{4, "update_binding", &TrainingInfo::update_binding}};

template <> inline constexpr auto kFields<Model> = std::tuple{
    Field{1, "ir_version", &Model::ir_version},
    Field{2, "producer_name", &Model::producer_name},
    Field{3, "producer_version", &Model::producer_version},
    Field{4, "domain", &Model::domain},
    Field{5, "model_version", &Model::model_version},
    Field{6, "doc_string", &Model::doc_string},
    Field{7, "graph", &Model::graph},
    Field{8, "opset_import", &Model::opset_import},
    Field{14, "metadata_props", &Model::metadata_props},
    Field{20, "training_info", &Model::training_info},
    Field{25, "functions", &Model::functions},
    Field{26, "configuration", &Model::configuration}};

template <> inline constexpr auto kFields<Sequence> = std::tuple{
    Field{1, "name", &Sequence::name},
    Field{2, "elem_type", &Sequence::elem_type},
    Field{3, "tensor_values", &Sequence::tensor_values},
    Field{4, "sparse_tensor_values", &Sequence::sparse_tensor_values},
    Field{5, "sequence_values", &Sequence::sequence_values},
    Field{6, "map_values", &Sequence::map_values},
    Field{7, "optional_values", &Sequence::optional_values}};

template <> inline constexpr auto kFields<Map> = std::tuple{
    Field{1, "name", &Map::name},
    Field{2, "key_type", &Map::key_type},
    Field{3, "keys", &Map::keys},
    Field{4, "string_keys", &Map::string_keys},
    Field{5, "values", &Map::values}};

template <> inline constexpr auto kFields<Optional> = std::tuple{
    Field{1, "name", &Optional::name},
    Field{2, "elem_type", &Optional::elem_type},
    Field{3, "tensor_value", &Optional::tensor_value},
    Field{4, "sparse_tensor_value", &Optional::sparse_tensor_value},
    Field{5, "sequence_value", &Optional::sequence_value},
    Field{6, "map_value", &Optional::map_value},
    Field{7, "optional_value", &Optional::optional_value}};
// clang-format on

// What a member's type says about its field.
template <class T>
inline constexpr bool kIsMessage = !std::is_same_v<std::remove_cv_t<decltype(kFields<T>)>, int>;
template <class T>
inline constexpr bool kIsNumber = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsOptional<Indirect<T>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

template <class T>
inline constexpr bool kIsPackedList = false;
template <class T>
inline constexpr bool kIsPackedList<PackedList<T>> = true;

// Does the file (or will the file) hold this field although the member is at its default?
template <class Message>
constexpr bool was_seen(const Message& message, uint32_t number) {
  if constexpr (requires { message.seen; }) return (message.seen >> number & 1) != 0;
  return false;
}
template <class Message>
constexpr void set_seen(Message& message, uint32_t number) {
  if constexpr (requires { message.seen; }) message.seen |= uint32_t{1} << number;
}

// A complaint on its way out, collecting the path to the place: graph.node[12]
// "Conv_3".attribute[0]
struct FieldError {
  std::string path;
  std::string reason;
  void under(const std::string& outer) { path = path.empty() ? outer : outer + "." + path; }
};

// The value's own name in quotes, cut to a readable length, or nothing.
template <class T>
std::string label(const T& value) {
  std::string_view name;
  if constexpr (requires { value.name; }) name = value.name;
  if constexpr (requires { value.op_type; }) {
    if (name.empty()) name = value.op_type;
  }
  constexpr size_t kLongest = 80;
  if (name.size() > kLongest) return " " + emend::quoted(name.substr(0, kLongest)) + "...";
  return name.empty() ? "" : " " + emend::quoted(name);
}

// One step of a path; for a list, to the element `index`.
template <class Member>
std::string path_step(const char* name, const Member& member, size_t index) {
  if constexpr (kIsList<Member>) {
    if (index >= member.size()) return name;
    return str(name, "[", index, "]", label(member[index]));
  } else if constexpr (kIsOptional<Member>) {
    return member ? str(name, label(*member)) : name;
  } else {
    return name;
  }
}

}  // namespace emend::onnx
