// ONNX's If, Loop and Scan in and out of `if` and `loop` (control.h). A Loop or Scan that is no
// static loop stays an ONNX node and is run on the host, step by step, with its actual values.
#pragma once

#include <vector>

#include "ops/onnx_row.h"

namespace emend {

OnnxRow onnx_if();
OnnxRow onnx_loop();
OnnxRow onnx_scan_with_batch();  // opset 8
OnnxRow onnx_scan();

}  // namespace emend
