// Are two models equal? First as they are; where that leaves a doubt, after both were cleaned by
// the proven rules, which undoes most of what other tools do to a file. Inputs and outputs are
// matched by name where both models have the same names, by place otherwise.
//
// A dimension that a file leaves open is part of what it promises: models are compared at several
// sizes, and one that takes a single size where the other takes any is another model.
#pragma once

#include <filesystem>

#include "equiv/compare.h"
#include "import/onnx.h"
#include "ir/model.h"

namespace emend {

Verdict verify(const Model& a, const Model& b, const CompareOptions& options = {});

Verdict verify_files(const std::filesystem::path& a, const std::filesystem::path& b,
                     const ImportOptions& sizes = {}, const CompareOptions& options = {});

}  // namespace emend
