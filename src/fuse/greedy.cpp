#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

#include "fuse/island.h"

namespace emend {
namespace {

constexpr size_t kMostBetween = 12;  // groups that one step may join

// A step: two groups and whatever lies between them become one; or a cheap node that is a group of
// its own is dissolved into the groups that read it.
struct Move {
  double gain = 0;
  int first = -1, second = -1;  // second < 0: dissolve the only node of the first
  int version = 0;              // of the groups when the gain was computed
  bool operator<(const Move& o) const {
    return std::tuple(gain, -first, -second) < std::tuple(o.gain, -o.first, -o.second);
  }
};

class Greedy {
 public:
  Greedy(const Island& island, Units& units, GroupPrices& prices)
      : island_(island), units_(units), prices_(prices), dissolved_(island.size()) {
    for (size_t i = 0; i < island.size(); ++i) {
      Bits one(island.size());
      one.set(i);
      groups_.push_back({one, island.later[i], island.earlier[i]});
      groups_.back().seconds = cost(one).value_or(0);
      group_of_.push_back(static_cast<int>(i));
    }
    for (size_t k = 0; k < groups_.size(); ++k) propose(static_cast<int>(k));
  }

  IslandSolution solve() && {
    while (!queue_.empty()) {
      Move m = queue_.top();
      queue_.pop();
      if (m.version != version(m)) continue;
      m.second < 0 ? dissolve(m.first) : merge(m.first, m.second);
    }
    IslandSolution s;
    for (const Group& g : groups_) {
      if (!g.members.any()) continue;
      s.groups.push_back(g.members);
      s.seconds += g.seconds;
    }
    s.dissolved = dissolved_;
    for (NodeId n : island_.nodes(dissolved_)) units_.dissolve(n, false);
    return s;
  }

 private:
  struct Group {
    Bits members;
    Bits later, earlier;  // all that is computed after and before it, through groups as wholes
    double seconds = 0;
    int version = 0;
  };
  Group& at(int k) { return groups_[static_cast<size_t>(k)]; }
  std::optional<double> cost(const Bits& members) {
    return prices_(units_.group(island_.nodes(members)));
  }
  int version(const Move& m) {
    return m.second < 0 ? at(m.first).version : at(m.first).version + at(m.second).version;
  }
  std::optional<size_t> place(NodeId n) const {
    auto it = std::ranges::lower_bound(island_.units, n);
    if (it == island_.units.end() || *it != n) return std::nullopt;
    return static_cast<size_t>(it - island_.units.begin());
  }

  using Nodes = std::vector<NodeId>;
  std::set<int> neighbours(int k, Nodes (Units::*of)(NodeId) const) {
    std::set<int> found;
    for (NodeId n : island_.nodes(at(k).members)) {
      for (NodeId o : (units_.*of)(n)) {
        if (auto i = place(o)) found.insert(group_of_[*i]);
      }
    }
    found.erase(k);
    return found;
  }

  struct Merged {
    std::set<int> groups;
    Bits members;
    double seconds = 0, gain = 0;
  };
  // The two groups and all on paths between them: what must become one if they do.
  std::optional<Merged> merged(int first, int second) {
    Merged m;
    m.groups = {first, second};
    m.members = at(first).members;
    m.members |= at(second).members;
    if (!island_.may_join(m.members)) return std::nullopt;
    for (auto [from, to] : {std::pair(first, second), std::pair(second, first)}) {
      Bits between = at(from).later;
      between &= at(to).earlier;
      between -= dissolved_;
      for (size_t i : between.members()) {
        m.groups.insert(group_of_[i]);
        m.members |= at(group_of_[i]).members;
      }
    }
    if (m.groups.size() > kMostBetween || !island_.may_join(m.members)) return std::nullopt;
    double before = 0;
    for (int k : m.groups) before += at(k).seconds;
    auto seconds = cost(m.members);
    if (!seconds || *seconds >= before) return std::nullopt;
    m.seconds = *seconds;
    m.gain = before - *seconds;
    return m;
  }

  // A cheap node's readers with it inside each; nothing if that does not pay.
  struct Dissolved {
    std::vector<std::pair<int, double>> readers;
    double gain = 0;
  };
  std::optional<Dissolved> dissolved(int k) {
    auto members = at(k).members.members();
    if (members.size() != 1 || !island_.dissolvable.has(members.front())) return std::nullopt;
    NodeId n = island_.units[members.front()];
    Dissolved d;
    double before = at(k).seconds, after = 0;
    bool possible = true;
    auto readers = neighbours(k, &Units::users);
    units_.dissolve(n);
    for (int r : readers) {
      auto seconds = cost(at(r).members);
      possible = possible && seconds;
      before += at(r).seconds;
      after += seconds.value_or(0);
      d.readers.emplace_back(r, seconds.value_or(0));
    }
    units_.dissolve(n, false);
    if (!possible || after >= before || readers.empty()) return std::nullopt;
    d.gain = before - after;
    return d;
  }

  void propose(int k) {
    propose_dissolving(k);
    for (auto of : {&Units::producers, &Units::users, &Units::siblings}) {
      for (int l : neighbours(k, of)) {
        if (of == &Units::producers) propose_dissolving(l);
        if (auto step = merged(k, l)) push({step->gain, std::min(k, l), std::max(k, l)});
      }
    }
  }
  void propose_dissolving(int k) {
    if (auto d = dissolved(k)) push({d->gain, k, -1});
  }
  void push(Move m) {
    m.version = version(m);
    queue_.push(m);
  }

  // Gains were computed among other neighbours: they may have changed, so they are asked again.
  void merge(int first, int second) {
    auto m = merged(first, second);
    if (!m) return;
    int into = *m->groups.begin();
    Bits none(island_.size());
    Group whole{m->members, none, none, m->seconds, at(into).version + 1};
    for (int k : m->groups) {
      whole.later |= at(k).later;
      whole.earlier |= at(k).earlier;
      at(k) = {none, none, none, 0, at(k).version + 1};
    }
    at(into) = whole;
    for (size_t i : whole.members.members()) group_of_[i] = into;
    connect(whole);
    propose(into);
  }

  // What comes before a part of it comes before all of it, and before what comes after it.
  void connect(const Group& whole) {
    for (Group& g : groups_) {
      if (g.later.meets(whole.members)) (g.later |= whole.members) |= whole.later;
      if (g.earlier.meets(whole.members)) (g.earlier |= whole.members) |= whole.earlier;
    }
  }

  void dissolve(int k) {
    auto d = dissolved(k);
    if (!d) return;
    size_t place = at(k).members.members().front();
    units_.dissolve(island_.units[place]);
    dissolved_.set(place);
    group_of_[place] = -1;
    at(k).members = Bits(island_.size());
    ++at(k).version;
    for (auto [r, seconds] : d->readers) {
      at(r).seconds = seconds;
      ++at(r).version;
    }
    for (auto [r, seconds] : d->readers) propose(r);
  }

  const Island& island_;
  Units& units_;
  GroupPrices& prices_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;
  Bits dissolved_;
  std::priority_queue<Move> queue_;
};

}  // namespace

IslandSolution greedy(const Island& island, Units& units, GroupPrices& prices) {
  return Greedy(island, units, prices).solve();
}

}  // namespace emend
