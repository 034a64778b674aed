#include "import/tensor.h"

#include "ir/unshaped.h"
#include "onnx/read.h"
#include "onnx/tensor_data.h"

namespace emend {
namespace {

std::string tensor_label(const onnx::Tensor& t) {
  return t.name.empty() ? "a tensor" : str("tensor ", emend::quoted(t.name));
}

DType dtype_of(onnx::DataType type) {
  auto dtype = dtype_from_onnx(static_cast<int>(type));
  if (!dtype) throw Error(str("elements of ", onnx::type_name(type), " are not supported"));
  return *dtype;
}

Tensor converted_tensor(const onnx::Tensor& t) {
  if (t.segment) throw Error("tensors in segments are not supported");
  DType dtype = dtype_of(t.data_type);
  if (dtype != DType::string) {
    SharedBytes bytes = onnx::tensor_bytes(t).value_or_throw();
    return Tensor(dtype, t.dims, bytes.owner(), bytes.view());
  }
  if (t.raw_data && !t.raw_data->empty()) throw Error("strings cannot be raw bytes");
  auto n = checked_count(t.dims);
  if (!n || *n != static_cast<int64_t>(t.string_data.size())) {
    throw Error(
        str("holds ", t.string_data.size(), " strings where the shape is ", shape_text(t.dims)));
  }
  return Tensor::of_strings(t.dims, t.string_data);
}

// Where the k-th value of a sparse tensor goes. Indices are linear, or one row of coordinates each.
int64_t sparse_position(const Tensor& indices, int64_t k, const Dims& dims) {
  if (indices.rank() == 1) return indices.integer(k);
  int64_t at = 0;
  auto rank = static_cast<int64_t>(dims.size());
  for (int64_t d = 0; d < rank; ++d) {
    int64_t i = indices.integer(k * rank + d), size = dims[static_cast<size_t>(d)];
    if (i < 0 || i >= size) throw Error(str("a sparse index ", i, " is outside of ", size));
    at = at * size + i;
  }
  return at;
}

}  // namespace

Tensor to_tensor(const onnx::Tensor& t) {
  return with_note([&] { return tensor_label(t); }, [&] { return converted_tensor(t); });
}

Tensor to_dense(const onnx::SparseTensor& t) {
  if (!t.values || !t.indices) throw Error("a sparse tensor without values or indices");
  return with_note(
      [&] { return tensor_label(*t.values); },
      [&] {
        Tensor values = converted_tensor(*t.values), indices = converted_tensor(*t.indices);
        auto n = checked_count(t.dims);
        if (!n) throw Error(str("absurd sparse shape ", shape_text(t.dims)));
        auto rank = static_cast<int64_t>(t.dims.size());
        bool fits =
            values.rank() == 1 && indices.dtype() == DType::i64 &&
            (indices.shape() == values.shape() || indices.shape() == Dims{values.count(), rank}) &&
            info(values.dtype()).bits % 8 == 0 && info(values.dtype()).bits > 0;
        if (!fits) {
          throw Error(str("sparse values ", to_text(values.type()), " at indices ",
                          to_text(indices.type()), " do not make ", shape_text(t.dims)));
        }
        auto size = static_cast<size_t>(info(values.dtype()).bits / 8);
        return Tensor::make(values.dtype(), t.dims, [&](std::byte* out) {
          for (int64_t k = 0; k < values.count(); ++k) {
            int64_t at = sparse_position(indices, k, t.dims);
            if (at < 0 || at >= *n) throw Error(str("a sparse index ", at, " is outside of ", *n));
            std::memcpy(out + static_cast<size_t>(at) * size,
                        values.data() + static_cast<size_t>(k) * size, size);
          }
        });
      });
}

Value to_value(const onnx::Sequence& s) {
  std::vector<Value> items;
  switch (s.elem_type) {
    case onnx::ValueKind::kTensor:
      for (const auto& t : s.tensor_values) items.emplace_back(to_tensor(t));
      break;
    case onnx::ValueKind::kSequence:
      for (const auto& v : s.sequence_values) items.push_back(to_value(v));
      break;
    case onnx::ValueKind::kOptional:
      for (const auto& v : s.optional_values) items.push_back(to_value(v));
      break;
    case onnx::ValueKind::kUndefined:
      break;
    default:
      throw Error("sequences of maps and sparse tensors are not supported");
  }
  return Value::sequence(std::move(items));
}

Value to_value(const onnx::Optional& o) {
  switch (o.elem_type) {
    case onnx::ValueKind::kTensor:
      if (o.tensor_value) return Value::optional({to_tensor(*o.tensor_value)});
      break;
    case onnx::ValueKind::kSequence:
      if (o.sequence_value) return Value::optional({to_value(*o.sequence_value)});
      break;
    case onnx::ValueKind::kOptional:
      if (o.optional_value) return Value::optional({to_value(*o.optional_value)});
      break;
    case onnx::ValueKind::kUndefined:
      break;
    default:
      throw Error("optional maps and sparse tensors are not supported");
  }
  return Value::optional({});
}

Value read_value(const std::filesystem::path& path, Type::Kind kind) {
  return with_note([&] { return path.string(); },
                   [&]() -> Value {
                     if (kind == Type::Kind::sequence) return to_value(onnx::read_sequence(path));
                     if (kind == Type::Kind::optional) return to_value(onnx::read_optional(path));
                     return to_tensor(onnx::read_tensor(path));
                   });
}

Type type_from_onnx(const onnx::Type& t,
                    const std::function<Type(DType, const onnx::Shape*)>& tensor) {
  const auto item = [&](const onnx::Indirect<onnx::Type>& inner) {
    return inner ? type_from_onnx(*inner, tensor) : Type::any();
  };
  if (auto* of_tensor = std::get_if<onnx::TensorType>(&t.value)) {
    auto dtype = dtype_from_onnx(static_cast<int>(of_tensor->elem_type));
    if (!dtype) return Type::any();
    return tensor(*dtype, of_tensor->shape ? &*of_tensor->shape : nullptr);
  }
  if (auto* sequence = std::get_if<onnx::SequenceType>(&t.value))
    return Type::sequence(item(sequence->elem_type));
  if (auto* optional = std::get_if<onnx::OptionalType>(&t.value))
    return Type::optional(item(optional->elem_type));
  return Type::any();
}

Type declared_type(const onnx::Type& t) {
  return type_from_onnx(t, [](DType dtype, const onnx::Shape* shape) {
    if (!shape) return unshaped(dtype);
    Dims dims;
    for (const auto& d : shape->dim) {
      auto* size = std::get_if<int64_t>(&d.value);
      dims.push_back(size ? *size : -1);
    }
    return Type::tensor(dtype, std::move(dims));
  });
}

}  // namespace emend
