#include "fuse/greedy.h"

#include <algorithm>
#include <queue>
#include <set>

#include "base/error.h"

namespace emend {
namespace {

using Members = std::vector<NodeId>;  // sorted

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
  Greedy(Units& units, GroupPrices& prices) : units_(units), prices_(prices) {
    const Graph& g = units.graph();
    group_of_ = IdVec<NodeId, int>(g.size(), -1);
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId n{i};
      if (!units.is_unit(n)) continue;
      group_of_[n] = static_cast<int>(groups_.size());
      groups_.push_back({{n}, cost({n}).value_or(0), 0});
    }
    order();
    for (size_t k = 0; k < groups_.size(); ++k) propose(static_cast<int>(k));
  }

  std::vector<Members> solve() && {
    while (!queue_.empty()) {
      Move m = queue_.top();
      queue_.pop();
      if (m.version != version(m)) continue;
      m.second < 0 ? dissolve(m.first) : merge(m.first, m.second);
    }
    std::vector<Members> result;
    for (Group& g : groups_) {
      if (!g.members.empty()) result.push_back(std::move(g.members));
    }
    return result;
  }

 private:
  struct Group {
    Members members;
    double seconds = 0;
    int version = 0;
    int place = 0;  // in an order of the groups that follows their reads
  };
  Group& at(int k) { return groups_[static_cast<size_t>(k)]; }
  std::optional<double> cost(const Members& m) { return prices_(units_.group(m)); }
  bool is_host(int k) { return units_.role(at(k).members[0]) == Role::host; }
  int version(const Move& m) {
    return m.second < 0 ? at(m.first).version : at(m.first).version + at(m.second).version;
  }

  std::set<int> neighbours(int k, bool later) {
    std::set<int> found;
    for (NodeId n : at(k).members) {
      for (NodeId o : later ? units_.users(n) : units_.producers(n)) found.insert(group_of_[o]);
    }
    found.erase(k);
    return found;
  }

  // Places along an order that follows the reads.
  void order() {
    std::vector<int> waits(groups_.size(), 0);
    std::vector<int> ready;
    std::vector<std::set<int>> later(groups_.size());
    for (size_t k = 0; k < groups_.size(); ++k) {
      if (groups_[k].members.empty()) continue;
      later[k] = neighbours(static_cast<int>(k), true);
      for (int l : later[k]) ++waits[static_cast<size_t>(l)];
    }
    for (size_t k = groups_.size(); k-- > 0;) {
      if (!groups_[k].members.empty() && waits[k] == 0) ready.push_back(static_cast<int>(k));
    }
    for (int place = 0; !ready.empty(); ++place) {
      int k = ready.back();
      ready.pop_back();
      at(k).place = place;
      for (int l : later[static_cast<size_t>(k)]) {
        if (--waits[static_cast<size_t>(l)] == 0) ready.push_back(l);
      }
    }
  }

  // The two groups and all on paths between them: what must become one if they do.
  std::set<int> between(int first, int second) {
    int from = std::min(at(first).place, at(second).place);
    int to = std::max(at(first).place, at(second).place);
    int start = at(first).place == from ? first : second, end = start == first ? second : first;
    std::set<int> forward, both{start, end};
    std::vector<int> open{start};
    auto walk = [&](bool later, auto&& keep) {
      for (; !open.empty();) {
        int k = open.back();
        open.pop_back();
        for (int l : neighbours(k, later)) {
          if (at(l).place < from || at(l).place > to || !keep(l)) continue;
          open.push_back(l);
        }
      }
    };
    walk(true, [&](int l) { return forward.insert(l).second; });
    open = {end};
    walk(false, [&](int l) { return forward.count(l) && both.insert(l).second; });
    return both;
  }

  struct Merged {
    std::set<int> groups;
    Members members;
    double seconds = 0, gain = 0;
  };
  std::optional<Merged> merged(int first, int second) {
    Merged m;
    m.groups = between(first, second);
    if (m.groups.size() > kMostBetween) return std::nullopt;
    double before = 0;
    for (int k : m.groups) {
      if (is_host(k)) return std::nullopt;
      const Group& g = at(k);
      m.members.insert(m.members.end(), g.members.begin(), g.members.end());
      before += g.seconds;
    }
    std::sort(m.members.begin(), m.members.end());
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
    NodeId n = at(k).members[0];
    if (at(k).members.size() != 1 || !units_.cheap(n)) return std::nullopt;
    Dissolved d;
    double before = at(k).seconds, after = 0;
    auto readers = neighbours(k, true);
    units_.dissolve(n);
    for (int r : readers) {
      auto seconds = is_host(r) ? std::nullopt : cost(at(r).members);
      before += at(r).seconds;
      after += seconds.value_or(before + after);
      d.readers.emplace_back(r, seconds.value_or(0));
    }
    units_.dissolve(n, false);
    if (after >= before || readers.empty()) return std::nullopt;
    d.gain = before - after;
    return d;
  }

  void propose(int k) {
    if (is_host(k)) return;
    propose_dissolving(k);
    for (bool later : {false, true}) {
      for (int l : neighbours(k, later)) {
        if (is_host(l)) continue;
        if (!later) propose_dissolving(l);
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
    for (int k : m->groups) {
      at(k).members.clear();
      ++at(k).version;
    }
    at(into).members = m->members;
    at(into).seconds = m->seconds;
    for (NodeId n : m->members) group_of_[n] = into;
    order();
    propose(into);
  }

  void dissolve(int k) {
    auto d = dissolved(k);
    if (!d) return;
    units_.dissolve(at(k).members[0]);
    group_of_[at(k).members[0]] = -1;
    at(k).members.clear();
    ++at(k).version;
    for (auto [r, seconds] : d->readers) {
      at(r).seconds = seconds;
      ++at(r).version;
    }
    order();
    for (auto [r, seconds] : d->readers) propose(r);
  }

  static constexpr size_t kMostBetween = 12;
  Units& units_;
  GroupPrices& prices_;
  std::vector<Group> groups_;
  IdVec<NodeId, int> group_of_;
  std::priority_queue<Move> queue_;
};

}  // namespace

std::vector<Members> greedy_groups(Units& units, GroupPrices& prices) {
  return Greedy(units, prices).solve();
}

std::optional<std::vector<Members>> ordered(const Units& units, std::vector<Members> groups) {
  std::sort(groups.begin(), groups.end());
  IdVec<NodeId, size_t> group_of(units.graph().size(), 0);
  for (size_t k = 0; k < groups.size(); ++k) {
    for (NodeId n : groups[k]) group_of[n] = k;
  }
  std::vector<std::set<size_t>> later(groups.size());
  std::vector<int> waits(groups.size(), 0);
  for (size_t k = 0; k < groups.size(); ++k) {
    for (NodeId n : groups[k]) {
      for (NodeId u : units.users(n)) {
        if (group_of[u] != k && later[k].insert(group_of[u]).second) ++waits[group_of[u]];
      }
    }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t k = 0; k < groups.size(); ++k) {
    if (waits[k] == 0) ready.push(k);
  }
  std::vector<Members> result;
  while (!ready.empty()) {
    size_t k = ready.top();
    ready.pop();
    result.push_back(groups[k]);
    for (size_t l : later[k]) {
      if (--waits[l] == 0) ready.push(l);
    }
  }
  if (result.size() != groups.size()) return std::nullopt;
  return result;
}

}  // namespace emend
