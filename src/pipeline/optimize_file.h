// A file to a better file that takes every size the first one takes. A search reasons at one size;
// so a model with open dimensions is optimized at several, and what comes out is written only if
// it is one program (export/generalise.h) that is also right at the edges, size 1 above all. What
// stands in the way is left as it was, node by node, then level by level; the file itself is what
// remains in the end. No dimension is ever fixed that the file leaves open.
#pragma once

#include <string>

#include "export/onnx.h"
#include "import/onnx.h"
#include "pipeline/optimize.h"

namespace emend {

struct OptimizedFile {
  Model given, better;  // at the size to reason with; equal where nothing was changed
  OptimizeReport report;
  Exported exported;
  int level = 0;                   // what was written comes from this level
  bool as_given = false;           // `exported` is the file that was read
  std::vector<std::string> notes;  // what was left as it was, and why
  // Dimensions that the file left open and `exported` does not: only where another opset was asked
  // for and the program is not one for every size.
  SymbolSizes fixed;
};

OptimizedFile optimize_file(const OnnxFile& file, const ImportOptions& import,
                            const OptimizeOptions& options, const ExportOptions& writing = {});

}  // namespace emend
