// From a partition with a kernel chosen for every group to a program: kernel texts, buffers with
// their places in one arena, and steps.
#pragma once

#include "kernels/plan.h"

namespace emend {

Program generate(const Graph& g, const Plan& plan, const Catalogue& catalogue,
                 const Target& target);

}  // namespace emend
