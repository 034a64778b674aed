// An elementwise operator as a graph of the operators that are its body's primitive functions: the
// way to write one where ONNX has no name for it yet.
#pragma once

#include <optional>

#include "ops/op_def.h"

namespace emend {

// Nothing when the operator is itself a primitive function, or when one of them has no operator.
std::optional<Graph> spelled_out(const OpDef& def, Attrs attrs, Types types);

}  // namespace emend
