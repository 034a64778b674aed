// The numbers that stand in programs, and integers drawn where programs may differ by them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ops/op_def.h"

namespace emend {

// Every node, with the types of its operands; those of expansions and of bodies too. Stops where
// `visit` says true, and says whether it did.
using Visit = std::function<bool(const Graph&, NodeId, const OpDef&, Types)>;
bool any_node(const Graph& g, const Visit& visit);

// The numbers that stand in the programs, as constants or attributes: a piecewise function changes
// its formula at one of them, or at one that follows from them.
std::vector<double> numbers_of(const Graph& a, const Graph& b);

// An end of the type, a number beside one, or what a number of the programs makes of it; from 128
// random bits.
int64_t integer_at_ends(DType t, std::span<const double> numbers, uint64_t bits, uint64_t more);

}  // namespace emend
