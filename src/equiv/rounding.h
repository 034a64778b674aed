// What the rounding of constants explains, element by element: a program of sums and products whose
// constants are each off by a rounding is off by a rounding of the sum of its terms' magnitudes, at
// most. An output that is small beside others is held to its own terms, not to theirs.
#pragma once

#include <optional>
#include <span>

#include "ir/graph.h"

namespace emend {

// Does the root depend on the inputs by sums and products of floats alone? Only then does a
// difference in a constant reach the root in proportion: tanh or a clip would squash it.
bool is_polynomial(const Graph& g);

// The first output of a program in double precision, and for every element the sum of its terms'
// magnitudes. Inputs as the arithmetic real64 stores them. Nothing where the program is no
// polynomial of a form that can be followed.
struct Magnitudes {
  Tensor value, magnitude;
};
std::optional<Magnitudes> magnitudes(const Graph& g, std::span<const Value> inputs);

// How many roundings lie between the numbers of the two files: each result that one side computes
// from constants may stand in the other rounded, and so may the last one.
int roundings_between(const Graph& a, const Graph& b);

// The unit roundoff of the narrowest float type among the constants.
double unit_of_constants(const Graph& a, const Graph& b);

// Each element within so many roundings of its terms, and what doubles themselves make of them.
bool within_rounding(const Magnitudes& x, const Magnitudes& y, double tolerance);

// Of programs that are one but for the constants' elements: is each of these within so many
// roundings of its twin? True where the programs are built otherwise, since then it cannot be said.
bool constants_within(const Graph& a, const Graph& b, double tolerance);

}  // namespace emend
