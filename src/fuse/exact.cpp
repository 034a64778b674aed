#include <algorithm>
#include <map>
#include <set>

#include "fuse/island.h"

namespace emend {
namespace {

// Groups of one choice of dissolved nodes.
class Exact {
 public:
  Exact(const Island& island, const Units& units, GroupPrices& prices, const Bits& dissolved,
        size_t& budget)
      : island_(island), units_(units), prices_(prices), dissolved_(dissolved), budget_(budget) {
    for (size_t i = 0; i < island.size(); ++i) {
      next_to_.emplace_back(island.size());
      for (NodeId u : units.users(island.units[i])) connect(i, u);
      for (NodeId u : units.producers(island.units[i])) connect(i, u);
      for (NodeId u : units.siblings(island.units[i])) connect(i, u);
    }
  }

  // How many groups there are to look at; more than the budget stands for all beyond it.
  size_t list_groups() {
    std::set<Bits> seen;
    std::vector<Bits> open;
    for (size_t i = 0; i < island_.size(); ++i) {
      if (dissolved_.has(i)) continue;
      Bits one(island_.size());
      one.set(i);
      open.push_back(one);
      seen.insert(one);
    }
    while (!open.empty() && listed_.size() <= budget_) {
      Bits members = std::move(open.back());
      open.pop_back();
      grow(members, seen, open);
      listed_.push_back(std::move(members));
    }
    return listed_.size();
  }

  // False if the budget does not suffice.
  bool solve(IslandSolution& best) {
    if (list_groups() > budget_) return false;
    budget_ -= listed_.size();
    price_groups();
    Bits all = island_.all();
    all -= dissolved_;
    // Sets of finished units in the order of their sizes, each with the best way there.
    struct Way {
      double seconds = 0;
      size_t last = 0;  // group
      Bits from;
    };
    std::vector<std::map<Bits, Way>> by_size(island_.size() + 1);
    by_size[0][Bits(island_.size())] = {};
    for (size_t size = 0; size < by_size.size(); ++size) {
      for (const auto& [done, way] : by_size[size]) {
        if (budget_ == 0) return false;
        --budget_;
        for (size_t k = 0; k < groups_.size(); ++k) {
          const Choice& c = groups_[k];
          if (c.members.meets(done) || !done.holds(c.needs)) continue;
          double seconds = way.seconds + c.seconds;
          if (seconds >= best.seconds) continue;
          Bits then = done;
          then |= c.members;
          auto& bucket = by_size[size + c.size];
          auto [it, fresh] = bucket.try_emplace(std::move(then), Way{seconds, k, done});
          if (!fresh && seconds < it->second.seconds) it->second = {seconds, k, done};
        }
      }
    }
    auto& last = by_size[all.members().size()];
    auto it = last.find(all);
    if (it == last.end()) return true;  // nothing better than what was known
    best = {.groups = {}, .dissolved = dissolved_, .seconds = it->second.seconds};
    for (Bits at = all; at.any();) {
      const Way& way = by_size[at.members().size()].at(at);
      best.groups.push_back(groups_[way.last].members);
      at = way.from;
    }
    return true;
  }

 private:
  struct Choice {
    Bits members, needs;
    size_t size = 0;
    double seconds = 0;
  };

  void connect(size_t i, NodeId n) {
    auto it = std::ranges::lower_bound(island_.units, n);
    if (it != island_.units.end() && *it == n) {
      next_to_[i].set(static_cast<size_t>(it - island_.units.begin()));
    }
  }

  Bits joined(const std::vector<Bits>& of, const Bits& members) const {
    Bits all(island_.size());
    for (size_t i : members.members()) all |= of[i];
    return all;
  }

  // Every connected set without gaps, grown a neighbour at a time.
  void grow(const Bits& members, std::set<Bits>& seen, std::vector<Bits>& open) const {
    Bits around = joined(next_to_, members);
    around -= members;
    around -= dissolved_;
    Bits later = joined(island_.later, members), earlier = joined(island_.earlier, members);
    for (size_t i : around.members()) {
      Bits between = later, before = earlier;
      between |= island_.later[i];
      before |= island_.earlier[i];
      between &= before;
      between -= dissolved_;
      between -= members;
      between.set(i);
      Bits more = members;
      more |= between;
      // The members themselves may join one another already.
      bool apart = false;
      for (size_t n : between.members()) apart = apart || island_.apart[n].meets(more);
      if (!apart && seen.insert(more).second) open.push_back(more);
    }
  }

  void price_groups() {
    for (const Bits& members : listed_) {
      auto seconds = prices_(units_.group(island_.nodes(members)));
      if (!seconds) continue;
      Bits needs = joined(island_.earlier, members);
      needs -= members;
      needs -= dissolved_;
      groups_.push_back({members, needs, members.members().size(), *seconds});
    }
  }

  const Island& island_;
  const Units& units_;
  GroupPrices& prices_;
  const Bits& dissolved_;
  size_t& budget_;
  std::vector<Bits> next_to_;
  std::vector<Bits> listed_;
  std::vector<Choice> groups_;
};

// Cheap nodes that several units read, or that only such nodes read: for the others it is the same
// to be dissolved and to be of their only reader's group.
std::vector<size_t> worth_dissolving(const Island& island, const Units& units) {
  std::vector<size_t> result;
  std::set<NodeId> chosen;
  for (size_t i = island.size(); i-- > 0;) {
    NodeId n = island.units[i];
    auto users = units.users(n);
    bool one_reader = users.size() == 1 && !chosen.count(users[0]);
    if (!island.dissolvable.has(i) || one_reader) continue;
    chosen.insert(n);
    result.push_back(i);
  }
  return result;
}

}  // namespace

std::optional<IslandSolution> exact(const Island& island, Units& units, GroupPrices& prices,
                                    size_t budget) {
  std::vector<size_t> choices = worth_dissolving(island, units);
  if (choices.size() >= 32 || size_t{1} << choices.size() > budget) return std::nullopt;
  // Looked at before anything is priced: giving up is quick.
  size_t groups = Exact(island, units, prices, Bits(island.size()), budget).list_groups();
  if (groups << choices.size() > 8 * budget) return std::nullopt;
  IslandSolution best;
  best.seconds = 1e300;
  bool complete = true;
  for (size_t code = 0; code < (size_t{1} << choices.size()) && complete; ++code) {
    Bits dissolved(island.size());
    for (size_t k = 0; k < choices.size(); ++k) {
      if (code >> k & 1) dissolved.set(choices[k]);
    }
    for (NodeId n : island.nodes(dissolved)) units.dissolve(n);
    complete = Exact(island, units, prices, dissolved, budget).solve(best);
    for (NodeId n : island.nodes(dissolved)) units.dissolve(n, false);
  }
  if (!complete) return std::nullopt;
  return best;
}

}  // namespace emend
