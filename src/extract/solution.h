// A solution that is changed step by step and can be taken back: which node every needed class
// picks, how often a class is used, and a number that orders the picks (a class stands above its
// children), so that a new dependency is usually seen at once to close no cycle.
//
// A class is active while it is used. Every change goes to a trail; undo(mark) takes back what came
// after the mark. Steps that fail (a cycle) leave garbage behind: the caller takes them back.
#pragma once

#include "extract/lists.h"
#include "extract/problem.h"

namespace emend {

// What never changes during a search, shared by all solutions.
struct SearchGraph {
  ExtractionProblem problem;  // a child stands once in a node's list, no node is its own child
  std::vector<uint32_t> owner;
  Lists users;

  explicit SearchGraph(ExtractionProblem p)
      : problem(std::move(p)), owner(problem.owners()), users(users_of_classes(problem)) {}
};

class Solution {
 public:
  // From complete choices without cycles.
  Solution(const SearchGraph& graph, std::span<const uint32_t> choice);

  bool active(uint32_t c) const { return state_[c].node != kNoNode; }
  uint32_t node(uint32_t c) const { return state_[c].node; }
  uint32_t uses(uint32_t c) const { return state_[c].uses; }
  // Of an active class: higher than those of the classes it depends on.
  uint32_t level(uint32_t c) const { return state_[c].level; }
  double cost() const { return cost_; }
  std::vector<uint32_t> choices() const;

  // Makes an inactive class active by a node whose children are all active. Nobody uses it yet: the
  // caller sees to that before the next release.
  void activate(uint32_t c, uint32_t n);
  // An active class picks another node, whose children are all active; what nobody uses any longer
  // becomes inactive. False: that would close a cycle.
  bool repick(uint32_t c, uint32_t n);

  struct Mark {
    size_t trail;
    double cost;
  };
  Mark mark() const { return {trail_.size(), cost_}; }
  void undo(Mark m);
  // The classes that pick another node than then, or none, or one again.
  void changed_since(Mark m, std::vector<uint32_t>& out);
  // No way back from here on.
  void forget() { trail_.clear(); }
  // Sums the cost anew and numbers the picks densely: sums drift and numbers grow.
  void tidy();

 private:
  struct State {
    uint32_t node = kNoNode, uses = 0, level = 0;
  };
  struct Change {
    uint32_t cls;
    State before;
  };
  State& change(uint32_t c) {
    trail_.push_back({c, state_[c]});
    return state_[c];
  }
  bool lift(uint32_t c, uint32_t n);
  void release(uint32_t n);

  const SearchGraph* graph_;
  std::vector<State> state_;
  double cost_ = 0;
  std::vector<Change> trail_;
  std::vector<uint32_t> open_;  // scratch
  std::vector<uint32_t> seen_;  // scratch of commit
  uint32_t stamp_ = 0;
};

}  // namespace emend
