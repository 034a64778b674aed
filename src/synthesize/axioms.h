// TASO's axioms in our operators, to hold synthesis against: they are what its verifier takes for
// granted, 44 in its file. Nothing in the search looks at them.
//
// Where TASO's operators have no counterpart of ours: a scalar factor is a product with a tensor of
// one element; `enlarge` is a zero border around the filters, with as much more padding; fused
// activations are operators of their own, so that one axiom says x = x here.
#pragma once

#include <string>
#include <vector>

#include "synthesize/derive.h"

namespace emend {

struct Axiom {
  std::string name, inputs, left, right;
};
// {k} stands for the axes 0 and 1, {conv} and {pool} for attributes: strides, pads, kernels.
const std::vector<Axiom>& taso_axioms();
// Each in all its readings.
std::vector<Axiom> axiom_readings(const std::vector<Axiom>& axioms);

enum class Standing : uint8_t {
  same,     // one of the equations says it, up to names
  follows,  // they imply it
  trivial,  // both sides are the same term
  missing,
};
std::string_view to_text(Standing s);

struct AxiomReport {
  std::string name, text;
  Standing standing = Standing::missing;
  std::vector<std::string> missing;  // the readings of {k} and the like that do not follow
};

// Each in all its readings against the equations.
std::vector<AxiomReport> compare_axioms(const std::vector<Axiom>& axioms,
                                        const std::vector<Equation>& equations,
                                        const std::vector<Directed>& rules,
                                        const DeriveOptions& options, uint64_t seed);

}  // namespace emend
