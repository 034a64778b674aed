#include "fuse/units.h"

#include <algorithm>
#include <functional>
#include <set>

#include "fuse/fuse.h"
#include "fuse/price.h"
#include "kernels/group.h"
#include "kernels/nest.h"
#include "kernels/recurrence.h"
#include "kernels/sequential.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr double kCheapEffort = 4;         // of an element of any tensor
constexpr int64_t kSmall = 4096;           // elements of which any effort is cheap
constexpr double kCheapSmallEffort = 160;  // of an element of a small tensor

Meaning node_meaning(const Graph& g, NodeId n) {
  std::vector<Type> types;
  for (NodeId a : g.nodes[n].args) types.push_back(g.type(a));
  return meaning_of(op_def(g.nodes[n]), g.nodes[n].attrs, types);
}

// Whether every term of the reduction is another element: the reduction reads nothing twice.
bool reads_once(const Graph& g, NodeId n, const Meaning& m) {
  int64_t terms = count(m.out) * count(m.reduced);
  for (const Read& r : m.reads) {
    if (count(g.type(g.nodes[n].args[static_cast<size_t>(r.operand)]).shape) < terms) return false;
  }
  return true;
}

Role role_of(const Graph& g, NodeId n, const Meaning& m) {
  if (m.reduce == Reduce::none) return Role::pointwise;
  if (is_contraction(m)) return Role::contraction;
  return reads_once(g, n, m) ? Role::reduction : Role::window;
}

}  // namespace

std::string host_reason(const Graph& g, NodeId n) {
  std::string reason = not_nestable(g, n);
  if (!reason.empty()) return reason;
  auto nest = nest_of(outlined(g, {{n}, {n}, false, ""}).graph);
  return nest ? "" : nest.error();
}

Role role_of(const Graph& g, NodeId n) {
  return role_of(g, n, node_meaning(g, n));
}

Units::Units(const Graph& g)
    : g_(&g),
      roles_(g.size(), Role::given),
      reasons_(g.size()),
      views_(g.size(), false),
      junctions_(g.size(), false),
      cheap_(g.size(), false),
      dissolved_(g.size(), false),
      output_(g.size(), false),
      points_(g.size(), 0),
      direct_users_(g.size()) {
  for (const auto& o : g.outputs) output_[storage_of(g, o.node)] = true;
  for (size_t i = 0; i < g.size(); ++i) {
    for (NodeId a : g.nodes[NodeId(i)].args) {
      auto& users = direct_users_[a];
      if (users.empty() || users.back() != NodeId(i)) users.push_back(NodeId(i));
    }
  }
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n{i};
    const Node& node = g.nodes[n];
    if (node.op == kInputOp || node.op == kConstantOp) continue;
    if (is_renaming(g, n)) {
      roles_[n] = Role::renaming;
      continue;
    }
    if (node.op == kGetOp && roles_[node.args[0]] == Role::sequential) {
      roles_[n] = Role::item;
      continue;
    }
    reasons_[n] = host_reason(g, n);
    if (!reasons_[n].empty()) {
      bool alone = is_sequential(g, n) && (g.type(n).is_tensor() || only_items_are_used(n));
      roles_[n] = alone ? Role::sequential : Role::host;
      continue;
    }
    Meaning m = node_meaning(g, n);
    roles_[n] = role_of(g, n, m);
    bool passes = roles_[n] == Role::pointwise || roles_[n] == Role::reduction;
    if (passes) points_[n] = count(m.out) * count(m.reduced);
    views_[n] = is_movement(m) && m.reads.size() == 1;
    junctions_[n] = op_def(node).kind == Kind::movement && m.reads.size() > 2;
    double work = effort(m.body);
    bool small = count(g.type(n).shape) <= kSmall && work <= kCheapSmallEffort;
    cheap_[n] = roles_[n] == Role::pointwise && op_def(node).kind != Kind::index && !output_[n] &&
                !junctions_[n] && (small || work <= kCheapEffort);
  }
  dissolve_byte_factors();
  // These see values, never what a group computes on the way.
  for (size_t i = 0; i < g.size(); ++i) {
    if (!stays_alone(roles_[NodeId(i)])) continue;
    for (NodeId a : g.nodes[NodeId(i)].args) cheap_[storage_of(g, a)] = false;
    if (!g.type(NodeId(i)).is_tensor()) take_in_matrices(NodeId(i));
  }
}

bool Units::only_items_are_used(NodeId n) const {
  return !output_[n] && !direct_users_[n].empty() &&
         std::ranges::all_of(direct_users_[n], [&](NodeId u) { return g_->nodes[u].op == kGetOp; });
}

// Matrices of a loop are packed ahead: views of constants that make one are the packing's business.
void Units::take_in_matrices(NodeId loop) {
  const Graph& g = *g_;
  auto r = recurrence_of(g, loop);
  if (!r || roles_[loop] != Role::sequential) return;
  auto root = [&](NodeId n) {
    while (roles_[n] == Role::renaming || views_[n]) n = g.nodes[n].args[0];
    return n;
  };
  const auto& args = g.nodes[loop].args;
  for (const Recurrence::Matrix& m : r->matrices) {
    NodeId from = root(args[m.operand]);
    auto same = std::ranges::count_if(args, [&](NodeId a) { return root(a) == from; });
    std::vector<NodeId> views;
    for (NodeId n = args[m.operand]; n != from; n = g.nodes[n].args[0]) views.push_back(n);
    bool own = std::ranges::all_of(
        views, [&](NodeId n) { return !output_[n] && direct_users_[n].size() == 1; });
    if (!g.is_constant(from) || same != 1 || !own) continue;
    for (NodeId n : views) dissolved_[n] = roles_[n] == Role::pointwise;
  }
}

