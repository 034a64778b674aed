// A program of the generator (generate.h) before sizes are known: which moves, joins, operator and
// parts, in which order. Views are made when it is built over operands of some sizes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "mutate/generate.h"
#include "ops/build.h"

namespace emend {

// How operands of parallel operators become one, and what is computed of it several again.
struct Join {
  enum class Kind : uint8_t { none, along, stacked } kind = Kind::none;
  size_t axis = 0;
};

// A program, whatever the sizes of its operands: views are made when they are known.
struct Sketch {
  Join joins[2], part;
  std::vector<Move> moves[2], back;
  const MutantMenu::Compute* compute = nullptr;
  bool refined = false;  // at the end dimensions are cut so that the result has its shape
  size_t steps() const {
    size_t n = 1 + back.size() + refined + (part.kind != Join::Kind::none);
    for (size_t slot : {0u, 1u}) n += moves[slot].size() + (joins[slot].kind != Join::Kind::none);
    return n;
  }
};
std::string to_text(const Sketch& s);

// What stands for the operands of parallel operators; throws Error where they do not fit.
NodeId joined(GraphBuilder& b, const std::vector<NodeId>& parts, const Join& how);
// The program over inputs like those of the original, of its output types, or why there is none.
Result<Graph> program_of(const Sketch& s, const ParallelOps& ops, const Graph& original);
std::vector<Type> output_types(const Graph& g);

}  // namespace emend
