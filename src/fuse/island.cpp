#include "fuse/island.h"

#include <algorithm>
#include <map>

#include "kernels/group.h"

namespace emend {

bool Bits::any() const {
  return std::ranges::any_of(words_, [](uint64_t w) { return w != 0; });
}
bool Bits::meets(const Bits& o) const {
  for (size_t w = 0; w < words_.size(); ++w) {
    if (words_[w] & o.words_[w]) return true;
  }
  return false;
}
bool Bits::holds(const Bits& o) const {
  for (size_t w = 0; w < words_.size(); ++w) {
    if (o.words_[w] & ~words_[w]) return false;
  }
  return true;
}
Bits& Bits::operator|=(const Bits& o) {
  for (size_t w = 0; w < words_.size(); ++w) words_[w] |= o.words_[w];
  return *this;
}
Bits& Bits::operator-=(const Bits& o) {
  for (size_t w = 0; w < words_.size(); ++w) words_[w] &= ~o.words_[w];
  return *this;
}
Bits& Bits::operator&=(const Bits& o) {
  for (size_t w = 0; w < words_.size(); ++w) words_[w] &= o.words_[w];
  return *this;
}
std::vector<NodeId> Island::nodes(const Bits& members) const {
  std::vector<NodeId> all;
  for (size_t i : members.members()) all.push_back(units[i]);
  return all;
}

size_t Island::place(NodeId n) const {
  return static_cast<size_t>(std::ranges::lower_bound(units, n) - units.begin());
}

Bits Island::all() const {
  Bits members(size());
  for (size_t i = 0; i < size(); ++i) members.set(i);
  return members;
}

bool Island::may_join(const Bits& members) const {
  for (size_t i : members.members()) {
    if (apart[i].meets(members)) return false;
  }
  return true;
}

// What no group can hold together, when the later one depends on the first. Each of these stays
// true whatever joins them; prices and shapes of stores do not, so they are no reason here.
bool Reach::keeps_apart(NodeId first, NodeId later) const {
  Role a = units_.role(first), b = units_.role(later);
  auto nucleus = [](Role r) { return r == Role::contraction || r == Role::window; };
  if (stays_alone(a) || stays_alone(b)) return true;
  if (nucleus(a) && (nucleus(b) || b == Role::reduction)) return true;
  if (a == Role::reduction && nucleus(b)) return true;
  if (b == Role::contraction || units_.is_junction(later)) return !units_.is_view(first);
  if (a != Role::contraction) return false;
  const Graph& g = units_.graph();
  return count(g.type(first).shape) != count(g.type(later).shape);
}

bool Reach::is_dissolvable(NodeId n) const {
  if (!units_.cheap(n)) return false;
  auto users = units_.users(n);
  return !users.empty() && std::ranges::none_of(users, [&](NodeId u) { return keeps_apart(n, u); });
}

Reach::Reach(const Units& units)
    : units_(units),
      later_(units.graph().size(), Bits(units.graph().size())),
      apart_(units.graph().size(), Bits(units.graph().size())) {
  const Graph& g = units.graph();
  for (size_t i = g.size(); i-- > 0;) {
    NodeId n{i};
    for (NodeId a : g.nodes[n].args) {
      later_[a].set(i);
      later_[a] |= later_[n];
    }
  }
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n{i};
    if (!units.is_unit(n)) continue;
    std::vector<NodeId> open{n};
    Bits seen(g.size());
    while (!open.empty()) {
      NodeId at = open.back();
      open.pop_back();
      for (NodeId u : units.users(at)) {
        if (seen.has(u.value) || apart_[n].has(u.value)) continue;
        seen.set(u.value);
        if (keeps_apart(n, u)) {
          apart_[n].set(u.value);
          apart_[n] |= later_[u];
        } else {
          open.push_back(u);
        }
      }
    }
  }
}