// Bytes are widened, and their zero points taken off, where they are multiplied: nothing is gained
// by storing the four times larger numbers (kernels/factor.h).
void Units::dissolve_byte_factors() {
  auto is_byte = [&](NodeId n) {
    DType t = g_->type(n).is_tensor() ? g_->type(n).dtype : DType::f32;
    return t == DType::u8 || t == DType::i8;
  };
  auto widens = [&](NodeId n) {
    const Node& node = g_->nodes[n];
    return roles_[n] == Role::pointwise && op_def(node).name == "cast" &&
           g_->type(n).dtype == DType::i32 && is_byte(node.args[0]);
  };
  auto centres = [&](NodeId n) {
    const Node& node = g_->nodes[n];
    return roles_[n] == Role::pointwise && op_def(node).name == "sub" && widens(node.args[0]) &&
           widens(node.args[1]) &&
           g_->type(g_->nodes[node.args[0]].args[0]).dtype ==
               g_->type(g_->nodes[node.args[1]].args[0]).dtype &&
           count(g_->type(n).shape) == count(g_->type(node.args[0]).shape);
  };
  for (size_t i = g_->size(); i-- > 0;) {  // users before what they use
    NodeId n{i};
    if (output_[n] || !g_->type(n).is_tensor() || !(widens(n) || centres(n))) continue;
    dissolved_[n] =
        !direct_users_[n].empty() && std::ranges::all_of(direct_users_[n], [&](NodeId u) {
          return roles_[u] == Role::contraction || (dissolved_[u] && centres(u));
        });
  }
}

std::vector<NodeId> Units::users(NodeId n) const {
  std::set<NodeId> found;
  std::vector<NodeId> open{n};
  for (; !open.empty();) {
    NodeId at = open.back();
    open.pop_back();
    for (NodeId u : direct_users_[at]) {
      if (see_through(u)) {
        open.push_back(u);
      } else {
        found.insert(u);
      }
    }
  }
  return {found.begin(), found.end()};
}

std::vector<NodeId> Units::producers(NodeId n) const {
  std::set<NodeId> found;
  std::vector<NodeId> open{n};
  for (; !open.empty();) {
    NodeId at = open.back();
    open.pop_back();
    for (NodeId a : g_->nodes[at].args) {
      if (see_through(a)) {
        open.push_back(a);
      } else if (is_unit(a)) {
        found.insert(a);
      }
    }
  }
  return {found.begin(), found.end()};
}

std::vector<NodeId> Units::passes_over(NodeId n, const std::function<bool(NodeId)>& through) const {
  std::set<NodeId> found, seen;
  std::vector<NodeId> open{n};
  while (!open.empty()) {
    NodeId at = open.back();
    open.pop_back();
    for (NodeId a : g_->nodes[at].args) {
      if (!seen.insert(a).second) continue;
      if (through(a)) open.push_back(a);
      if (roles_[a] == Role::renaming || !g_->type(a).is_tensor()) continue;
      int64_t elements = count(g_->type(a).shape);
      if (elements > 1 && elements == points_[n]) found.insert(a);
    }
  }
  return {found.begin(), found.end()};
}

std::vector<NodeId> Units::siblings(NodeId n) const {
  std::set<NodeId> found;
  for (NodeId value : passes_over(n, [&](NodeId a) { return see_through(a); })) {
    for (NodeId u : users(value)) {
      if (u != n && points_[u] == points_[n]) found.insert(u);
    }
  }
  return {found.begin(), found.end()};
}

// With the views that it takes in, and its results.
NodeGroup Units::sequential_group(NodeId n) const {
  NodeGroup group{{n}, {}, false, ""};
  if (g_->type(n).is_tensor()) {
    group.stores = {n};
    return group;
  }
  std::set<NodeId> inside{n};
  for (NodeId a : g_->nodes[n].args) {
    if (!dissolved_[storage_of(*g_, a)]) continue;
    for (NodeId v = a; see_through(v); v = g_->nodes[v].args[0]) inside.insert(v);
  }
  for (NodeId item : direct_users_[n]) {
    inside.insert(item);
    if (output_[item] || !users(item).empty()) group.stores.push_back(item);
  }
  group.nodes.assign(inside.begin(), inside.end());
  if (group.stores.empty()) group.stores = {direct_users_[n][0]};  // nobody wants any
  return group;
}

NodeGroup Units::group(const std::vector<NodeId>& units) const {
  NodeGroup group;
  if (roles_[units[0]] == Role::host) return {units, units, true, reasons_[units[0]]};
  if (roles_[units[0]] == Role::sequential) return sequential_group(units[0]);
  auto member = [&](NodeId n) { return std::binary_search(units.begin(), units.end(), n); };
  std::set<NodeId> inside(units.begin(), units.end());
  std::function<void(NodeId)> need = [&](NodeId n) {
    for (NodeId a : g_->nodes[n].args) {
      // A renaming of what is loaded is loaded itself.
      NodeId s = roles_[a] == Role::renaming ? storage_of(*g_, a) : a;
      if (!member(s) && !dissolved_[s]) continue;
      for (NodeId r = a; r != s; r = g_->nodes[r].args[0]) inside.insert(r);
      if (dissolved_[s] && inside.insert(s).second) need(s);
    }
  };
  for (NodeId u : units) need(u);
  group.nodes.assign(inside.begin(), inside.end());
  for (NodeId u : units) {
    bool stored = output_[u];
    for (NodeId user : users(u)) stored |= !member(user);
    if (stored) group.stores.push_back(u);
  }
  return group;
}

}  // namespace emend
