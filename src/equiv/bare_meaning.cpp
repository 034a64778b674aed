#include "equiv/bare_meaning.h"

#include <algorithm>

#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

void renumber(Linear& e, const std::vector<int>& to) {
  std::vector<std::pair<int, int64_t>> kept;
  for (auto [k, coef] : e.terms)
    if (to[static_cast<size_t>(k)] >= 0) kept.emplace_back(to[static_cast<size_t>(k)], coef);
  e.terms = std::move(kept);
}

// A sum of reads: which ones, positions may decide.
bool is_linear(const Scalar& body) {
  enum class Is : uint8_t { number, linear, other };  // a number knows positions, but no reads
  std::vector<Is> all;
  for (const Instr& i : body.code) {
    auto is = [&](int32_t k, Is what) { return all[static_cast<size_t>(k)] == what; };
    Is now = Is::other;
    switch (i.fn) {
      case Fn::arg:
        now = Is::linear;
        break;
      case Fn::constant:
      case Fn::iter:
        now = Is::number;
        break;
      case Fn::neg:
        now = all[static_cast<size_t>(i.a)];
        break;
      case Fn::add:
      case Fn::sub:
        if (all[static_cast<size_t>(i.a)] == all[static_cast<size_t>(i.b)])
          now = all[static_cast<size_t>(i.a)];
        break;
      case Fn::lt:
      case Fn::le:
        if (is(i.a, Is::number) && is(i.b, Is::number)) now = Is::number;
        break;
      case Fn::select:
        if (is(i.a, Is::number) && is(i.b, Is::linear) && is(i.c, Is::linear)) now = Is::linear;
        break;
      default:
        break;
    }
    all.push_back(now);
  }
  return !all.empty() && all.back() == Is::linear;
}

}  // namespace

Result<BareMeaning> bare_meaning(const Graph& g, NodeId id) {
  const Node& node = g.nodes[id];
  const OpDef& def = op_def(node);
  if (def.body.empty() && !def.means) return fail(def.name, " has no meaning by itself");
  std::vector<Type> types;
  for (NodeId a : node.args) types.push_back(g.type(a));
  BareMeaning n;
  n.means = meaning_of(def, node.attrs, types);
  Meaning& m = n.means;
  std::vector<int> to;
  Dims out, reduced;
  for (size_t k = 0; k < m.out.size() + m.reduced.size(); ++k) {
    int64_t extent = k < m.out.size() ? m.out[k] : m.reduced[k - m.out.size()];
    if (extent == 0) return fail("a tensor without elements");
    to.push_back(extent == 1 ? -1 : static_cast<int>(out.size() + reduced.size()));
    if (extent > 1) (k < m.out.size() ? out : reduced).push_back(extent);
  }
  m.out = out;
  m.reduced = reduced;
  n.outputs = out.size();
  n.extents = m.extents();
  for (Read& r : m.reads) {
    for (IndexExpr& e : r.index) {
      renumber(e.affine, to);
      for (Digit& d : e.digits) renumber(d.of, to);
    }
  }
  n.computed_with.assign(n.extents.size(), false);
  for (Scalar* s : {&m.body, &m.finish}) {
    for (Instr& i : s->code) {
      if (i.fn != Fn::iter) continue;
      i.a = to[static_cast<size_t>(i.a)];
      if (i.a >= 0) n.computed_with[static_cast<size_t>(i.a)] = true;
    }
  }
  int k = 0;
  for (int64_t extent : g.type(id).shape) {
    auto& mine = n.dims.emplace_back();
    for (int64_t size = 1; size < extent; ++k) {
      EMEND_ASSERT(static_cast<size_t>(k) < n.outputs, def.name, " has fewer positions than means");
      size *= n.extents[static_cast<size_t>(k)];
      mine.push_back(k);
    }
  }
  n.linear = (m.reduce == Reduce::none || m.reduce == Reduce::sum) && is_linear(m.body) &&
             m.finish == arg(0) && std::all_of(m.reads.begin(), m.reads.end(), [](const Read& r) {
               return r.outside.value_or(0) == 0;
             });
  return n;
}

// The iterator that is the whole index, or -1.
int alone(const IndexExpr& e) {
  if (!e.is_affine() || e.affine.constant != 0 || e.affine.terms.size() != 1) return -1;
  return e.affine.terms[0].second == 1 ? e.affine.terms[0].first : -1;
}

}  // namespace emend
