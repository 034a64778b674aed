// A proven mutant as a rule of one shape: two programs of the same inputs, equal everywhere, become
// a rule whose attributes are literal and whose guard demands the shapes of these inputs.
#pragma once

#include <span>
#include <string>

#include "ir/graph.h"
#include "rules/instance.h"
#include "rules/rule.h"

namespace emend {

// That `original` is `mutant`: one output each, which is no input; inputs of the same types, in
// the same order, all of which the original reads; no constants but scalars.
Rule rule_between(std::string name, const Graph& original, const Graph& mutant);

// The first result of a plan whose terms are operands by their number, as a program of these.
Graph program_of(const RightSide& plan, std::span<const Type> operands,
                 const std::string& output = "y");

}  // namespace emend
