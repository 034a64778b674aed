// PET's optimizer (Wang et al., OSDI 2021, section 6): a beam over the units of a model in their
// order. Every program of the beam is crossed with every mutant of the unit, what stands at borders
// of units is optimized (activations before moves, neighbouring moves as one, moves that undo one
// another dropped), and the cheapest stay. The cost is the sum of the operators' prices, as TASO's.
#pragma once

#include "pet/mutants.h"

namespace emend {

struct PetResult {
  Graph best;
  double cost = 0;
  std::vector<std::string> mutants;  // that it has, in order
  size_t evaluated = 0;              // programs
  double seconds = 0;                // of the beam, without pricing and without mutation
};

PetResult pet_search(const Graph& g, const PetOptions& options, Mutator& mutator, Prices& prices);

// What is done across borders of units.
Graph post_optimized(const Graph& g);

}  // namespace emend
