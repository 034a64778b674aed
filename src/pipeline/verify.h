// Are two models equal? First as they are; where that leaves a doubt, after both were cleaned by
// the proven rules, which undoes most of what other tools do to a file. Inputs and outputs are
// matched by name where both models have the same names, by place otherwise.
#pragma once

#include "equiv/compare.h"
#include "ir/model.h"

namespace emend {

Verdict verify(const Model& a, const Model& b, const CompareOptions& options = {});

}  // namespace emend
