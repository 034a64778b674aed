// How many inputs an ONNX operator cannot do without. The operator table reads inputs by position;
// a file that leaves one out is told so here, once for all operators.
#pragma once

#include <string>

namespace emend {

// In the default domain, the least over all opsets. Elementwise operators check for themselves.
int required_inputs(const std::string& type);

}  // namespace emend
