// The ONNX file format as plain values: one struct per message of onnx.proto 1.22 (IR version 13)
// and onnx-data.proto, members named as there. Field numbers stand once, in fields.h; read.h and
// write.h follow from that table. Nothing is interpreted here: a Model may be nonsense.
//
//  - Tensor::raw_data, float_data and double_data are views into the mapped file, aligned to
//  nothing;
//    everything else is owned.
//  - A member holds its default where the file says nothing. `seen` keeps which of the file's
//  fields
//    were there (bit n: field n), so that an empty name that was written is written again; whoever
//    builds a Model leaves it 0.
//  - Unknown fields are skipped. What only placement of work on devices needs is carried as bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/shared_bytes.h"

namespace emend::onnx {

// An optional value on the heap, copied with its owner: for messages that contain themselves.
template <class T>
class Indirect {
 public:
  Indirect() = default;
  Indirect(T value) : value_(std::make_unique<T>(std::move(value))) {}
  Indirect(const Indirect& other) { *this = other; }
  Indirect(Indirect&&) noexcept = default;
  Indirect& operator=(const Indirect& other) {
    value_ = other ? std::make_unique<T>(*other) : nullptr;
    return *this;
  }
  Indirect& operator=(Indirect&&) noexcept = default;
  ~Indirect() = default;

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  T& emplace() {
    value_ = std::make_unique<T>();
    return *value_;
  }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
};

// A list of fixed-width numbers as it lies in the file: a view where it came in one piece, which is
// how everybody writes it, and owned where it did not.
template <class T>
class PackedList {
 public:
  PackedList() = default;
  PackedList(std::vector<T> numbers) : view_(SharedBytes::adopt(std::move(numbers))) {}
  PackedList(std::initializer_list<T> numbers) : PackedList(std::vector<T>(numbers)) {}

  bool empty() const { return size() == 0; }
  size_t size() const { return raw().size() / sizeof(T); }
  T operator[](size_t i) const {
    T number;
    std::memcpy(&number, raw().data() + i * sizeof(T), sizeof(T));
    return number;
  }
  std::span<const std::byte> raw() const {
    return pieces_.empty() ? view_.view() : std::as_bytes(std::span(pieces_));
  }
  SharedBytes bytes() const { return pieces_.empty() ? view_ : SharedBytes::adopt(pieces_); }

  // `piece` is a whole number of elements.
  void append(const SharedBytes& piece) {
    if (empty()) {
      view_ = piece;
      return;
    }
    const auto add = [&](std::span<const std::byte> raw) {
      const size_t before = pieces_.size();
      pieces_.resize(before + raw.size() / sizeof(T));
      if (!raw.empty()) std::memcpy(pieces_.data() + before, raw.data(), raw.size());
    };
    if (pieces_.empty()) add(view_.view());
    view_ = {};
    add(piece.view());
  }

 private:
  SharedBytes view_;
  std::vector<T> pieces_;  // when not empty, the list is here
};

// A file may hold numbers that are not listed.
enum class DataType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

enum class DataLocation : int32_t { kDefault = 0, kExternal = 1 };

enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kType = 13,
  kTypes = 14,
};

struct StringPair {
  std::string key;
  std::string value;
  uint32_t seen = 0;
};

struct OperatorSetId {
  std::string domain;
  int64_t version = 0;
  uint32_t seen = 0;
};

struct Segment {
  int64_t begin = 0;
  int64_t end = 0;
  uint32_t seen = 0;
};

// The elements are in raw_data, or in the one typed list that belongs to data_type, or (when
// data_location says so) in another file; tensor_data.h gives them as bytes in every case.
struct Tensor {
  std::vector<int64_t> dims;
  DataType data_type = DataType::kUndefined;
  std::optional<Segment> segment;
  PackedList<float> float_data;
  std::vector<int32_t> int32_data;
  std::vector<std::string> string_data;
  std::vector<int64_t> int64_data;
  std::string name;
  std::optional<SharedBytes> raw_data;
  PackedList<double> double_data;
  std::vector<uint64_t> uint64_data;
  std::string doc_string;
  std::vector<StringPair> external_data;
  DataLocation data_location = DataLocation::kDefault;
  std::vector<StringPair> metadata_props;
  uint32_t seen = 0;
};

struct SparseTensor {
  std::optional<Tensor> values;
  std::optional<Tensor> indices;
  std::vector<int64_t> dims;
};

struct Dimension {
  // Unknown, a size, or a name standing for one.
  std::variant<std::monostate, int64_t, std::string> value;
  std::string denotation;
  uint32_t seen = 0;
};

struct Shape {
  std::vector<Dimension> dim;
};

struct Type;

// Without a shape not even the rank is known; a shape without dimensions is a scalar's.
struct TensorType {
  DataType elem_type = DataType::kUndefined;
  std::optional<Shape> shape;
  uint32_t seen = 0;
};

