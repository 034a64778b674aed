// A model that stays loaded and runs when told to, so that a benchmark can take turns with other
// processes. Lines on stdin, one line of JSON on stdout for each, until stdin ends:
//   (at the start)   {"ready": true, "compile_s": 0.8, "first_ms": 3.5}
//   run 5            {"ms": [1.02, 1.01, 1.01, 1.03, 1.01]}
//   outputs DIR      {"outputs": ["y"]}, written to DIR as NAME.npy
//   steps 5          {"steps": [{"label": "", "end": true, "operations": 9, "ms": [...]}, ...]}
//   anything else    {"error": "..."}
// bench/worker.py speaks the same for other runtimes, but for the steps.
#pragma once

#include <functional>
#include <vector>

#include "base/json.h"
#include "ir/graph.h"

namespace emend {

// One model's runs: timed ones write where the ones before have written, as those of the other
// runtimes do.
struct ServedRuns {
  std::function<void()> timed;
  std::function<std::vector<Value>()> outputs;
  std::function<Json(int runs)> steps;
};

int serve(const Graph& g, const ServedRuns& runs, double compile_s);

}  // namespace emend
