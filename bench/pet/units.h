// PET's subprograms: a model is split at everything that is not multi-linear, and what is mutated
// is one compute operator (a convolution, a product), or several of one kind that no path connects.
// What stands between them stays.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace emend {

struct Unit {
  std::vector<NodeId> nodes;     // compute operators of the model: the outputs of `program`
  std::vector<NodeId> operands;  // of the model: the inputs of `program`
  std::vector<bool> weights;     // per operand: does it depend on no input of the model?
  Graph program;
};

// In the order of their first operators; several at once before each by itself.
std::vector<Unit> units_of(const Graph& g);

// The model with a program in the place of each unit that has one. Nothing where that closes a
// cycle: of two merges each may need the other.
std::optional<Graph> assembled(const Graph& g, const std::vector<Unit>& units,
                               const std::vector<const Graph*>& chosen);

}  // namespace emend