struct SparseTensorType {
  DataType elem_type = DataType::kUndefined;
  std::optional<Shape> shape;
  uint32_t seen = 0;
};

struct SequenceType {
  Indirect<Type> elem_type;
};

struct OptionalType {
  Indirect<Type> elem_type;
};

struct MapType {
  DataType key_type = DataType::kUndefined;
  Indirect<Type> value_type;
  uint32_t seen = 0;
};

struct Type {
  std::variant<std::monostate, TensorType, SequenceType, MapType, OptionalType, SparseTensorType>
      value;
  std::string denotation;
  uint32_t seen = 0;
};

struct ValueInfo {
  std::string name;
  std::optional<Type> type;
  std::string doc_string;
  std::vector<StringPair> metadata_props;
  uint32_t seen = 0;
};

struct Graph;

// `type` says which member holds the value; files older than IR version 2 may leave it undefined.
// With `ref_attr_name` the value is that of the enclosing function's attribute.
struct Attribute {
  std::string name;
  std::optional<float> f;
  std::optional<int64_t> i;
  std::optional<std::string> s;
  Indirect<Tensor> t;
  Indirect<Graph> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors;
  std::vector<Graph> graphs;
  std::string doc_string;
  Indirect<Type> tp;
  std::vector<Type> type_protos;
  AttributeType type = AttributeType::kUndefined;
  std::string ref_attr_name;
  Indirect<SparseTensor> sparse_tensor;
  std::vector<SparseTensor> sparse_tensors;
  uint32_t seen = 0;
};

struct Node {
  std::vector<std::string> input;
  std::vector<std::string> output;
  std::string name;
  std::string op_type;
  std::vector<Attribute> attribute;
  std::string doc_string;
  std::string domain;
  std::string overload;
  std::vector<StringPair> metadata_props;
  std::vector<std::string> device_configurations;  // messages, as bytes
  uint32_t seen = 0;
};

struct TensorAnnotation {
  std::string tensor_name;
  std::vector<StringPair> quant_parameter_tensor_names;
  uint32_t seen = 0;
};

struct Graph {
  std::vector<Node> node;
  std::string name;
  std::vector<Tensor> initializer;
  std::string doc_string;
  std::vector<ValueInfo> input;
  std::vector<ValueInfo> output;
  std::vector<ValueInfo> value_info;
  std::vector<TensorAnnotation> quantization_annotation;
  std::vector<SparseTensor> sparse_initializer;
  std::vector<StringPair> metadata_props;
  uint32_t seen = 0;
};

struct Function {
  std::string name;
  std::vector<std::string> input;
  std::vector<std::string> output;
  std::vector<std::string> attribute;
  std::vector<Node> node;
  std::string doc_string;
  std::vector<OperatorSetId> opset_import;
  std::string domain;
  std::vector<Attribute> attribute_proto;
  std::vector<ValueInfo> value_info;
  std::string overload;
  std::vector<StringPair> metadata_props;
  uint32_t seen = 0;
};

struct TrainingInfo {
  std::optional<Graph> initialization;
  std::optional<Graph> algorithm;
  std::vector<StringPair> initialization_binding;
  std::vector<StringPair> update_binding;
};

struct Model {
  int64_t ir_version = 0;
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  int64_t model_version = 0;
  std::string doc_string;
  Graph graph;
  std::vector<OperatorSetId> opset_import;
  std::vector<StringPair> metadata_props;
  std::vector<TrainingInfo> training_info;
  std::vector<Function> functions;
  std::vector<std::string> configuration;  // messages, as bytes
  uint32_t seen = 0;
  // Not of the format: some elements came from other files, so that a writer can keep the style.
  bool had_external_data = false;
};

// Values of the test data (*.pb) that are no plain tensors.
enum class ValueKind : int32_t {
  kUndefined = 0,
  kTensor = 1,
  kSparseTensor = 2,
  kSequence = 3,
  kMap = 4,
  kOptional = 5,
};

struct Map;
struct Optional;

struct Sequence {
  std::string name;
  ValueKind elem_type = ValueKind::kUndefined;
  std::vector<Tensor> tensor_values;
  std::vector<SparseTensor> sparse_tensor_values;
  std::vector<Sequence> sequence_values;
  std::vector<Map> map_values;
  std::vector<Optional> optional_values;
  uint32_t seen = 0;
};

struct Map {
  std::string name;
  DataType key_type = DataType::kUndefined;
  std::vector<int64_t> keys;
  std::vector<std::string> string_keys;
  std::optional<Sequence> values;
  uint32_t seen = 0;
};

struct Optional {
  std::string name;
  ValueKind elem_type = ValueKind::kUndefined;
  std::optional<Tensor> tensor_value;
  std::optional<SparseTensor> sparse_tensor_value;
  Indirect<Sequence> sequence_value;
  Indirect<Map> map_value;
  Indirect<Optional> optional_value;
  uint32_t seen = 0;
};

}  // namespace emend::onnx
