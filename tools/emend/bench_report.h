// What `emend bench` says of what it measured: tables for people, the same facts as JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "pipeline/accuracy.h"
#include "pipeline/compile.h"
#include "pipeline/optimize.h"
#include "run/measure.h"

namespace emend {

// A model on a target, ready to run.
struct BenchEntry {
  std::string path, target;
  bool strict = false;  // kernels lose no more than plain sums do
  std::string without;  // rules and passes that were left out besides
  Graph graph;          // as the file has it: what results are compared with
  std::vector<Value> inputs;
  std::optional<CpuProgram> program;  // none: the reference runs it
  std::function<std::vector<Value>()> run;
  std::function<void()> timed;  // the same, into memory that is there already
  double compile_s = 0;         // from the file to the first run, which is not in it
  std::vector<std::pair<std::string, double>> phases_ms;
  OptimizeReport optimizing = {};
  CompileReport report = {};

  Timing timing = {};
  Accuracy accuracy = {};
};

struct BenchReport {
  const BenchEntry* against = nullptr;  // with which the others are compared
  double peak_memory_bytes = 0;
  bool steps = false;     // where the time goes
  bool rankings = false;  // of every group
  bool print = true;      // tables
};
Json bench_report(const std::vector<BenchEntry>& entries, const BenchReport& how);

// In the order in which they run, with the times of every run. Ends read what is given or write
// what is asked for: the order of these is not the program's to choose.
Json served_steps(const BenchEntry& e, int runs);

}  // namespace emend
