// Programs to ONNX files: operators become `onnx` nodes by the operator table (ops/onnx_raise.h),
// those become the file format, and the file is replaced atomically. Names and order of inputs and
// outputs, documentation, metadata, versions and node names are the imported model's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "export/generalise.h"
#include "ir/model.h"
#include "onnx/schema.h"

namespace emend {

struct ExportOptions {
  int64_t target_opset = 0;  // of the default domain; 0: as the model says
  // With it, a dimension stays symbolic where the file is right for every size (generalise.h);
  // without it, all dimensions are written as numbers.
  AtSizes at_sizes = nullptr;
};

struct Exported {
  onnx::Model file;
  Graph graph;  // the same as `onnx` nodes
  // What the file no longer promises: "dimension N is written as 1: Reshape ...".
  std::vector<std::string> notes;
};

// Throws Error when an operator has no form at the opset; names which.
Exported export_onnx(const Model& model, const ExportOptions& options = {});
// Also writes the file; weights go beside it where the model had them there, or where they must.
Exported export_onnx(const Model& model, const std::filesystem::path& path,
                     const ExportOptions& options = {});

}  // namespace emend
