// Mutants of operators, proven (PET, made exact). Every mutation (mutation.h) is tried at every
// site, and its free parameter is solved for. Where the mutant still differs somewhere, or does so
// with nothing added, it is repaired (correct.h), and what was repaired is proven again.
// What comes out are rules: each says that the original operator, at operands of these shapes,
// equals a mutant, and is true everywhere.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "ir/graph.h"
#include "mutate/correct.h"
#include "mutate/generate.h"
#include "mutate/manager.h"
#include "mutate/mutation.h"
#include "ops/priced_node.h"

namespace emend {

struct MutateOptions {
  std::vector<Mutation> mutations;  // none: all_mutations()
  // Globs over their names; "correct" is the repair. What `disable` names is off unless `enable`
  // names it too.
  std::vector<std::string> enable, disable;
  // Seconds of a program's kernels: a guess that is too low rather than too high, or exactly. Views
  // count nothing, since a neighbour may share them. Without it no mutant is too dear.
  std::function<double(const Graph& mutant, const std::vector<bool>& weights, bool exact)> price;
  CorrectOptions correct = {};
  // With it, mutants that no line of the table names, too; they are called "generated".
  std::optional<GenerateOptions> generate = {};
  // What is known of mutants, which learns from every proof; none: all is proven anew.
  MutationManager* manager = nullptr;
  Monitor monitor = {};
};

struct MutateReport {
  struct Mutant {
    std::string mutation, site, parameters;
    enum class Outcome : uint8_t { equal, corrected, refused };
    Outcome outcome = Outcome::refused;
    double share = 0;     // of positions where it agrees, as far as that was looked at
    size_t patches = 0;   // that were laid over it
    double repaired = 0;  // the share of the original's work that they do again
    double seconds = 0;   // of its kernels, where that was asked
    std::string method;   // by which that was shown
    std::string reason;   // why it was refused
  };
  std::vector<Mutant> mutants;  // in the order in which they were tried
  double seconds = 0;           // in all
  double pricing_seconds = 0;   // of these, in MutateOptions::price
  // Pairs of programs whose equality was proven or refuted here, or known before.
  size_t proofs = 0, known = 0;
  std::vector<std::string> faults;  // bugs of ours, each of which cost a site some mutants

  void add(MutateReport more);
};
std::string_view to_text(MutateReport::Mutant::Outcome o);

std::vector<Rule> mutate(const std::vector<PricedNode>& sites, const MutateOptions& options = {},
                         MutateReport* report = nullptr);

}  // namespace emend
