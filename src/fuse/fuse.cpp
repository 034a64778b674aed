#include "fuse/fuse.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "base/error.h"
#include "fuse/island.h"
#include "fuse/join.h"
#include "fuse/part.h"
#include "fuse/price.h"
#include "fuse/units.h"

namespace emend {

struct KnownIslands {
  struct Seen {
    bool whole;  // an island, or a piece of one
    Graph graph;
    std::vector<size_t> loads;  // which of them are one memory
    std::vector<Bits> apart, later;
    Bits dissolvable;
    IslandSolution solution;
  };
  std::map<uint64_t, std::vector<Seen>> seen;
  KnownGroups groups;
  KnownSeconds kernels;
};

std::shared_ptr<KnownIslands> no_known_islands() {
  return std::make_shared<KnownIslands>();
}

namespace {

using Members = std::vector<NodeId>;

// For every group those that are computed before it.
using Earlier = std::vector<std::set<size_t>>;

struct Order {
  std::vector<size_t> groups;  // each after those that it reads from
  std::vector<size_t> cycle;   // groups that need one another, if there are such
};

// The model's order where there is a choice: by the first node of each group.
Order ordered(const Earlier& earlier, const std::vector<NodeId>& firsts) {
  std::vector<std::vector<size_t>> later(earlier.size());
  std::vector<size_t> waits(earlier.size());
  auto after = [&](size_t a, size_t b) { return firsts[a] > firsts[b]; };
  std::priority_queue<size_t, std::vector<size_t>, decltype(after)> ready(after);
  for (size_t k = 0; k < earlier.size(); ++k) {
    for (size_t e : earlier[k]) later[e].push_back(k);
    waits[k] = earlier[k].size();
    if (waits[k] == 0) ready.push(k);
  }
  Order order;
  while (!ready.empty()) {
    size_t k = ready.top();
    ready.pop();
    order.groups.push_back(k);
    for (size_t l : later[k]) {
      if (--waits[l] == 0) ready.push(l);
    }
  }
  if (order.groups.size() == earlier.size()) return order;
  // What still waits, waits for something that waits: going back ends in a cycle.
  auto waiting = [&](const std::set<size_t>& of) {
    return *std::ranges::find_if(of, [&](size_t k) { return waits[k] > 0; });
  };
  size_t k = 0;
  while (waits[k] == 0) ++k;
  std::set<size_t> seen;
  while (seen.insert(k).second) k = waiting(earlier[k]);
  for (size_t at = k; order.cycle.empty() || at != k; at = waiting(earlier[at])) {
    order.cycle.push_back(at);
  }
  return order;
}

// Of all groups of a graph.
Order ordered(const Units& units, const std::vector<Members>& groups) {
  IdVec<NodeId, size_t> group_of(units.graph().size(), 0);
  std::vector<NodeId> firsts;
  for (size_t k = 0; k < groups.size(); ++k) {
    firsts.push_back(groups[k].front());
    for (NodeId n : groups[k]) group_of[n] = k;
  }
  Earlier earlier(groups.size());
  for (size_t k = 0; k < groups.size(); ++k) {
    for (NodeId n : groups[k]) {
      for (NodeId u : units.users(n)) {
        if (group_of[u] != k) earlier[group_of[u]].insert(k);
      }
    }
  }
  return ordered(earlier, firsts);
}

// Of the groups of an island, over any path.
Order ordered(const Island& island, const std::vector<Bits>& groups) {
  std::vector<size_t> group_of(island.size(), groups.size());
  std::vector<NodeId> firsts;
  for (size_t k = 0; k < groups.size(); ++k) {
    firsts.push_back(island.units[groups[k].members().front()]);
    for (size_t i : groups[k].members()) group_of[i] = k;
  }
  Earlier earlier(groups.size());
  for (size_t k = 0; k < groups.size(); ++k) {
    for (size_t i : groups[k].members()) {
      for (size_t e : island.earlier[i].members()) {
        if (group_of[e] != k && group_of[e] < groups.size()) earlier[k].insert(group_of[e]);
      }
    }
  }
  return ordered(earlier, firsts);
}

// The islands with those that need one another as one, made of the units of all of them.
std::vector<Island> united(std::vector<Island> islands, const std::set<size_t>& together,
                           const std::function<Island(Members)>& made) {
  EMEND_ASSERT(together.size() > 1, "groups of one island that need one another");
  Members all;
  std::vector<Island> result;
  for (size_t i = 0; i < islands.size(); ++i) {
    if (together.count(i)) {
      all.insert(all.end(), islands[i].units.begin(), islands[i].units.end());
    } else {
      result.push_back(std::move(islands[i]));
    }
  }
  result.push_back(made(std::move(all)));
  return result;
}

// Islands that look alike are solved once: equal layers are most of a deep network.
class Solver {
 public:
  Solver(Units& units, const Reach& reach, const FuseOptions& options, KnownIslands& known)
      : units_(units),
        reach_(reach),
        options_(options),
        known_(known),
        prices_(units.graph(), options.target, known.groups) {}

  const IslandSolution& solve(const Island& island) {
    return known(true, island, [&] { return fresh(island); });
  }

 private:
  using Seen = KnownIslands::Seen;

  const IslandSolution& known(bool whole, const Island& island,
                              const std::function<IslandSolution()>& solve) {
    Seen next = looks(whole, island);
    std::vector<Seen>& alike = known_.seen[hash(next.graph)];
    for (const Seen& s : alike) {
      if (s.whole == next.whole && s.graph == next.graph && s.loads == next.loads &&
          s.apart == next.apart && s.later == next.later && s.dissolvable == next.dissolvable) {
        return s.solution;
      }
    }
    next.solution = solve();
    alike.push_back(std::move(next));
    return alike.back().solution;
  }

