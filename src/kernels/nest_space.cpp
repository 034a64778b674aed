#include "kernels/nest_space.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/nest.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

// The space of what a reduction reads: its axes, neighbours with the same fate as one, and which of
// them are left in the result. Nothing unless it reads every one of the points once, in order.
std::optional<Space> reduced_space(const Graph& g, NodeId n, int64_t points) {
  const Node& node = g.nodes[n];
  if (node.op == kInputOp || node.op == kConstantOp || !not_nestable(g, n).empty()) return {};
  std::vector<Type> types;
  for (NodeId a : node.args) types.push_back(g.type(a));
  Meaning m = meaning_of(op_def(node), node.attrs, types);
  if (m.reduce == Reduce::none || count(m.out) * count(m.reduced) != points) return {};
  IndexMath math;
  std::vector<Linear> at;
  for (int64_t extent : m.extents()) {
    at.push_back(extent == 1 ? whole(0) : term(math.iterator(extent)));
  }
  for (const Read& r : m.reads) {
    const Dims& shape = types[static_cast<size_t>(r.operand)].shape;
    if (count(shape) != points) continue;
    Dims strides = row_major_strides(shape);
    Linear flat;
    for (size_t d = 0; d < shape.size(); ++d) {
      flat = math.sum(flat, math.substitute(r.index[d], at, [](int, int64_t) { return whole(0); }) *
                                strides[d]);
    }
    std::ranges::sort(flat.terms, std::greater(), [](const auto& t) { return t.second; });
    Space space;
    int64_t rest = points;
    int last = -1;
    for (auto [a, stride] : flat.terms) {
      if (math.atom(a).kind != Atom::Kind::iterator || stride * math.extent(a) != rest) return {};
      bool kept = std::ranges::find(at, term(a)) - at.begin() < std::ssize(m.out);
      if (kept && a < std::exchange(last, a)) return {};
      rest = stride;
      if (space.kept.empty() || space.kept.back() != kept) {
        space.kept.push_back(kept);
        space.extents.push_back(1);
      }
      space.extents.back() *= math.extent(a);
    }
    if (rest == 1) return space;
  }
  return {};
}

}  // namespace

std::optional<Space> space_of(const Graph& group) {
  int64_t points = 0;
  for (const auto& o : group.outputs) points = std::max(points, count(group.type(o.node).shape));
  std::optional<Space> space;
  for (const auto& o : group.outputs) {
    int64_t own = count(group.type(o.node).shape);
    if (own == points) continue;
    // Behind its reduction a smaller output has elementwise operators and renamings at most.
    std::optional<Space> found;
    std::vector<NodeId> open{o.node};
    while (!open.empty() && !found) {
      NodeId n = open.back();
      open.pop_back();
      found = reduced_space(group, n, points);
      for (NodeId a : group.nodes[n].args) {
        if (count(group.type(a).shape) == own) open.push_back(a);
      }
    }
    if (!found || (space && *space != *found)) return std::nullopt;
    space = found;
  }
  return space ? space : Space{{points}, {true}};
}

}  // namespace emend
