// Equality saturation of a tensor program: all rules at once, wherever they match, until nothing is
// new or a limit is met (TENSAT's exploration). The result holds every program that was found, all
// equal; which of them is best is decided by extraction.
//
// Limits count nodes, rounds and bytes, so that equal inputs give equal results.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "egraph/run.h"
#include "saturate/tensor_egraph.h"

namespace emend {

struct SaturateOptions {
  std::vector<Rule> rules;  // none: all_rules()
  // Globs over the names of rules. What `disable` names is off unless `enable` names it too.
  std::vector<std::string> enable, disable;
  bool exact = false;   // only rules that keep every bit
  size_t nodes = 5000;  // that are added to those of the program
  size_t rounds = 12;
  size_t bytes = size_t{1} << 30;
  double seconds = 20;  // a safety net, far from what the other limits leave time for
  BackOff back_off;
  Monitor monitor = {};
};

struct SaturateReport {
  struct Fired {
    std::string rule;
    size_t matches = 0, times = 0;  // found; those that changed something
    double seconds = 0;
  };
  std::vector<Fired> fired;  // rules that matched, by name
  size_t rounds = 0, nodes = 0, classes = 0;
  std::vector<std::string> rules;  // by the number that firings give
  StopReason stopped = StopReason::saturated;
  double seconds = 0;
};

// A saturation that can go on with more rules, in the same e-graph.
class Saturation {
 public:
  explicit Saturation(const Graph& g, const SaturateOptions& options = {});
  ~Saturation();
  // To the end: until nothing is new or a limit is met. Called again, rounds count anew, and so do
  // nodes beyond those that are there.
  StopReason run();
  // Rules besides those of the options; they look at everything first.
  void add(std::vector<Rule> rules);
  const TensorEGraph& egraph() const { return *egraph_; }
  const SaturateReport& report() const { return report_; }  // of all runs
  std::unique_ptr<TensorEGraph> take() &&;

 private:
  class Loop;
  std::unique_ptr<TensorEGraph> egraph_;
  SaturateOptions options_;
  std::unique_ptr<Loop> loop_;
  SaturateReport report_;
};

std::unique_ptr<TensorEGraph> saturate(const Graph& g, const SaturateOptions& options = {},
                                       SaturateReport* report = nullptr);

}  // namespace emend
