// A right side that is a term over the slots of a query: what most rules do. It is applied to many
// rows at once, one operator after the other, so that the memory that the next rows need can be
// asked for while others are worked on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "egraph/match.h"

namespace emend {

// Nodes in the order in which they are made; the last is the term. A child below `slots` of the
// query is a slot, others are the nodes made before, counted from there. Without nodes the term is
// the slot `bare`.
struct NewTerm {
  struct Node {
    uint32_t op = 0, attr = 0;
    std::vector<uint32_t> children;
  };
  std::vector<Node> nodes;
  uint32_t bare = 0;
};

// A rule with such a right side; the term becomes equal to the node of the query's first atom.
struct TermRule {
  std::string name;
  Query query;
  NewTerm term;
};

// For each row: makes the term and unites it with the node of atom 0. Stops where a limit is met.
// Returns how many rows changed something.
size_t apply_term(EGraph& g, RuleId rule, const NewTerm& term, const Rows& rows);

}  // namespace emend
