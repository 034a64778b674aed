// Values of an ONNX file as ours. Elements are shared with the mapped file wherever they are stored
// as we store them, which is how everybody stores weights.
#pragma once

#include <filesystem>
#include <functional>

#include "ir/tensor.h"
#include "onnx/schema.h"

namespace emend {

// All throw Error naming the tensor and the reason.
Tensor to_tensor(const onnx::Tensor& t);
Tensor to_dense(const onnx::SparseTensor& t);
Value to_value(const onnx::Sequence& s);
Value to_value(const onnx::Optional& o);

// A file of test data (*.pb) holding a value of that kind.
Value read_value(const std::filesystem::path& path, Type::Kind kind);

// Any type, given how a tensor type of known dtype is made of its shape (null if there is none).
// What we have no word for (maps, sparse tensors) is plain `any`.
Type type_from_onnx(const onnx::Type& t,
                    const std::function<Type(DType, const onnx::Shape*)>& tensor);
// A type in the file's words: unknown dimensions are -1, a tensor of unknown rank is `unshaped`.
Type declared_type(const onnx::Type& t);

}  // namespace emend
