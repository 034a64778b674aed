#include "codegen/parts.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/group.h"
#include "kernels/nest.h"
#include "ops/table.h"

namespace emend {
namespace {

// The same loops, which walk along the results as before.
bool walk_alike(const Nest& dense, const Nest& part) {
  if (dense.space != part.space || dense.stores.size() != part.stores.size()) return false;
  for (int a : dense.space) {
    if (dense.math.extent(a) != part.math.extent(a)) return false;
  }
  for (size_t s = 0; s < dense.stores.size(); ++s) {
    const Linear &before = dense.stores[s].at, &after = part.stores[s].at;
    for (auto [a, stride] : after.terms) {
      if (part.math.atom(a).kind != Atom::Kind::iterator) return false;
    }
    for (int a : dense.space) {
      if ((dense.math.stride(before, a) == 1) != (part.math.stride(after, a) == 1)) return false;
    }
  }
  return true;
}

class Finder {
 public:
  Finder(const Graph& g, const Plan& plan, const Catalogue& catalogue)
      : g_(g), plan_(plan), catalogue_(catalogue), uses_(use_counts(g)) {
    for (size_t k = 0; k < plan.partition.groups.size(); ++k) {
      for (NodeId n : plan.partition.groups[k].nodes) maker_[n] = k;
    }
  }

  Parts find() && {
    for (size_t k = 0; k < plan_.partition.groups.size(); ++k) {
      const NodeGroup& group = plan_.partition.groups[k];
      if (group.host || group.nodes.size() != 1) continue;
      if (op_def(g_.nodes[group.nodes[0]]).name != "concat" || given_away(group.nodes[0])) continue;
      auto parts = parts_of(group.nodes[0], plan_.choices[k].layouts.store(0));
      if (parts.empty()) continue;
      found_.of.merge(parts);
      found_.wholes.insert(k);
    }
    return std::move(found_);
  }

 private:
  bool given_away(NodeId n) const {
    return std::ranges::any_of(g_.outputs,
                               [&](const GraphOutput& o) { return storage_of(g_, o.node) == n; });
  }

  // All operands, or none.
  std::map<NodeId, Part> parts_of(NodeId whole, const Layout& layout) const {
    const Node& node = g_.nodes[whole];
    Part part{whole, layout, row_major_strides(stored_shape(g_.type(whole).shape, layout))};
    auto axis = static_cast<size_t>(node.attrs.get<int64_t>("axis")), place = axis;
    if (!layout.order.empty()) {
      auto at = std::ranges::find(layout.order, static_cast<int64_t>(axis));
      place = static_cast<size_t>(at - layout.order.begin());
    }
    std::map<NodeId, Part> parts;
    for (NodeId a : node.args) {
      if (uses_[a] != 1 || !placeable(a, part)) return {};
      parts[a] = part;
      auto elements = g_.type(a).shape[axis] * part.strides[place];
      auto bytes = storage_bytes(g_.type(a).dtype, static_cast<uint64_t>(elements));
      EMEND_ASSERT(bytes);
      part.from += *bytes;
    }
    return parts;
  }

  // Whether the kernel that was chosen can store the value there. It was chosen for the group's
  // loops: they must stay as they are.
  bool placeable(NodeId n, const Part& part) const {
    auto maker = maker_.find(n);
    if (maker == maker_.end() || found_.wholes.count(maker->second)) return false;
    const NodeGroup& group = plan_.partition.groups[maker->second];
    const Candidate& c = plan_.choices[maker->second];
    if (group.host || !kernel_named(catalogue_, c.kernel).stores_anywhere) return false;
    Outline o = outlined(g_, group);
    auto at = static_cast<size_t>(std::ranges::find(o.stores, n) - o.stores.begin());
    if (at == o.stores.size() || c.layouts.store(at) != part.layout) return false;
    Layouts placed = c.layouts;
    placed.stores.resize(o.stores.size());
    placed.stores[at].strides = part.strides;
    auto dense = nest_of(laid_out(o.graph, c.layouts)), inside = nest_of(laid_out(o.graph, placed));
    return dense && inside && walk_alike(*dense, *inside);
  }

  const Graph& g_;
  const Plan& plan_;
  const Catalogue& catalogue_;
  IdVec<NodeId, int> uses_;
  std::map<NodeId, size_t> maker_;  // the group that a node is in
  Parts found_;
};

}  // namespace

Parts parts_in(const Graph& g, const Plan& plan, const Catalogue& catalogue) {
  return Finder(g, plan, catalogue).find();
}

}  // namespace emend
