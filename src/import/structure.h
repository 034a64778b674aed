// The structure of an ONNX model as a graph of `onnx` nodes, one per node of the file: no operator
// is interpreted. Names become operands, functions are inlined, initializers and Constant nodes
// become constants that view the file, subgraphs become graph attributes whose inputs are the
// formal ones followed by the captured outer values in the order of their first use.
#pragma once

#include "import/sizes.h"
#include "ir/graph.h"
#include "onnx/schema.h"

namespace emend {

// Is this input no input proper, but a constant: an initializer of the same name that the caller
// gave no value? (Before IR version 4 every initializer had to be listed as an input.)
std::vector<const onnx::ValueInfo*> proper_inputs(const onnx::Model& model,
                                                  const ImportOptions& options);

// Throws Error naming the node and the reason.
Graph onnx_structure(const onnx::Model& model,
                     const std::vector<const onnx::ValueInfo*>& proper_inputs, const Sizes& sizes);

// domain -> version, with "ai.onnx" written as "".
std::map<std::string, int64_t> opset_versions(const std::vector<onnx::OperatorSetId>& imports);

}  // namespace emend