  IslandSolution fresh(const Island& island) {
    if (options_.budget == 0) return greedy(island, units_, prices_);
    if (auto best = exact(island, units_, prices_, options_.budget)) return std::move(*best);
    IslandSolution steps = greedy(island, units_, prices_);
    IslandSolution pieces = by_pieces(island, steps);
    return pieces.seconds < steps.seconds ? pieces : steps;
  }

  // Too large as a whole: cheap nodes with readers in several pieces are dissolved or not as the
  // greedy steps have it, and then every piece is solved for itself. Pieces whose groups need one
  // another in a circle are solved as one.
  IslandSolution by_pieces(const Island& island, const IslandSolution& steps) {
    Bits dissolved(island.size());
    for (const Island& piece : reach_.pieces(island)) {
      Bits across = moved(piece.all(), piece, island);
      across -= moved(piece.dissolvable, piece, island);
      across &= steps.dissolved;
      dissolved |= across;
    }
    for (NodeId n : island.nodes(dissolved)) units_.dissolve(n);
    std::vector<Island> pieces = reach_.pieces(island);
    for (;;) {
      IslandSolution s{.groups = {}, .dissolved = dissolved};
      std::vector<size_t> piece_of;  // every group
      for (size_t p = 0; p < pieces.size(); ++p) {
        const IslandSolution& found = solved(pieces[p]);
        for (const Bits& group : found.groups) s.groups.push_back(moved(group, pieces[p], island));
        piece_of.resize(s.groups.size(), p);
        s.dissolved |= moved(found.dissolved, pieces[p], island);
        s.seconds += found.seconds;
      }
      Order order = ordered(island, s.groups);
      if (order.cycle.empty()) {
        for (NodeId n : island.nodes(dissolved)) units_.dissolve(n, false);
        return s;
      }
      std::set<size_t> together;
      for (size_t k : order.cycle) together.insert(piece_of[k]);
      pieces = united(std::move(pieces), together,
                      [&](Members all) { return reach_.piece(std::move(all)); });
    }
  }
  const IslandSolution& solved(const Island& piece) {
    return known(false, piece, [&] {
      auto best = exact(piece, units_, prices_, options_.budget);
      return best ? std::move(*best) : greedy(piece, units_, prices_);
    });
  }
  static Bits moved(const Bits& members, const Island& from, const Island& to) {
    Bits result(to.size());
    for (NodeId n : from.nodes(members)) result.set(to.place(n));
    return result;
  }

  Seen looks(bool whole, const Island& island) const {
    const Graph& g = units_.graph();
    Outline o = outlined(g, units_.group(island.units));
    Seen s{whole, std::move(o.graph), {}, island.apart, island.later, island.dissolvable, {}};
    std::map<NodeId, size_t> memory;
    for (NodeId n : o.loads) {
      s.loads.push_back(memory.try_emplace(storage_of(g, n), memory.size()).first->second);
    }
    return s;
  }

  Units& units_;
  const Reach& reach_;
  const FuseOptions& options_;
  KnownIslands& known_;
  GroupPrices prices_;
};

// The best groups of every island. Where those of several islands need one another in a circle,
// these islands are solved as one, which knows that.
std::vector<Members> solved(Units& units, const FuseOptions& options, KnownIslands& known) {
  Reach reach(units);
  Solver solver(units, reach, options, known);
  std::vector<Island> islands = reach.islands();
  for (;;) {
    std::vector<Members> groups;
    std::vector<size_t> island_of;
    Members dissolved;
    for (size_t i = 0; i < islands.size(); ++i) {
      const Island& island = islands[i];
      if (island.size() == 1) {
        groups.push_back(island.units);
        island_of.push_back(i);
        continue;
      }
      const IslandSolution& s = solver.solve(island);
      for (const Bits& members : s.groups) {
        groups.push_back(island.nodes(members));
        island_of.push_back(i);
      }
      for (NodeId n : island.nodes(s.dissolved)) dissolved.push_back(n);
    }
    for (NodeId n : dissolved) units.dissolve(n);
    Order order = ordered(units, groups);
    if (order.cycle.empty()) {
      std::vector<Members> result;
      for (size_t k : order.groups) result.push_back(std::move(groups[k]));
      return result;
    }
    for (NodeId n : dissolved) units.dissolve(n, false);
    std::set<size_t> together;
    for (size_t k : order.cycle) {
      // What stays alone joins nothing; the others know of paths over it.
      if (!stays_alone(units.role(groups[k].front()))) together.insert(island_of[k]);
    }
    islands = united(std::move(islands), together,
                     [&](Members all) { return reach.island(std::move(all)); });
  }
}

}  // namespace

Partition fuse(const Graph& g, const FuseOptions& options) {
  Units units(g);
  std::vector<Members> groups;
  if (options.fuse) {
    auto known = options.known ? options.known : no_known_islands();
    groups = solved(units, options, *known);
    if (options.seconds) groups = parted(units, std::move(groups), options.seconds);
    if (options.catalogue) {
      groups = joined(units, std::move(groups), *options.catalogue, options.target, known->kernels);
    }
  } else {
    for (size_t i = 0; i < g.size(); ++i) {
      if (units.is_unit(NodeId(i))) groups.push_back({NodeId(i)});
    }
  }
  Partition p;
  for (const Members& members : groups) p.groups.push_back(units.group(members));
  return p;
}

}  // namespace emend
