#include "equiv/carried.h"

#include <algorithm>

namespace emend {

int ExtentSymbols::add(int64_t extent, bool of_input) {
  extents_.push_back(extent);
  of_input_.push_back(of_input);
  bad_.push_back(false);
  above_.push_back(-1);
  return static_cast<int>(extents_.size()) - 1;
}

int ExtentSymbols::find(int s) const {
  while (above_[static_cast<size_t>(s)] >= 0) s = above_[static_cast<size_t>(s)];
  return s;
}

int ExtentSymbols::unite(int s, int t) {
  s = find(s);
  t = find(t);
  if (s == t) return s;
  if (extent(s) != extent(t)) {
    refuse(s);
    refuse(t);
    return s;
  }
  above_[static_cast<size_t>(std::max(s, t))] = std::min(s, t);
  return std::min(s, t);
}

bool ExtentSymbols::settle() {
  std::vector<bool> has_input(size(), false);
  for (size_t s = 0; s < size(); ++s)
    if (of_input_[s]) has_input[static_cast<size_t>(find(static_cast<int>(s)))] = true;
  bool changed = false;
  std::vector<bool> now = bad_;
  for (size_t s = 0; s < size(); ++s) {
    int root = find(static_cast<int>(s));
    now[s] = bad_[s] || !has_input[static_cast<size_t>(root)] || is_refused(root);
    changed |= now[s] != bad_[s];
  }
  if (!changed) return false;
  bad_ = std::move(now);
  refused_.clear();
  std::fill(above_.begin(), above_.end(), -1);
  return true;
}

bool ExtentSymbols::is_refused(int root) const {
  return std::any_of(refused_.begin(), refused_.end(), [&](int s) { return find(s) == root; });
}

Result<BareProgram> bare_program(const Graph& g, ExtentSymbols& symbols) {
  BareProgram p{&g, std::vector<BareMeaning>(g.size()), std::vector<std::vector<int>>(g.size())};
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id(i);
    if (!g.type(id).is_tensor()) return fail("a value that is no tensor");
    if (g.nodes[id].op == kInputOp || g.is_constant(id)) continue;
    auto bare = bare_meaning(g, id);
    if (!bare) return Failure{bare.error()};
    const BareMeaning& n = p.nodes[i] = *std::move(bare);
    std::vector<bool> used = n.computed_with;
    for (const Read& r : n.means.reads)
      for (const IndexExpr& e : r.index)
        each_iterator(e, [&](int k) { used[static_cast<size_t>(k)] = true; });
    for (size_t k = 0; k < n.outputs; ++k)
      p.own[i].push_back(used[k] ? -1 : symbols.add(n.extents[k], false));
  }
  return p;
}

Carrier::Carrier(ExtentSymbols& symbols, const BareProgram& program, const InputSymbols& inputs)
    : symbols_(symbols), program_(program) {
  const Graph& g = *program.graph;
  all_.resize(g.size());
  marks_.resize(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id(i);
    const Node& node = g.nodes[id];
    all_[i].dims.assign(g.type(id).shape.size(), -1);
    if (node.op == kInputOp) {
      const auto& mine = inputs[static_cast<size_t>(node.attrs.get<int64_t>("index"))];
      for (size_t d = 0; d < mine.size(); ++d) all_[i].dims[d] = live(mine[d]);
    } else if (!g.is_constant(id)) {
      marks_[i] = marks_of(id);
      refuse_scattered(id);
      carry(id);
      carry_sums(id);
    }
  }
  // Only now all that are one are known to be.
  for (size_t i = 0; i < g.size(); ++i) {
    once_each(all_[i].dims);
    once_each(marks_[i]);
  }
}

const Carried& Carrier::read_by(NodeId id, const Read& r) const {
  return all_[program_.graph->nodes[id].args[static_cast<size_t>(r.operand)].value];
}

void Carrier::once_each(const std::vector<int>& list) {
  for (size_t d = 0; d < list.size(); ++d)
    for (size_t e = 0; e < d; ++e)
      if (one(list[d], list[e])) symbols_.refuse(list[d]);
}

// Per iterator: the symbol of the dimensions that it reads by itself, or one of its own where it
// reads nothing.
std::vector<int> Carrier::marks_of(NodeId id) {
  const BareMeaning& n = program_.nodes[id.value];
  std::vector<int> mark(n.extents.size(), -1);
  for (const Read& r : n.means.reads) {
    for (size_t d = 0; d < r.index.size(); ++d) {
      int k = alone(r.index[d]), symbol = read_by(id, r).dims[d];
      if (k < 0 || symbol < 0) continue;
      int& m = mark[static_cast<size_t>(k)];
      m = m < 0 ? symbol : symbols_.unite(m, symbol);
    }
  }
  const std::vector<int>& own = program_.own[id.value];
  for (size_t k = 0; k < n.outputs; ++k)
    if (own[k] >= 0) mark[k] = live(own[k]);
  return mark;
}

// A symbol's iterator stands where the symbol is, and nowhere else.
void Carrier::refuse_scattered(NodeId id) {
  const BareMeaning& n = program_.nodes[id.value];
  const std::vector<int>& mark = marks_[id.value];
  for (const Read& r : n.means.reads) {
    for (size_t d = 0; d < r.index.size(); ++d) {
      int symbol = read_by(id, r).dims[d], at = alone(r.index[d]);
      bool whole =
          symbol >= 0 && at >= 0 && n.extents[static_cast<size_t>(at)] == symbols_.extent(symbol);
      if (symbol >= 0 && !whole) symbols_.refuse(symbol);
      each_iterator(r.index[d], [&](int k) {
        if (mark[static_cast<size_t>(k)] >= 0 && !whole)
          symbols_.refuse(mark[static_cast<size_t>(k)]);
      });
    }
  }
}

// To a dimension of the output, or into a sum.
void Carrier::carry(NodeId id) {
  const BareMeaning& n = program_.nodes[id.value];
  const std::vector<int>& mark = marks_[id.value];
  Carried& out = all_[id.value];
  for (size_t k = 0; k < mark.size(); ++k) {
    if (mark[k] < 0) continue;
    if (n.computed_with[k]) symbols_.refuse(mark[k]);
    if (k >= n.outputs) {
      if (n.means.reduce != Reduce::sum || n.means.finish != arg(0)) symbols_.refuse(mark[k]);
      out.summed.push_back(mark[k]);
      continue;
    }
    auto own = std::find(n.dims.begin(), n.dims.end(), std::vector<int>{static_cast<int>(k)});
    if (own == n.dims.end()) {
      symbols_.refuse(mark[k]);
    } else {
      out.dims[static_cast<size_t>(own - n.dims.begin())] = mark[k];
    }
  }
}

// Of sums of slices there may only be sums.
void Carrier::carry_sums(NodeId id) {
  const BareMeaning& n = program_.nodes[id.value];
  const std::vector<int>& mark = marks_[id.value];
  for (const Read& r : n.means.reads) {
    for (int s : read_by(id, r).summed) {
      bool carried = std::any_of(mark.begin(), mark.end(), [&](int m) { return one(m, s); });
      bool sums = std::all_of(n.means.reads.begin(), n.means.reads.end(), [&](const Read& q) {
        const std::vector<int>& summed = read_by(id, q).summed;
        return std::any_of(summed.begin(), summed.end(), [&](int t) { return one(s, t); });
      });
      if (!n.linear || !sums || carried) symbols_.refuse(s);
      all_[id.value].summed.push_back(s);
    }
  }
}

}  // namespace emend
