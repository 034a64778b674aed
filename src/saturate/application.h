// A rule at what an e-graph was found to hold: what it makes there, what that costs beside what was
// there, and the firing itself.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "egraph/match.h"
#include "ops/priced_node.h"
#include "saturate/tensor_egraph.h"

namespace emend {

using NodeSeconds = std::function<double(const PricedNode&)>;

// Where a left side was met: the class of every slot, the node of every atom.
struct Place {
  std::span<const ClassId> classes;
  std::span<const ENodeId> nodes;
};

// What became of a rule at places about which all that rules may ask was the same.
struct Recipe {
  TensorEGraph::Recipe steps;
  double more_s = 0;  // what it takes beyond what was matched; what depends on no input takes none
};

// One rule, met in one way.
class Application {
 public:
  // All are referred to.
  Application(TensorEGraph& g, const Rule& rule, const FlatPattern& flat,
              const NodeSeconds& seconds);
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;

  // Nothing where the rule does not hold. Valid until more is asked.
  const Recipe* at(const Place& place);
  // Did it change anything?
  bool fire(RuleId id, const Place& place, const Recipe& recipe);

  // Of which rules the firings merge groups.
  using Mergers = std::set<uint32_t>;
  struct Merge {
    std::vector<ClassId> roots, classes;  // of the items; that the recipe refers to
    std::vector<ENodeId> matched;
    Recipe recipe;
  };
  // Rows are those of single items, all of them; groups are those that share everything else. Calls
  // see(merge) for each group that was not `done`; it says whether it was, now.
  void groups(const Rows& rows, const Mergers& mergers, std::set<std::vector<uint32_t>>& done,
              const std::function<bool(const Merge&)>& see);
  bool fire(RuleId id, const Merge& merge);

 private:
  struct Candidates;
  std::vector<Candidates> candidates(const Rows& rows, const Mergers& mergers);
  std::map<std::vector<ClassId>, std::vector<size_t>> rows_by_shared(const Rows& rows,
                                                                     const Mergers& mergers) const;
  void merge(const Candidates& c, const std::vector<uint32_t>& items,
             std::set<std::vector<uint32_t>>& done, const std::function<bool(const Merge&)>& see);
  bool made_by(ENodeId n, const Mergers& rules) const;
  std::vector<uint32_t> key_of(std::span<const ENodeId> nodes) const;
  std::optional<Recipe> recipe_at(std::span<const ENodeId> nodes);
  double seconds_of(const TensorEGraph::Recipe& recipe) const;
  double seconds_of(std::span<const ENodeId> nodes) const;
  std::optional<Substitution> bound(std::span<const ENodeId> nodes, size_t first) const;
  bool same_term(const Binding& a, const Binding& b) const;
  bool shares(const Substitution& a, const Substitution& b) const;
  bool add(RuleId id, const TensorEGraph::Recipe& recipe, std::span<const ClassId> roots,
           std::span<const ENodeId> matched);

  TensorEGraph& g_;
  const Rule& rule_;
  const FlatPattern& flat_;
  const NodeSeconds& seconds_;
  std::vector<ClassId> classes_;  // that terms stand for
  TermFacts facts_;
  std::map<std::vector<uint32_t>, std::optional<Recipe>> known_;
};

}  // namespace emend
