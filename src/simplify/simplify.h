// Cleaning: the rules marked `always`, left to right, to a fixed point, together with what is no
// equation: constants computed beforehand, equal expressions and equal constants made one, dead
// code dropped. Afterwards the rules marked `finish` form the composites that ONNX has one name
// for.
//
// What rules say is equal; this driver says what is better. A rule fires only if it leaves no more
// operators, and no more heavy ones, than it removes: a convolution that somebody else uses too is
// not copied to fold a scale into it. Folding never inflates a program beyond a budget: a scalar
// that is broadcast to a huge tensor stays a broadcast. Outputs, inputs, their names, and the names
// of surviving nodes are kept. Deterministic.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "ir/graph.h"

namespace emend {

struct Rule;

struct SimplifyOptions {
  // Globs over the names of rules and of the passes fold-constants, common-subexpressions and
  // merge-constants. What `disable` names is off unless `enable` names it too.
  std::vector<std::string> enable, disable;
  int64_t fold_bytes = int64_t{16} << 20;  // how much larger folding may make the program
  // Larger results of mere moves of one operand (transposes ...) are left to the program: whoever
  // compiles it lays weights out anew anyhow, and need not hold them in yet another order.
  int64_t fold_moves_below = INT64_MAX;
  int rounds = 200;    // sweeps over the program, at most
  bool exact = false;  // only rules that keep every bit
  bool finish = true;
  bool cleaned = false;  // all but finishing was done before: the program is a result of it
  // Used like those marked `always`, but whatever they add: a form (rules/forms.h).
  const std::vector<Rule>* form = nullptr;
  Monitor monitor = {};  // asked before every sweep; each of them leaves a valid program
};

struct SimplifyReport {
  struct Fired {
    std::string rule;
    int times = 0;
  };
  std::vector<Fired> fired;  // by name
  size_t nodes_before = 0, nodes_after = 0;
  int rounds = 0;
  std::string stop_reason;  // "fixed point", "limit of rounds" or "interrupted"
};

Graph simplify(const Graph& g, const SimplifyOptions& options = {},
               SimplifyReport* report = nullptr);

}  // namespace emend
