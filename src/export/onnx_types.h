// Which element types ONNX's operators take, by version of the default domain. A file written at an
// older opset may ask an operator for a type that it learned only later; such a file is invalid,
// though everything in it has a name.
#pragma once

#include <string>

#include "ir/graph.h"

namespace emend {

// The types of all values of a graph of `onnx` nodes, as lowering infers them; `any` for tuples and
// for what nobody knows.
IdVec<NodeId, Type> value_types(const Graph& raised);

// The first value of the graph that its operator does not take at this opset, as a sentence; empty
// if there is none.
std::string type_obstacle(const Graph& raised, int64_t opset);

// The newest opset that changed any operator's types.
int64_t newest_typed_opset();

}  // namespace emend
