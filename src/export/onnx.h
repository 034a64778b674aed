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
#include "onnx/write.h"

namespace emend {

struct ExportOptions {
  int64_t target_opset = 0;  // of the default domain; 0: as the model says
};

struct Exported {
  onnx::Model file;
  Graph graph;                     // the same as `onnx` nodes
  std::vector<std::string> notes;  // what is otherwise than in the file that the model came from
};

// Throws Error when an operator has no form at the opset; names which. Every dimension is written
// as a number.
Exported export_onnx(const Model& model, const ExportOptions& options = {});
// For every size: the program was made at others, too (generalise.h). Symbols that took a size of
// their own stay symbols.
std::variant<Exported, NotGeneral> export_for_all_sizes(const Model& model,
                                                        std::vector<AtSizes> others,
                                                        const ExportOptions& options = {});
// Writes the file; weights go beside it where the model had them there, or where they must.
void write_onnx(const Exported& exported, const ModelInfo& info, const std::filesystem::path& path,
                onnx::WriteOptions how = {});
// Both.
Exported export_onnx(const Model& model, const std::filesystem::path& path,
                     const ExportOptions& options = {});

}  // namespace emend
