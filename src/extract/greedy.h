// The two usual extractions, as baselines and starting points. Both expect a validated problem.
#pragma once

#include "extract/problem.h"

namespace emend {

// The cheapest *term* of every class (sharing counted as often as it is used), by Knuth's
// generalisation of Dijkstra's algorithm; kNoNode where a class has no finite term. Following the
// choices never meets a cycle.
std::vector<uint32_t> tree_choices(const ExtractionProblem& p);

// Those choices, restricted to what the roots need.
std::vector<uint32_t> greedy_tree(const ExtractionProblem& p);

// Bottom-up over *sets* of classes: a class takes the node whose own price and the union of its
// children's sets cost least, until nothing changes. Sees sharing below one node, not between
// users. Memory grows with classes times the size of a solution.
std::vector<uint32_t> greedy_dag(const ExtractionProblem& p);

// Leaves only what the roots need. The choices must be complete and free of cycles.
std::vector<uint32_t> needed(const ExtractionProblem& p, std::vector<uint32_t> choice);

}  // namespace emend
