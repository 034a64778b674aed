// Matching rules against graphs.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "rules/instance.h"

namespace emend {

struct Match {
  Substitution substitution;
  std::vector<NodeId> nodes;  // the nodes of the left side, root first
};

// All ways in which the left side matches at a node; guards are not looked at. Rules with several
// roots match at no single one.
std::vector<Match> match(const Graph& g, const Rule& rule, NodeId root);

// What a graph knows of its nodes. Keeps a reference to the graph.
TermFacts facts_of(const Graph& g);

}  // namespace emend
