// A piece of a program between a root and a cut, as a program of its own, and the exact comparison
// of two of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "ir/graph.h"

namespace emend {

struct Region {
  Graph graph;              // one output: the root
  std::vector<int> leaves;  // per input: which value of the cut it stands for
};

// Walks back from `root`; `leaf_of(n)` says which value of the cut stands for node n, or -1 to go
// on through it. nullopt when an input of the program would not be a leaf.
std::optional<Region> region_of(const Graph& g, NodeId root,
                                const std::function<int(NodeId)>& leaf_of);

struct RegionResult {
  bool equal = false;
  std::string method = {};
  bool may_wrap = false;  // equal but for integers that wrap
};

// Values for the leaves are drawn from `seed`; leaf types come from the regions. The monitor hears
// of every node; what it throws ends the comparison.
RegionResult compare_regions(const Region& a, const Region& b, uint64_t seed, double max_operations,
                             const Monitor& monitor = {});

// Arithmetic operations of one evaluation, as the meanings count them.
double operation_count(const Graph& g);

}  // namespace emend
