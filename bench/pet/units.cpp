#include "pet/units.h"

#include <algorithm>

#include "base/text.h"
#include "ops/build.h"
#include "ops/table.h"
#include "tensat/prices.h"

namespace emend {
namespace {

// PET enumerates all subsets of what could run next; more than this never pays there.
constexpr size_t kMostMerged = 4;

bool is_compute(const Graph& g, NodeId n) {
  const std::string& name = op_def(g.nodes[n]).name;
  return (name == "conv" || name == "matmul") && g.nodes[n].args.size() == 2;
}

Unit unit_of(const Graph& g, std::vector<NodeId> nodes, const std::vector<bool>& weight_only) {
  Unit u{.nodes = std::move(nodes)};
  GraphBuilder b;
  std::vector<std::vector<size_t>> places;
  for (NodeId n : u.nodes) {
    places.emplace_back();
    for (NodeId a : g.nodes[n].args) {
      auto at = std::find(u.operands.begin(), u.operands.end(), a);
      places.back().push_back(static_cast<size_t>(at - u.operands.begin()));
      if (at == u.operands.end()) u.operands.push_back(a);
    }
  }
  std::vector<NodeId> inputs;
  for (NodeId a : u.operands) {
    inputs.push_back(b.input(str("x", inputs.size()), g.type(a)));
    u.weights.push_back(weight_only[a.value]);
  }
  for (size_t i = 0; i < u.nodes.size(); ++i) {
    std::vector<NodeId> args;
    for (size_t p : places[i]) args.push_back(inputs[p]);
    const Node& n = g.nodes[u.nodes[i]];
    b.output(str("y", i), b.try_op(n.op, args, n.attrs).value_or_throw());
  }
  u.program = std::move(b).build();
  return u;
}

// May they be one operator? Equal attributes, equal dimensions but for filters or columns.
bool alike(const Graph& g, NodeId a, NodeId b) {
  const Node &x = g.nodes[a], &y = g.nodes[b];
  if (x.op != y.op || !(x.attrs == y.attrs)) return false;
  Dims w = g.type(x.args[1]).shape, v = g.type(y.args[1]).shape;
  if (g.type(x.args[0]) != g.type(y.args[0]) || w.size() != v.size()) return false;
  if (op_def(x).name == "conv") w[0] = v[0] = 0;
  return w == v;
}

// Sets of alike operators that no path connects.
std::vector<std::vector<NodeId>> merges_of(const Graph& g, const std::vector<bool>& weight_only) {
  std::vector<std::vector<bool>> needs(g.size(), std::vector<bool>(g.size(), false));
  std::vector<std::vector<NodeId>> sets;
  for (size_t i = 0; i < g.size(); ++i) {
    for (NodeId a : g.nodes[NodeId(i)].args) {
      needs[i][a.value] = true;
      for (size_t k = 0; k < i; ++k) needs[i][k] = needs[i][k] || needs[a.value][k];
    }
    if (!is_compute(g, NodeId(i)) || weight_only[i]) continue;
    auto fits = [&](const std::vector<NodeId>& set) {
      return set.size() < kMostMerged && std::all_of(set.begin(), set.end(), [&](NodeId n) {
               return alike(g, n, NodeId(i)) && !needs[i][n.value];
             });
    };
    auto home = std::find_if(sets.begin(), sets.end(), fits);
    if (home == sets.end()) home = sets.insert(sets.end(), std::vector<NodeId>{});
    home->push_back(NodeId(i));
  }
  std::erase_if(sets, [](const auto& s) { return s.size() < 2; });
  return sets;
}

class Assembler {
 public:
  Assembler(const Graph& g, const std::vector<Unit>& units, const std::vector<const Graph*>& chosen)
      : g_(g),
        units_(units),
        chosen_(chosen),
        unit_(g.size(), -1),
        made_(g.size()),
        open_(g.size(), false) {
    for (size_t u = 0; u < units.size(); ++u)
      if (chosen[u])
        for (NodeId n : units[u].nodes) unit_[n.value] = static_cast<int>(u);
  }

  std::optional<Graph> run() {
    for (const GraphInput& i : g_.inputs)
      made_[i.node.value] = b_.input(i.name, g_.type(i.node), i.donated);
    for (const GraphOutput& o : g_.outputs) {
      if (!make(o.node)) return std::nullopt;
      b_.output(o.name, *made_[o.node.value]);
    }
    return std::move(b_).build();
  }

 private:
  bool make(NodeId n) {
    if (made_[n.value]) return true;
    if (open_[n.value]) return false;
    open_[n.value] = true;
    if (g_.is_constant(n)) {
      made_[n.value] = b_.constant(g_.constant(n));
      return true;
    }
    const int u = unit_[n.value];
    std::vector<NodeId> args;
    const auto& operands =
        u < 0 ? std::vector<NodeId>(g_.nodes[n].args.begin(), g_.nodes[n].args.end())
              : units_[static_cast<size_t>(u)].operands;
    if (u >= 0)
      for (NodeId other : units_[static_cast<size_t>(u)].nodes) open_[other.value] = true;
    for (NodeId a : operands) {
      if (!make(a)) return false;
      args.push_back(*made_[a.value]);
    }
    if (u < 0) {
      made_[n.value] = b_.try_op(g_.nodes[n].op, args, g_.nodes[n].attrs).value_or_throw();
      return true;
    }
    const Unit& unit = units_[static_cast<size_t>(u)];
    std::vector<NodeId> results = splice(b_, *chosen_[static_cast<size_t>(u)], args);
    for (size_t i = 0; i < results.size(); ++i) made_[unit.nodes[i].value] = results[i];
    return true;
  }

  const Graph& g_;
  const std::vector<Unit>& units_;
  const std::vector<const Graph*>& chosen_;
  std::vector<int> unit_;  // per node: which one replaces it, or -1
  std::vector<std::optional<NodeId>> made_;
  std::vector<bool> open_;  // being made
  GraphBuilder b_;
};

}  // namespace

std::vector<Unit> units_of(const Graph& g) {
  const std::vector<bool> weight_only = weight_only_nodes(g);
  std::vector<std::vector<NodeId>> sets = merges_of(g, weight_only);
  for (size_t i = 0; i < g.size(); ++i)
    if (is_compute(g, NodeId(i)) && !weight_only[i]) sets.push_back({NodeId(i)});
  std::stable_sort(sets.begin(), sets.end(),
                   [](const auto& a, const auto& b) { return a[0].value < b[0].value; });
  std::vector<Unit> units;
  for (auto& nodes : sets) units.push_back(unit_of(g, std::move(nodes), weight_only));
  return units;
}

std::optional<Graph> assembled(const Graph& g, const std::vector<Unit>& units,
                               const std::vector<const Graph*>& chosen) {
  return Assembler(g, units, chosen).run();
}

}  // namespace emend
