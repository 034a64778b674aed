// A node's meaning (ops/meaning.h) without iterators of extent 1, which are zero: as programs that
// differ in shapes are compared.
#pragma once

#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ops/meaning.h"

namespace emend {

struct BareMeaning {
  Dims extents;                        // all at least 2, of outputs first
  size_t outputs = 0;                  // how many of these run over the output
  std::vector<std::vector<int>> dims;  // per dimension of the output: its iterators
  Meaning means;                       // over these iterators
  std::vector<bool> computed_with;     // iterators whose value a scalar body uses
  bool linear = false;                 // in all that it reads
};
// Fails, with the reason, where the operator has none in index notation.
Result<BareMeaning> bare_meaning(const Graph& g, NodeId id);

// The iterator that is the whole index, or -1.
int alone(const IndexExpr& e);

template <class Do>
void each_iterator(const IndexExpr& e, Do&& act) {
  for (auto [k, coef] : e.affine.terms) act(k);
  for (const Digit& d : e.digits)
    for (auto [k, coef] : d.of.terms) act(k);
}

}  // namespace emend
