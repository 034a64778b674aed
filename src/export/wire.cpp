#include "export/wire.h"

#include <memory>

#include "ir/unshaped.h"

namespace emend {
namespace {

using Kind = onnx::AttributeType;

onnx::DataType data_type(DType t) {
  return static_cast<onnx::DataType>(info(t).onnx);
}

// The list that import made a record of (import/attributes.h): its items have one kind.
void fill_list(onnx::Attribute& out, const Attrs& record) {
  for (const auto& [key, item] : record.entries()) {
    if (auto* t = item.as<Tensor>()) {
      out.type = Kind::kTensors;
      out.tensors.push_back(to_wire(*t, ""));
    } else if (auto* type = item.as<Type>()) {
      out.type = Kind::kTypes;
      out.type_protos.push_back(to_wire(*type));
    } else {
      throw Error(str("attribute ", emend::quoted(out.name), " cannot be written"));
    }
  }
}

void fill(onnx::Attribute& out, const AttrValue& value) {
  const auto set = [&](Kind kind, auto& member, auto v) {
    out.type = kind;
    member = std::move(v);
  };
  std::visit(
      [&]<class T>(const T& v) {
        if constexpr (std::is_same_v<T, bool>) {
          set(Kind::kInt, out.i, int64_t{v});
        } else if constexpr (std::is_same_v<T, int64_t>) {
          set(Kind::kInt, out.i, v);
        } else if constexpr (std::is_same_v<T, DType>) {
          set(Kind::kInt, out.i, int64_t{info(v).onnx});
        } else if constexpr (std::is_same_v<T, double>) {
          set(Kind::kFloat, out.f, static_cast<float>(v));
        } else if constexpr (std::is_same_v<T, std::string>) {
          set(Kind::kString, out.s, v);
        } else if constexpr (std::is_same_v<T, Dims>) {
          set(Kind::kInts, out.ints, v);
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          set(Kind::kFloats, out.floats, std::vector<float>(v.begin(), v.end()));
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          set(Kind::kStrings, out.strings, v);
        } else if constexpr (std::is_same_v<T, Tensor>) {
          set(Kind::kTensor, out.t, to_wire(v, ""));
        } else if constexpr (std::is_same_v<T, Type>) {
          set(Kind::kType, out.tp, to_wire(v));
        } else if constexpr (std::is_same_v<T, Attrs>) {
          fill_list(out, v);
        } else {
          static_assert(std::is_same_v<T, GraphRef>);
          throw Error(str("attribute ", emend::quoted(out.name), " is a graph"));
        }
      },
      value.storage());
}

}  // namespace

onnx::Tensor to_wire(const Tensor& t, const std::string& name) {
  onnx::Tensor out;
  out.name = name;
  out.dims = t.shape();
  out.data_type = data_type(t.dtype());
  if (t.dtype() == DType::string) {
    out.string_data = t.strings();
  } else {
    auto owner = std::make_shared<const Tensor>(t);
    auto bytes = owner->bytes();
    out.raw_data = SharedBytes(std::move(owner), bytes);
  }
  return out;
}

onnx::Type to_wire(const Type& t) {
  onnx::Type out;
  switch (t.kind) {
    case Type::Kind::sequence:
      out.value = onnx::SequenceType{to_wire(t.items[0])};
      break;
    case Type::Kind::optional:
      out.value = onnx::OptionalType{to_wire(t.items[0])};
      break;
    case Type::Kind::tensor: {
      onnx::Shape shape;
      for (int64_t d : t.shape) {
        onnx::Dimension& dim = shape.dim.emplace_back();
        if (d >= 0) dim.value = d;
      }
      out.value = onnx::TensorType{data_type(t.dtype), std::move(shape)};
      break;
    }
    default:
      if (is_unshaped(t)) out.value = onnx::TensorType{data_type(t.dtype), std::nullopt};
  }
  return out;
}

onnx::Attribute to_wire(const std::string& name, const AttrValue& value) {
  onnx::Attribute out;
  out.name = name;
  fill(out, value);
  return out;
}

}  // namespace emend
