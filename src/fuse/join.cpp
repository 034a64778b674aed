#include "fuse/join.h"

#include <algorithm>
#include <set>

#include "kernels/group.h"

namespace emend {
namespace {

using Members = std::vector<NodeId>;

class Joiner {
 public:
  Joiner(const Units& units, std::vector<Members> groups, const Catalogue& catalogue,
         const Target& target, KnownSeconds& known)
      : units_(units),
        groups_(std::move(groups)),
        catalogue_(catalogue),
        target_(target),
        known_(known),
        group_of_(units.graph().size(), 0) {
    for (size_t k = 0; k < groups_.size(); ++k) {
      for (NodeId n : groups_[k]) group_of_[n] = k;
    }
  }

  std::vector<Members> run() && {
    for (size_t last = 0; last < groups_.size(); ++last) {
      if (has_contraction(last) || has_window(last)) join_into(last);
    }
    std::erase_if(groups_, [](const Members& m) { return m.empty(); });
    return std::move(groups_);
  }

 private:
  bool has_contraction(size_t k) const {
    return std::ranges::any_of(groups_[k],
                               [&](NodeId n) { return units_.role(n) == Role::contraction; });
  }

  bool has_window(size_t k) const {
    return std::ranges::any_of(groups_[k],
                               [&](NodeId n) { return units_.role(n) == Role::window; });
  }

  // Groups whose results this one reads and nobody else does.
  std::vector<size_t> feeders(size_t k) const {
    std::set<size_t> found;
    for (NodeId n : groups_[k]) {
      for (NodeId p : units_.producers(n)) found.insert(group_of_[p]);
    }
    found.erase(k);
    std::erase_if(found, [&](size_t f) {
      if (stays_alone(units_.role(groups_[f][0]))) return true;
      NodeGroup group = units_.group(groups_[f]);
      return std::ranges::any_of(group.stores, [&](NodeId n) {
        auto users = units_.users(n);
        return users.empty() || is_output(n) || std::ranges::any_of(users, [&](NodeId u) {
                 return group_of_[u] != k && group_of_[u] != f;
               });
      });
    });
    return {found.begin(), found.end()};
  }
  bool is_output(NodeId n) const {
    const Graph& g = units_.graph();
    return std::ranges::any_of(g.outputs,
                               [&](const auto& o) { return storage_of(g, o.node) == n; });
  }

  // A product that feeds this one, directly or over one group between them, where that pays.
  void join_into(size_t last) {
    double best = 0;
    std::vector<size_t> chosen;
    auto consider = [&](std::vector<size_t> with) {
      double gain = gain_of(with, last);
      if (gain <= best) return;
      best = gain;
      chosen = std::move(with);
    };
    for (size_t middle : feeders(last)) {
      if (has_contraction(middle)) {
        consider({middle});
        continue;
      }
      for (size_t first : feeders(middle)) {
        if (has_contraction(first)) consider({first, middle});
      }
    }
    for (size_t k : chosen) {
      for (NodeId n : groups_[k]) {
        groups_[last].push_back(n);
        group_of_[n] = last;
      }
      groups_[k].clear();
    }
    std::ranges::sort(groups_[last]);
  }

  double gain_of(const std::vector<size_t>& with, size_t last) {
    Members all = groups_[last];
    for (size_t k : with) all.insert(all.end(), groups_[k].begin(), groups_[k].end());
    std::ranges::sort(all);
    // Windows that are not convolutions' go over images, which may lie with channels last.
    bool images = !has_contraction(last);
    auto together = seconds(all, true, images);
    if (!together) return 0;
    double apart = 0;
    for (size_t k : with) apart += seconds(groups_[k], false, images).value_or(0);
    return apart + seconds(groups_[last], false, images).value_or(0) - *together;
  }

  // Plain; of images also with channels last, and what comes as it does and goes so.
  static std::vector<Layouts> layouts_of(const Graph& group, const std::vector<bool>& constant,
                                         bool images) {
    if (!images) return {{}};
    Layouts last;
    for (size_t i = 0; i < group.inputs.size(); ++i) {
      const Dims& shape = group.type(group.inputs[i].node).shape;
      last.loads.push_back(constant[i] ? Layout{} : channels_last(shape));
    }
    for (const auto& o : group.outputs)
      last.stores.push_back(channels_last(group.type(o.node).shape));
    return {{}, last, Layouts{{}, last.stores}};
  }

  std::optional<double> seconds(const Members& members, bool joining, bool images) {
    const Graph& g = units_.graph();
    Outline o = outlined(g, units_.group(members));
    std::vector<bool> constant;
    for (NodeId n : o.loads) constant.push_back(g.is_constant(storage_of(g, n)));
    std::vector<KernelSeconds>& equal = known_[hash(o.graph)];
    for (const KernelSeconds& k : equal) {
      if (k.joining == joining && k.images == images && k.constant == constant &&
          k.group == o.graph)
        return k.seconds;
    }
    std::optional<double> best;
    for (const Layouts& layouts : layouts_of(o.graph, constant, images)) {
      Wanted wanted(o.graph, constant, layouts, 0);
      for (const Kernel& k : catalogue_) {
        if (k.joins != joining) continue;
        for (const Candidate& c : k.candidates(wanted, target_)) {
          if (!best || c.estimate_s < *best) best = c.estimate_s;
        }
      }
    }
    equal.push_back({std::move(o.graph), std::move(constant), joining, images, best});
    return best;
  }

  const Units& units_;
  std::vector<Members> groups_;
  const Catalogue& catalogue_;
  const Target& target_;
  KnownSeconds& known_;
  IdVec<NodeId, size_t> group_of_;
};

}  // namespace

std::vector<Members> joined(const Units& units, std::vector<Members> groups,
                            const Catalogue& catalogue, const Target& target, KnownSeconds& known) {
  return Joiner(units, std::move(groups), catalogue, target, known).run();
}

}  // namespace emend
