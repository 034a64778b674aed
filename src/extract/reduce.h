// Makes an extraction problem smaller without losing any optimum. What goes:
//   - nodes that no finite term uses, nodes that are their own child, classes that no root reaches;
//   - free classes: those with a term of price zero, decided once and no longer anybody's child;
//   - classes with a single node: of price zero they are replaced by their children wherever they
//     stand, of any price where only one node uses them;
//   - dominated nodes: another node of the class needs a part of the same children and costs no
//   more.
// Every class that goes has its choice decided, so that a solution of the small problem is one of
// the large problem once these are filled in.
#pragma once

#include "extract/problem.h"

namespace emend {

struct Reduced {
  ExtractionProblem problem;                        // without names
  std::vector<uint32_t> class_origin, node_origin;  // of the reduced ones in the original
  std::vector<uint32_t> decided;                    // per original class: its node, or kNoNode
  std::vector<uint32_t> stand_in;  // per original node: the reduced node that is or replaces it

  // From choices of the small problem to choices of the original, needed ones only.
  std::vector<uint32_t> expand(const ExtractionProblem& original,
                               std::span<const uint32_t> choice) const;
  // The other way, for a start from a known solution.
  std::vector<uint32_t> restrict_to(const ExtractionProblem& original,
                                    std::span<const uint32_t> choice) const;
};

// Of a validated problem.
Reduced reduce(const ExtractionProblem& p);

}  // namespace emend
