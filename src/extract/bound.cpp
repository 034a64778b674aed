#include "extract/bound.h"

#include <limits>

namespace emend {
namespace {

// Which classes can be built of open nodes alone; grows as nodes are opened.
class Buildable {
 public:
  Buildable(const SearchGraph& graph, Rng& rng)
      : graph_(graph),
        rng_(rng),
        open_(graph.problem.node_count()),
        missing_(graph.problem.node_count()),
        built_(graph.problem.class_count()),
        in_cut_(graph.problem.class_count()) {
    for (uint32_t n = 0; n < missing_.size(); ++n) {
      missing_[n] = static_cast<uint32_t>(graph.problem.children(n).size());
    }
  }

  bool built(uint32_t c) const { return built_[c]; }

  void open(uint32_t n) {
    open_[n] = true;
    stack_.assign(1, n);
    while (!stack_.empty()) {
      const uint32_t m = stack_.back(), c = graph_.owner[m];
      stack_.pop_back();
      if (!open_[m] || missing_[m] > 0 || built_[c]) continue;
      built_[c] = true;
      for (uint32_t user : graph_.users.of(c)) {
        if (--missing_[user] == 0) stack_.push_back(user);
      }
    }
  }

  // The nodes of a cut around a root that cannot be built, none of them open: every node that
  // has children which cannot be built keeps one of them inside.
  void cut_around(uint32_t root, std::vector<uint32_t>& nodes) {
    nodes.clear();
    ++stamp_;
    stack_.assign(1, root);
    in_cut_[root] = stamp_;
    for (size_t i = 0; i < stack_.size(); ++i) {
      for (uint32_t n : graph_.problem.nodes(stack_[i])) {
        if (missing_[n] == 0) {
          nodes.push_back(n);
        } else if (uint32_t d = child_inside(n); d != kNoClass) {
          in_cut_[d] = stamp_;
          stack_.push_back(d);
        }
      }
    }
  }

 private:
  // One to take in; kNoClass: one is inside already.
  uint32_t child_inside(uint32_t n) {
    uint32_t pick = kNoClass;
    int64_t seen = 0;
    for (uint32_t d : graph_.problem.children(n)) {
      if (in_cut_[d] == stamp_) return kNoClass;
      if (!built_[d] && rng_.between(0, seen++) == 0) pick = d;
    }
    return pick;
  }

  const SearchGraph& graph_;
  Rng& rng_;
  std::vector<bool> open_;
  std::vector<uint32_t> missing_;  // children of a node that cannot be built
  std::vector<bool> built_;
  std::vector<uint32_t> in_cut_;  // the cut (its stamp) that a class was last in
  uint32_t stamp_ = 0;
  std::vector<uint32_t> stack_;
};

}  // namespace

DualBound dual_ascent(const SearchGraph& graph, Rng& rng) {
  const auto& p = graph.problem;
  Buildable buildable(graph, rng);
  DualBound out;
  out.reduced = p.cost;
  for (uint32_t n = 0; n < p.node_count(); ++n) {
    if (p.cost[n] == 0) buildable.open(n);
  }
  std::vector<uint32_t> cut;
  for (uint32_t root : p.roots) {
    while (!buildable.built(root)) {
      buildable.cut_around(root, cut);
      double charge = std::numeric_limits<double>::infinity();
      for (uint32_t n : cut) charge = std::min(charge, out.reduced[n]);
      out.value += charge;
      for (uint32_t n : cut) {
        out.reduced[n] -= charge;
        if (out.reduced[n] == 0) buildable.open(n);
      }
      out.cuts.push_back(cut);
    }
  }
  return out;
}

std::vector<uint32_t> separating_cut(const SearchGraph& graph, const std::vector<bool>& open,
                                     Rng& rng) {
  Buildable buildable(graph, rng);
  for (uint32_t n = 0; n < open.size(); ++n) {
    if (open[n]) buildable.open(n);
  }
  std::vector<uint32_t> cut;
  for (uint32_t root : graph.problem.roots) {
    if (buildable.built(root)) continue;
    buildable.cut_around(root, cut);
    return cut;
  }
  return {};
}

}  // namespace emend
