// How far results are from the truth: the same program in double precision on the same inputs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "ir/graph.h"
#include "ops/evaluate.h"

namespace emend {

// A whole run in double precision takes its time: a program of more arithmetic is not run.
constexpr double kMaxCheckOperations = 2e10;

// Outputs of the reference in some arithmetic, as doubles.
std::vector<Value> reference_outputs(const Graph& g, std::span<const Value> inputs, Arithmetic a,
                                     const Monitor& monitor = {});
// Floating-point tensors as doubles, to be compared with those.
std::vector<Value> as_doubles(std::vector<Value> values);

struct Accuracy {
  bool known = false;
  std::string reason;  // why not, if not
  double max_abs_err = 0;
  double max_rel_err = 0;  // relative to the largest value of the output
  std::string output;      // where that is
};

// Of outputs that something else computed for these inputs.
Accuracy accuracy_of(const Graph& g, std::span<const Value> inputs,
                     const std::vector<Value>& outputs, const Monitor& monitor = {},
                     double max_operations = kMaxCheckOperations);

}  // namespace emend
