// ONNX's If, Loop and Scan in and out of `if` and `loop` (control.h). A Loop or Scan that is no
// static loop is written out step by step if it is short; else it stays an ONNX node and is run on
// the host with its actual values.
#pragma once

#include <vector>

#include "ops/onnx_row.h"

namespace emend {

OnnxRow onnx_if();
OnnxRow onnx_loop();
OnnxRow onnx_scan_with_batch();  // opset 8
OnnxRow onnx_scan();

// control_raise.cpp
std::vector<NodeId> if_raise(OnnxWriter& w);
std::vector<NodeId> loop_raise(OnnxWriter& w);

}  // namespace emend
