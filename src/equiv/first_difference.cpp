#include "equiv/first_difference.h"

#include <map>

#include "ops/table.h"

namespace emend {
namespace {

// Rounding of constants adds up along a network; this is above what it comes to.
constexpr double kWithin = 1e-5;

bool is_computed(const Graph& g, NodeId n) {
  return g.nodes[n].op != kInputOp && g.nodes[n].op != kConstantOp && g.types[n].is_tensor();
}

std::map<std::string, NodeId> by_name(const Graph& g) {
  std::map<std::string, NodeId> names;
  // Of the operators that one node of a file became, the last has its value.
  for (size_t i = 0; i < g.size(); ++i)
    if (is_computed(g, NodeId(i)) && !g.names[NodeId(i)].empty())
      names[g.names[NodeId(i)]] = NodeId(i);
  return names;
}

FirstDifference at(const Graph& g, NodeId n, std::string other, std::string how) {
  return {g.names[n], op_def(g.nodes[n]).name, std::move(other), std::move(how)};
}

}  // namespace

std::optional<FirstDifference> first_difference(const Graph& a,
                                                const IdVec<NodeId, Print>& prints_a,
                                                const Graph& b,
                                                const IdVec<NodeId, Print>& prints_b) {
  auto names_a = by_name(a), names_b = by_name(b);
  size_t common = 0;
  for (const auto& [name, n] : names_a) common += names_b.contains(name);
  if (2 * common >= names_a.size() && common > 0) {
    for (size_t i = 0; i < a.size(); ++i) {
      NodeId n{i};
      auto own = names_a.find(a.names[n]), twin = names_b.find(a.names[n]);
      if (own == names_a.end() || own->second != n || twin == names_b.end()) continue;
      if (a.types[n] != b.types[twin->second]) continue;
      if (!alike(prints_a[n], prints_b[twin->second], kWithin))
        return at(a, n, twin->first, "name");
    }
  }
  std::map<std::string, std::vector<NodeId>> by_type;
  for (size_t i = 0; i < b.size(); ++i) by_type[to_text(b.types[NodeId(i)])].push_back(NodeId(i));
  // A value that only one program makes is no difference if what follows from it is found again.
  IdVec<NodeId, char> found(a.size(), 0), found_later(a.size(), 0);
  for (size_t i = a.size(); i-- > 0;) {
    NodeId n{i};
    for (NodeId m : by_type[to_text(a.types[n])])
      found[n] = found[n] || alike(prints_a[n], prints_b[m], kWithin);
    for (NodeId arg : a.nodes[n].args)
      found_later[arg] = found_later[arg] || found[n] || found_later[n];
  }
  for (size_t i = 0; i < a.size(); ++i) {
    NodeId n{i};
    bool counts = is_computed(a, n) && prints_a[n].seen && !a.names[n].empty();
    if (counts && !found[n] && !found_later[n]) return at(a, n, "", "value");
  }
  return std::nullopt;
}

}  // namespace emend