Island Reach::island(std::vector<NodeId> members) const {
  Island is;
  is.units = std::move(members);
  std::sort(is.units.begin(), is.units.end());
  size_t n = is.size();
  is.later = is.earlier = is.apart = std::vector<Bits>(n, Bits(n));
  is.dissolvable = Bits(n);
  auto nucleus = [&](size_t i) {
    Role r = units_.role(is.units[i]);
    return r == Role::contraction || r == Role::window;
  };
  auto separate = [&](size_t i, size_t j) {
    is.apart[i].set(j);
    is.apart[j].set(i);
  };
  for (size_t i = 0; i < n; ++i) {
    if (is_dissolvable(is.units[i])) is.dissolvable.set(i);
    for (size_t j = i + 1; j < n; ++j) {
      if (later_[is.units[i]].has(is.units[j].value)) {
        is.later[i].set(j);
        is.earlier[j].set(i);
      }
      bool reduces = units_.role(is.units[i]) == Role::reduction ||
                     units_.role(is.units[j]) == Role::reduction;
      bool two = (nucleus(i) && nucleus(j)) || ((nucleus(i) || nucleus(j)) && reduces);
      if (two || apart_[is.units[i]].has(is.units[j].value)) separate(i, j);
    }
  }
  // Paths that lead out of the island and back.
  for (size_t x = is.units.front().value; x < is.units.back().value; ++x) {
    NodeId out{x};
    if (!units_.is_unit(out) || std::ranges::binary_search(is.units, out)) continue;
    for (size_t i = 0; i < n; ++i) {
      if (!later_[is.units[i]].has(x)) continue;
      for (size_t j = i + 1; j < n; ++j) {
        if (later_[out].has(is.units[j].value)) separate(i, j);
      }
    }
  }
  return is;
}

std::vector<std::vector<NodeId>> Reach::components(const std::vector<NodeId>& units,
                                                   bool over_dissolvable) const {
  IdVec<NodeId, size_t> parent(units_.graph().size(), 0);
  for (NodeId n : units) parent[n] = n.value;
  auto find = [&](size_t i) {
    while (parent[NodeId(i)] != i) i = parent[NodeId(i)] = parent[NodeId(parent[NodeId(i)])];
    return i;
  };
  auto unite = [&](NodeId a, NodeId b) { parent[NodeId(find(b.value))] = find(a.value); };
  auto through = [&](NodeId n) {
    return units_.role(n) == Role::renaming || units_.dissolved(n) ||
           (over_dissolvable && is_dissolvable(n));
  };
  std::map<NodeId, std::vector<NodeId>> readers;  // of values that they pass over
  for (NodeId n : units) {
    bool all = over_dissolvable && is_dissolvable(n);
    for (NodeId u : units_.users(n)) {
      if (all || !apart_[n].has(u.value)) unite(n, u);
    }
    for (NodeId value : units_.passes_over(n, through)) {
      for (NodeId other : readers[value]) {
        if (!apart_[other].has(n.value)) unite(n, other);
      }
      readers[value].push_back(n);
    }
  }
  std::map<size_t, std::vector<NodeId>> members;
  for (NodeId n : units) members[find(n.value)].push_back(n);
  std::vector<std::vector<NodeId>> all;
  for (auto& [root, nodes] : members) all.push_back(std::move(nodes));
  return all;
}

std::vector<Island> Reach::islands() const {
  std::vector<NodeId> units;
  for (size_t i = 0; i < units_.graph().size(); ++i) {
    if (units_.is_unit(NodeId(i))) units.push_back(NodeId(i));
  }
  std::vector<Island> all;
  for (auto& members : components(units, true)) all.push_back(island(std::move(members)));
  return all;
}

std::vector<Island> Reach::pieces(const Island& whole) const {
  std::vector<NodeId> units;
  for (NodeId n : whole.units) {
    if (units_.is_unit(n)) units.push_back(n);
  }
  std::vector<Island> all;
  for (auto& members : components(units, false)) all.push_back(piece(std::move(members)));
  return all;
}

Island Reach::piece(std::vector<NodeId> units) const {
  Island piece = island(std::move(units));
  for (size_t i : piece.dissolvable.members()) {
    bool here = std::ranges::all_of(units_.users(piece.units[i]), [&](NodeId u) {
      return std::ranges::binary_search(piece.units, u);
    });
    if (!here) piece.dissolvable.clear(i);
  }
  return piece;
}

}  // namespace emend
