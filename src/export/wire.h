// Our values in the words of the ONNX file format. Elements are shared, not copied.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/attrs.h"
#include "ir/tensor.h"
#include "onnx/schema.h"

namespace emend {

onnx::Tensor to_wire(const Tensor& t, const std::string& name);
// Dimensions of -1 are left open; nothing is said of `any`.
onnx::Type to_wire(const Type& t);
// Everything but graphs.
onnx::Attribute to_wire(const std::string& name, const AttrValue& value);

}  // namespace emend
