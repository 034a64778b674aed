// The search's prices where another runtime decides: nuclei are timed there one by one, what fuses
// into them costs what starting an operator takes there and the bytes it adds, and whole programs
// are timed beside the given one. Forms, which no price of a node tells apart, are tried in turn.
#pragma once

#include <memory>

#include "pipeline/other_runtime.h"
#include "pipeline/search_prices.h"
#include "simplify/simplify.h"

namespace emend {

// `finish` makes of a program what would be written.
SearchPrices runtime_prices(std::shared_ptr<OtherRuntime> runtime, const Target& target,
                            const SimplifyOptions& finish);

// The program in the form (rules/forms.h) that is fastest there, and which forms it took.
struct Formed {
  Graph graph;
  std::vector<std::string> forms;
};
Formed fastest_form(const Graph& g, const SimplifyOptions& finish, OtherRuntime& runtime);

}  // namespace emend
