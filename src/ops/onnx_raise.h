// From operators back to ONNX nodes, by the same rows that lowering reads: the result is a graph of
// `onnx` nodes at one version of the default operator set, which export writes down.
#pragma once

#include "ir/graph.h"

namespace emend {

// Throws Error when an operator has no form at that opset; names which.
Graph raise_onnx(const Graph& g, int64_t opset);

}  // namespace emend
