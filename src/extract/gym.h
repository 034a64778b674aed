// E-graphs in the JSON of extraction-gym (https://github.com/egraphs-good/extraction-gym):
//   {"nodes": {ID: {"op": TEXT, "cost": 1.5, "eclass": NAME, "children": [ID, ...]}, ...},
//    "root_eclasses": [NAME, ...]}
// A child is named by any node of its class. `cost` is 1 and `children` empty where they are
// missing; a node marked "subsumed" is not to be picked and left out.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/json.h"
#include "extract/problem.h"

namespace emend {

// Both throw Error for what is no sound problem (see validate), the second with the file's name.
ExtractionProblem parse_gym(std::string_view text);
ExtractionProblem read_gym(const std::filesystem::path& file);

// The problem as such a file; operators are lost, since problems have none.
Json gym_json(const ExtractionProblem& p);

// The picked node of every needed class, by name: {"choices": {CLASS: NODE, ...}}, the member that
// extraction-gym's own results have.
Json choices_json(const ExtractionProblem& p, std::span<const uint32_t> choice);

}  // namespace emend
