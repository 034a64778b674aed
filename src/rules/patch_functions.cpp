// What rules ask of patches (ops/patch.h): which positions a box is, and who reads it.
#include <set>

#include "ir/view.h"
#include "ops/families.h"
#include "ops/table.h"
#include "rules/function_args.h"

namespace emend {
namespace {

Dims plus(const Dims& a, const Dims& b) {
  Dims sum = a;
  for (size_t d = 0; d < sum.size(); ++d) sum[d] += b[d];
  return sum;
}

// --- Begin and operand of one box, then of another ---

Answer covers(Facts a) {
  const Dims &outer = dims(a[0]), &size = shape(a[1]), &inner = dims(a[2]), &n = shape(a[3]);
  bool all = true;
  for (size_t d = 0; d < outer.size(); ++d)
    all &= outer[d] <= inner[d] && inner[d] + n[d] <= outer[d] + size[d];
  return AttrValue(all);
}

// The dimension along which the second box begins where the first one ends, all else being equal.
Answer side_by_side(Facts a) {
  const Dims &first = dims(a[0]), &size = shape(a[1]), &second = dims(a[2]), &n = shape(a[3]);
  std::optional<size_t> axis;
  for (size_t d = 0; d < first.size(); ++d) {
    if (first[d] == second[d] && size[d] == n[d]) continue;
    if (axis || second[d] != first[d] + size[d]) return fail("not side by side");
    axis = d;
  }
  if (!axis) return fail("the same box");
  return AttrValue(static_cast<int64_t>(*axis));
}

// --- A part of an operand that broadcasts: list, base, other ---

// The last items of a list, one per dimension of the other operand; where that is broadcast,
// `otherwise`.
Answer along(Facts a, int64_t otherwise) {
  const Dims &list = dims(a[0]), &base = shape(a[1]), &other = shape(a[2]);
  if (other.size() > base.size()) return fail("an operand of a higher rank");
  const size_t missing = base.size() - other.size();
  Dims part;
  for (size_t d = 0; d < other.size(); ++d) {
    if (other[d] != 1 && other[d] != base[d + missing]) return fail("an operand that is wider");
    part.push_back(other[d] == 1 ? otherwise : list[d + missing]);
  }
  return AttrValue(part);
}

// --- Seen through a view: map, begin, fix ---

Result<View> view_over(Facts a) {
  const std::string* text = attr(a[0]).as<std::string>();
  EMEND_ASSERT(text, "a map is expected");
  auto v = parse_view(*text);
  if (!v) return v;
  if (v->index.size() != dims(a[1]).size()) return fail("a map of another rank");
  return normalised(*v);
}

struct Seen {
  View view;
  ViewBox box;
  bool missed() const { return box.low == box.high; }
};
Result<Seen> seen(Facts a) {
  auto v = view_over(a);
  if (!v) return Failure{v.error()};
  auto box = positions_reading(*v, dims(a[1]), plus(dims(a[1]), shape(a[2])));
  if (!box) return fail("no box");
  return Seen{*std::move(v), *std::move(box)};
}

Answer misses(Facts a) {
  auto s = seen(a);
  return AttrValue(s && s->missed());
}
Answer within(Facts a) {
  auto s = seen(a);
  return AttrValue(s && !s->missed() && s->box.low == Dims(s->box.low.size(), 0) &&
                   s->box.high == shape_of(s->view));
}
Answer seen_begin(Facts a) {
  auto s = seen(a);
  if (!s) return Failure{s.error()};
  if (s->missed()) return fail("the box is missed");
  return AttrValue(s->box.low);
}
// What the view makes of the fix.
Answer fix_map(Facts a) {
  auto s = seen(a);
  if (!s) return Failure{s.error()};
  if (s->missed()) return fail("the box is missed");
  auto v = view_in_box(s->view, s->box.low, s->box.high);
  if (!v) return fail("the box cuts through digits");
  for (size_t d = 0; d < v->index.size(); ++d) v->index[d].constant -= dims(a[1])[d];
  return AttrValue(to_text(normalised(*v)));
}

// --- Demand ---

constexpr size_t kMaxPlaces = 1 << 16;

// Does an index never fall into [low, high), whatever the iterators are?
bool never_in(const IndexExpr& e, const Dims& extents, int64_t low, int64_t high) {
  if (!e.is_affine()) return false;
  std::set<int64_t> places = {e.affine.constant};
  for (auto [k, coef] : e.affine.terms) {
    std::set<int64_t> next;
    const int64_t n = extents[place(k)];
    if (places.size() * place(n) > kMaxPlaces) return false;
    for (int64_t p : places)
      for (int64_t i = 0; i < n; ++i) next.insert(p + coef * i);
    places = std::move(next);
  }
  const auto first = places.lower_bound(low);
  return first == places.end() || *first >= high;
}

// Does an operator never read a box of its first operand? By the meanings of all that it is made
// of.
bool never_reads(const OpDef& def, Attrs attrs, Types types, const Dims& low, const Dims& high) {
  if (def.body.empty() && !def.means) {
    if (!def.expand) return false;
    const Graph g = expansion(def, attrs, types);
    for (size_t i = 0; i < g.size(); ++i) {
      const Node& n = g.nodes[NodeId(i)];
      if (std::ranges::find(n.args, g.inputs[0].node) == n.args.end()) continue;
      std::vector<Type> inner;
      for (NodeId x : n.args) inner.push_back(g.type(x));
      if (n.args[0] != g.inputs[0].node || std::ranges::count(n.args, n.args[0]) != 1 ||
          !never_reads(op_def(n), n.attrs, inner, low, high))
        return false;
    }
    return g.outputs[0].node != g.inputs[0].node;
  }
  const Meaning m = meaning_of(def, attrs, types);
  return std::ranges::all_of(m.reads, [&](const Read& r) {
    if (r.operand != 0) return true;
    for (size_t d = 0; d < r.index.size(); ++d)
      if (never_in(r.index[d], m.extents(), low[d], high[d])) return true;
    return false;
  });
}

// Operator, its attributes, begin, fix, the operands, the first of which is patched.
Answer unread(Facts a) {
  const OpDef& def = op_def(op_named(*attr(a[0]).as<std::string>()));
  std::vector<Type> types;
  for (const Fact& f : a.subspan(4)) types.push_back(*operand(f).type);
  const Attrs& attrs = *attr(a[1]).as<Attrs>();
  if (!infer_type(def, attrs, types)) return AttrValue(false);
  return AttrValue(never_reads(def, attrs, types, dims(a[2]), plus(dims(a[2]), shape(a[3]))));
}

}  // namespace

std::vector<RuleFunction> patch_functions() {
  // clang-format off
  return {
      {"side_by_side", 4, 4, side_by_side, "begin and operand of a box, and of another: the dimension along which that follows"},
      {"part_starts", 3, 3, [](Facts a) { return along(a, 0); }, "begin, base, other: where the box begins in an operand that broadcasts to the base"},
      {"part_sizes", 3, 3, [](Facts a) { return along(a, 1); }, "sizes, base, other: of the box in an operand that broadcasts to the base"},
      {"seen_begin", 3, 3, seen_begin, "map, begin, fix: where the box begins in what the map makes"},
      {"fix_map", 3, 3, fix_map, "map, begin, fix: the map that makes of the fix what is seen of it"},

      {"covers", 4, 4, covers, "begin and operand of a box, and of another: which lies inside"},
      {"misses", 3, 3, misses, "map, begin, fix: no element of the box is read"},
      {"within", 3, 3, within, "map, begin, fix: no element beside the box is read"},
      {"unread", 5, -1, unread, "operator, attributes, begin, fix, operands: the operator reads nothing of the box of its first operand"},
  };
  // clang-format on
}

}  // namespace emend
