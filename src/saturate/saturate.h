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
#include "saturate/application.h"
#include "saturate/tensor_egraph.h"

namespace emend {

struct SaturateOptions {
  std::vector<Rule> rules;  // none: all_rules()
  // Globs over the names of rules. What `disable` names is off unless `enable` names it too.
  std::vector<std::string> enable, disable;
  bool exact = false;        // only rules that keep every bit
  size_t nodes = 2500;       // that are added to those of the program
  size_t other_nodes = 500;  // of them, by rules that never served
  size_t rounds = 1000;
  // What a node takes, in any unit; none: a nucleus much more than all that is none.
  NodeSeconds seconds_of;
  // A firing that gains nothing leads as far away as one that makes the program dearer by so much
  // of its price.
  double step = 0.01;
  size_t bytes = size_t{1} << 30;  // of the e-graph, and an eighth of them of any rule's matches
  double seconds = 20;             // a safety net, far from what the other limits leave time for
  BackOff back_off;
  Monitor monitor = {};
};

struct SaturateReport {
  struct Fired {
    std::string rule;
    size_t matches = 0, times = 0;  // found; those that changed something
    double seconds = 0;
    size_t waiting = 0;     // found and not looked at before a limit was met
    uint32_t nearest = 0;   // of those that wait, how many steps from the program
    bool too_many = false;  // places at a time, so that it was given up
  };
  std::vector<Fired> fired;  // rules that matched, by name
  size_t rounds = 0, nodes = 0, classes = 0;
  std::vector<std::string> rules;  // by the number that firings give
  StopReason stopped = StopReason::saturated;
  double seconds = 0;

  // Of another e-graph of the same search: nodes and classes of the larger one count, and the
  // reason why that stopped; rules are of the last one.
  void add(const SaturateReport& more);
};

// A saturation that can go on with more rules, in the same e-graph.
class Saturation {
 public:
  explicit Saturation(const Graph& g, const SaturateOptions& options = {});
  ~Saturation();
  // By the rules that have served, until nothing is new that is at most so many steps away, or a
  // limit is met.
  StopReason run(uint32_t most = UINT32_MAX);
  // By the others, too, where those have nothing left to say.
  StopReason run_others();
  // Rules besides those of the options; they look at everything first.
  void add(std::vector<Rule> rules);
  const TensorEGraph& egraph() const { return *egraph_; }
  const SaturateReport& report() const { return report_; }  // of all runs
  std::unique_ptr<TensorEGraph> take() &&;

 private:
  class Loop;
  StopReason run(uint32_t most, size_t nodes);

  std::unique_ptr<TensorEGraph> egraph_;
  SaturateOptions options_;
  size_t nodes_;  // at most, in all
  std::unique_ptr<Loop> loop_;
  SaturateReport report_;
};

std::unique_ptr<TensorEGraph> saturate(const Graph& g, const SaturateOptions& options = {},
                                       SaturateReport* report = nullptr);

}  // namespace emend
