#include "extract/reduce.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "extract/greedy.h"

namespace emend {
namespace {

// Classes with more nodes than this are only searched for exact twins.
constexpr size_t kCompareAll = 512;
// How many entries a class of price zero may add to its users' lists of children.
constexpr size_t kGrowth = 8;

// Sorts, too.
void drop_repeats(std::vector<uint32_t>& items) {
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

class Reducer {
 public:
  explicit Reducer(const ExtractionProblem& p)
      : p_(p),
        owner_(p.owners()),
        nodes_(p.class_count()),
        children_(p.node_count()),
        cost_(p.cost),
        stand_in_(p.node_count(), kNoNode),
        decided_(p.class_count(), kNoNode),
        is_root_(p.class_count()) {
    const auto feasible = tree_choices(p);
    for (uint32_t n = 0; n < p.node_count(); ++n) {
      auto kids = p.children(n);
      children_[n].assign(kids.begin(), kids.end());
      drop_repeats(children_[n]);
      const bool usable =
          std::isfinite(cost_[n]) && std::ranges::all_of(children_[n], [&](uint32_t d) {
            return feasible[d] != kNoNode && d != owner_[n];
          });
      if (usable) nodes_[owner_[n]].push_back(n);
    }
    for (uint32_t r : p.roots) is_root_[r] = true;
  }

  Reduced run() {
    bool changed = true;
    while (changed) {
      changed = remove_free();
      for (auto& nodes : nodes_) changed |= remove_dominated(nodes);
      changed |= inline_singles();
    }
    return finish();
  }

 private:
  bool gone(uint32_t c) const { return decided_[c] != kNoNode; }

  std::vector<std::vector<uint32_t>> users() const {
    std::vector<std::vector<uint32_t>> out(p_.class_count());
    for (const auto& nodes : nodes_) {
      for (uint32_t n : nodes) {
        for (uint32_t d : children_[n]) out[d].push_back(n);
      }
    }
    return out;
  }

  bool remove_free() {
    const auto using_nodes = users();
    std::vector<uint32_t> open;
    const auto try_free = [&](uint32_t n) {
      const uint32_t c = owner_[n];
      if (gone(c) || cost_[n] > 0 || !children_[n].empty()) return;
      decided_[c] = n;
      open.push_back(c);
    };
    for (const auto& nodes : nodes_) {
      for (uint32_t n : nodes) try_free(n);
    }
    const bool any = !open.empty();
    while (!open.empty()) {
      const uint32_t c = open.back();
      open.pop_back();
      nodes_[c].clear();
      for (uint32_t n : using_nodes[c]) {
        std::erase(children_[n], c);
        try_free(n);
      }
    }
    return any;
  }

  // Keeps nodes of which no other needs less at no higher price.
  bool remove_dominated(std::vector<uint32_t>& nodes) {
    if (nodes.size() < 2) return false;
    std::ranges::sort(nodes, [&](uint32_t a, uint32_t b) {
      return std::tuple(children_[a].size(), cost_[a], a) <
             std::tuple(children_[b].size(), cost_[b], b);
    });
    if (nodes.size() > kCompareAll) {
      std::ranges::stable_sort(nodes,
                               [&](uint32_t a, uint32_t b) { return children_[a] < children_[b]; });
    }
    std::vector<uint32_t> kept;
    for (uint32_t n : nodes) {
      const auto better = [&](uint32_t k) {
        return cost_[k] <= cost_[n] && std::ranges::includes(children_[n], children_[k]);
      };
      const size_t from = nodes.size() > kCompareAll && !kept.empty() ? kept.size() - 1 : 0;
      const auto by =
          std::find_if(kept.begin() + static_cast<std::ptrdiff_t>(from), kept.end(), better);
      if (by == kept.end()) {
        kept.push_back(n);
      } else {
        stand_in_[n] = *by;
      }
    }
    const bool any = kept.size() < nodes.size();
    nodes = std::move(kept);
    return any;
  }

  bool inline_singles() {
    auto using_nodes = users();
    bool any = false;
    for (uint32_t c = 0; c < p_.class_count(); ++c) {
      if (gone(c) || is_root_[c] || nodes_[c].size() != 1 || using_nodes[c].empty()) continue;
      const uint32_t n = nodes_[c][0];
      const auto kids = children_[n];
      std::erase_if(using_nodes[c],
                    [&](uint32_t u) { return !std::ranges::binary_search(children_[u], c); });
      const size_t users = using_nodes[c].size();
      const bool small = kids.size() <= 1 || (kids.size() - 1) * (users - 1) <= kGrowth;
      if (!(cost_[n] == 0 ? small : users == 1)) continue;
      any = true;
      decided_[c] = n;
      nodes_[c].clear();
      for (uint32_t u : using_nodes[c]) {
        std::vector<uint32_t> merged;
        std::erase(children_[u], c);
        std::ranges::set_union(children_[u], kids, std::back_inserter(merged));
        children_[u] = std::move(merged);
        cost_[u] += cost_[n];
        for (uint32_t d : kids) using_nodes[d].push_back(u);
        if (std::ranges::binary_search(children_[u], owner_[u])) std::erase(nodes_[owner_[u]], u);
      }
      for (uint32_t d : kids) {
        drop_repeats(using_nodes[d]);
      }
    }
    return any;
  }

  Reduced finish() {
    std::vector<uint32_t> number(p_.class_count(), kNoClass), order, roots;
    const auto reach = [&](uint32_t c) {
      if (number[c] != kNoClass) return;
      number[c] = static_cast<uint32_t>(order.size());
      order.push_back(c);
    };
    for (uint32_t r : p_.roots) {
      if (gone(r)) continue;
      reach(r);
      if (std::ranges::find(roots, number[r]) == roots.end()) roots.push_back(number[r]);
    }
    Reduced out;
    std::vector<uint32_t> reduced_node(p_.node_count(), kNoNode);
    for (size_t i = 0; i < order.size(); ++i) {  // grows while it is walked
      out.problem.add_class();
      for (uint32_t n : nodes_[order[i]]) {
        std::vector<uint32_t> kids;
        for (uint32_t d : children_[n]) {
          reach(d);
          kids.push_back(number[d]);
        }
        reduced_node[n] = out.problem.add_node(cost_[n], kids);
        out.node_origin.push_back(n);
      }
    }
    out.problem.roots = std::move(roots);
    out.stand_in.resize(p_.node_count());
    for (uint32_t n = 0; n < p_.node_count(); ++n) {
      uint32_t by = n;
      while (reduced_node[by] == kNoNode && stand_in_[by] != kNoNode) by = stand_in_[by];
      out.stand_in[n] = reduced_node[by];
    }
    out.class_origin = std::move(order);
    out.decided = std::move(decided_);
    return out;
  }

  const ExtractionProblem& p_;
  std::vector<uint32_t> owner_;
  std::vector<std::vector<uint32_t>> nodes_;     // of every class, those that are left
  std::vector<std::vector<uint32_t>> children_;  // of every node, sorted
  std::vector<double> cost_;
  std::vector<uint32_t> stand_in_;  // of a dominated node, an original one
  std::vector<uint32_t> decided_;
  std::vector<bool> is_root_;
};

}  // namespace

Reduced reduce(const ExtractionProblem& p) {
  return Reducer(p).run();
}

std::vector<uint32_t> Reduced::expand(const ExtractionProblem& original,
                                      std::span<const uint32_t> choice) const {
  std::vector<uint32_t> out = decided;
  for (size_t c = 0; c < choice.size(); ++c) {
    if (choice[c] != kNoNode) out[class_origin[c]] = node_origin[choice[c]];
  }
  return needed(original, std::move(out));
}

std::vector<uint32_t> Reduced::restrict_to(const ExtractionProblem& original,
                                           std::span<const uint32_t> choice) const {
  EMEND_ASSERT(choice.size() == original.class_count(), "choices of another problem");
  std::vector<uint32_t> out(problem.class_count(), kNoNode);
  for (size_t c = 0; c < out.size(); ++c) {
    const uint32_t n = choice[class_origin[c]];
    if (n != kNoNode) out[c] = stand_in[n];
  }
  return needed(problem, std::move(out));
}

}  // namespace emend
