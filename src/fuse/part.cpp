#include "fuse/part.h"

#include <algorithm>
#include <set>

#include "kernels/group.h"

namespace emend {
namespace {

using Members = std::vector<NodeId>;

class Parter {
 public:
  Parter(Units& units, std::vector<Members> groups, const GroupSeconds& seconds)
      : units_(units), groups_(std::move(groups)), seconds_(seconds) {
    const Graph& g = units_.graph();
    varies_ = IdVec<NodeId, bool>(g.size(), false);
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId n{i};
      varies_[n] = g.nodes[n].op != kConstantOp &&
                   (g.nodes[n].args.empty() || std::ranges::any_of(g.nodes[n].args, [&](NodeId a) {
                      return bool{varies_[a]};
                    }));
    }
  }

  std::vector<Members> run() && {
    for (size_t k = 0; k < groups_.size(); ++k) {
      // A view that is stored stands before the group, which is looked at again.
      while (part(k)) ++k;
    }
    return std::move(groups_);
  }

 private:
  // Stores a view that the group's contraction reads, if that pays: a new group before this one.
  bool part(size_t k) {
    const Graph& g = units_.graph();
    for (NodeId n : groups_[k]) {
      if (units_.role(n) != Role::contraction) continue;
      for (NodeId a : g.nodes[n].args) {
        NodeId v = storage_of(g, a);
        if (!units_.is_view(v) || !varies_[v]) continue;
        bool member = std::ranges::binary_search(groups_[k], v);
        if (member ? part_member(k, v) : units_.dissolved(v) && part_dissolved(k, v)) return true;
      }
    }
    return false;
  }

  bool part_member(size_t k, NodeId v) {
    Members first = needed_for(v, groups_[k]), rest;
    std::ranges::set_difference(groups_[k], first, std::back_inserter(rest));
    if (units_.group(first).stores != Members{v}) return false;
    auto together = seconds(groups_[k]), before = seconds(first), after = seconds(rest);
    if (!together || !before || !after || *before + *after >= *together) return false;
    groups_[k] = std::move(rest);
    groups_.insert(groups_.begin() + static_cast<long>(k), std::move(first));
    return true;
  }

  // Every group that computes it again would read it then.
  bool part_dissolved(size_t k, NodeId v) {
    auto users = units_.users(v);
    std::vector<size_t> readers;
    for (size_t r = 0; r < groups_.size(); ++r) {
      bool reads = std::ranges::any_of(
          groups_[r], [&](NodeId n) { return std::ranges::binary_search(users, n); });
      if (reads) readers.push_back(r);
    }
    if (readers.front() != k) return false;  // another group has been asked
    auto all = [&] {
      std::optional<double> sum = 0;
      for (size_t r : readers) {
        auto s = seconds(groups_[r]);
        sum = sum && s ? std::optional(*sum + *s) : std::nullopt;
      }
      return sum;
    };
    auto computed = all();
    units_.dissolve(v, false);
    auto read = all(), once = seconds({v});
    if (!computed || !read || !once || *read + *once >= *computed) {
      units_.dissolve(v, true);
      return false;
    }
    groups_.insert(groups_.begin() + static_cast<long>(k), {v});
    return true;
  }

  // Of these units, those that a value is computed from, itself among them.
  Members needed_for(NodeId v, const Members& members) const {
    std::set<NodeId> needed{v};
    Members open{v};
    while (!open.empty()) {
      NodeId n = open.back();
      open.pop_back();
      for (NodeId p : units_.producers(n)) {
        if (std::ranges::binary_search(members, p) && needed.insert(p).second) open.push_back(p);
      }
    }
    return {needed.begin(), needed.end()};
  }

  std::optional<double> seconds(const Members& members) const {
    if (members.empty() || stays_alone(units_.role(members[0]))) return std::nullopt;
    const Graph& g = units_.graph();
    Outline o = outlined(g, units_.group(members));
    std::vector<bool> constant;
    for (NodeId n : o.loads) constant.push_back(g.is_constant(storage_of(g, n)));
    return seconds_(o.graph, constant);
  }

  Units& units_;
  std::vector<Members> groups_;
  const GroupSeconds& seconds_;
  IdVec<NodeId, bool> varies_;  // depends on an input
};

}  // namespace

std::vector<Members> parted(Units& units, std::vector<Members> groups,
                            const GroupSeconds& seconds) {
  return Parter(units, std::move(groups), seconds).run();
}

}  // namespace emend
