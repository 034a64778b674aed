// The invariants of a Graph as code: structure, operands before users, complete attributes, and
// types as the operators infer them. Run after every step of the pipeline; a failure is our bug.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace emend {

// What is wrong, or nothing.
std::optional<std::string> find_fault(const Graph& g);
// Trips an assertion that names the step.
void verify(const Graph& g, const std::string& after);

}  // namespace emend
