// The judge of every answer: knows nothing of how it was found.
#pragma once

#include "base/result.h"
#include "extract/problem.h"

namespace emend {

// What a choice costs, each needed class once; or why it is no solution: a needed class without a
// choice, a node of another class, a cycle. Choices of classes that nobody needs do not count.
Result<double> checked_cost(const ExtractionProblem& p, std::span<const uint32_t> choice);

// The classes of one cycle among the choices that the roots need, each depending on the next and
// the last on the first; none: there is no cycle. Classes without a choice end a path.
std::vector<uint32_t> find_cycle(const ExtractionProblem& p, std::span<const uint32_t> choice);

}  // namespace emend
