// A node as prices and mutations see it: the operator, what its operands are like, and what it
// takes where that is known. Which program it stands in does not matter.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace emend {

struct PricedNode {
  OpId op;
  Attrs attrs;
  std::vector<Type> operands;
  std::vector<bool> weights;  // which of them depend on no input
  Type result;
  double seconds = 0;
};

}  // namespace emend
