#include "import/attributes.h"

#include "import/tensor.h"
#include "ir/unshaped.h"

namespace emend {
namespace {

using Kind = onnx::AttributeType;

// Files older than IR version 2 do not say which member holds the value.
Kind kind_of(const onnx::Attribute& a) {
  if (a.type != Kind::kUndefined) return a.type;
  if (a.f) return Kind::kFloat;
  if (a.i) return Kind::kInt;
  if (a.s) return Kind::kString;
  if (a.t) return Kind::kTensor;
  if (a.g) return Kind::kGraph;
  if (a.tp) return Kind::kType;
  if (a.sparse_tensor) return Kind::kSparseTensor;
  if (!a.floats.empty()) return Kind::kFloats;
  if (!a.ints.empty()) return Kind::kInts;
  if (!a.strings.empty()) return Kind::kStrings;
  if (!a.tensors.empty()) return Kind::kTensors;
  if (!a.graphs.empty()) return Kind::kGraphs;
  if (!a.type_protos.empty()) return Kind::kTypes;
  if (!a.sparse_tensors.empty()) return Kind::kSparseTensors;
  return Kind::kUndefined;
}

template <class Items, class Convert>
AttrValue list_record(const Items& items, const Convert& convert) {
  std::vector<Attrs::Entry> entries;
  for (size_t i = 0; i < items.size(); ++i) {
    std::string key = std::to_string(i);
    key.insert(0, 8 - std::min<size_t>(8, key.size()), '0');  // records are sorted by name
    entries.emplace_back(key, convert(items[i]));
  }
  return Attrs(std::move(entries));
}

// Types inside a program are either known or not: a tensor with an open dimension is `unshaped`.
Type program_type(const onnx::Type& declared) {
  Type t = declared_type(declared);
  const auto close = [](Type& part, const auto& self) -> void {
    if (part.is_tensor() && !checked_count(part.shape)) part = unshaped(part.dtype);
    for (Type& item : part.items) self(item, self);
  };
  close(t, close);
  return t;
}

template <class T>
const T& needed(const onnx::Indirect<T>& held) {
  if (!held) throw Error("has no value");
  return *held;
}

}  // namespace

AttributeBindings::AttributeBindings(const onnx::Function& f, const onnx::Node& call,
                                     const AttributeBindings& caller) {
  for (const auto& a : f.attribute_proto) bound_[a.name] = &a;
  for (const auto& a : call.attribute) {
    if (const onnx::Attribute* value = caller.resolve(a)) bound_[a.name] = value;
  }
}

const onnx::Attribute* AttributeBindings::resolve(const onnx::Attribute& a) const {
  if (a.ref_attr_name.empty()) return &a;
  auto it = bound_.find(a.ref_attr_name);
  return it == bound_.end() ? nullptr : it->second;
}

AttrValue to_attribute(const onnx::Attribute& a) {
  switch (kind_of(a)) {
    case Kind::kFloat:
      return static_cast<double>(a.f.value_or(0));
    case Kind::kInt:
      return a.i.value_or(0);
    case Kind::kString:
      return a.s.value_or("");
    case Kind::kTensor:
      return to_tensor(needed(a.t));
    case Kind::kFloats:
      return std::vector<double>(a.floats.begin(), a.floats.end());
    case Kind::kInts:
      return a.ints;
    case Kind::kStrings:
      return a.strings;
    case Kind::kType:
      return program_type(needed(a.tp));
    case Kind::kSparseTensor:
      return to_dense(needed(a.sparse_tensor));
    case Kind::kTensors:
      return list_record(a.tensors, to_tensor);
    case Kind::kTypes:
      return list_record(a.type_protos, program_type);
    case Kind::kSparseTensors:
      return list_record(a.sparse_tensors, to_dense);
    default:
      break;
  }
  throw Error("is of a kind that is not supported");
}

std::optional<Tensor> constant_value(const onnx::Node& n, const AttributeBindings& bindings) {
  for (const auto& given : n.attribute) {
    const onnx::Attribute* a = bindings.resolve(given);
    if (!a) continue;
    const std::string& name = given.name;
    if (name == "value" && a->t) return to_tensor(*a->t);
    if (name == "sparse_value" && a->sparse_tensor) return to_dense(*a->sparse_tensor);
    if (name == "value_int") return Tensor::of_int(a->i.value_or(0));
    if (name == "value_ints") return Tensor::of_ints(a->ints);
    if (name == "value_float")
      return Tensor::of_real(static_cast<double>(a->f.value_or(0)), DType::f32);
    if (name == "value_floats") {
      std::vector<double> values(a->floats.begin(), a->floats.end());
      return Tensor::of_reals(DType::f32, {static_cast<int64_t>(values.size())}, values);
    }
    if (name == "value_string") return Tensor::of_strings({}, {a->s.value_or("")});
    if (name == "value_strings")
      return Tensor::of_strings({static_cast<int64_t>(a->strings.size())}, a->strings);
  }
  return std::nullopt;
}

}  // namespace emend
