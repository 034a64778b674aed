// A file that was written is read again before it takes the place of another.
#pragma once

#include <filesystem>

#include "export/onnx.h"

namespace emend {

// Throws InternalError where the file is not one that says what was to be written: it can be
// imported, has the inputs and outputs, and holds the very nodes, bodies and initializers.
void require_written(const std::filesystem::path& file, const Exported& wanted);

}  // namespace emend
