// What rules ask of shapes, axes, permutations and lists.
#include <algorithm>
#include <numeric>

#include "ops/families.h"
#include "rules/function_args.h"

namespace emend {
namespace {

// --- Dimensions of operands ---

Answer axis(Facts a) {
  auto k = normal_axis(integer(a[1]), first_operand(a[0]).type->rank());
  if (!k) return Failure{k.error()};
  return AttrValue(*k);
}

Answer is_axis(Facts a) {
  int64_t rank = first_operand(a[1]).type->rank();
  auto k = normal_axis(integer(a[0]), rank), m = normal_axis(integer(a[2]), rank);
  return AttrValue(k && m && *k == *m);
}

Answer batch_axis(Facts a) {
  int64_t rank = first_operand(a[1]).type->rank();
  auto k = normal_axis(integer(a[0]), rank);
  return AttrValue(k && *k < rank - 2);
}

// The shape with ones before it, at the rank of the second operand.
Answer aligned(Facts a) {
  const Dims& y = shape(a[0]);
  size_t rank = shape(a[1]).size();
  if (y.size() > rank) return fail("of a higher rank");
  Dims out(rank - y.size(), 1);
  out.insert(out.end(), y.begin(), y.end());
  return AttrValue(out);
}

// Broadcasts to each of the operands without widening it, and is the same all along the axes.
Answer constant_along(Facts a) {
  const Dims& y = shape(a[0]);
  auto fits_at = [&](const Operand& x, int64_t axis) {
    const Dims& to = x.type->shape;
    auto both = broadcast_shapes(y, to);
    auto k = normal_axis(axis, x.type->rank());
    if (!both || *both != to || !k) return false;
    int64_t own = *k - static_cast<int64_t>(to.size() - y.size());
    return own < 0 || y[place(own)] == 1;
  };
  auto fits_all = [&](const Operand& x) {
    if (attr(a[2]).as<int64_t>()) return fits_at(x, integer(a[2]));
    Dims axes = dims(a[2]);
    if (axes.empty()) return count(y) == 1 && fits_at(x, 0);  // no axes are all axes
    return std::all_of(axes.begin(), axes.end(), [&](int64_t k) { return fits_at(x, k); });
  };
  return every_operand(a.subspan(1, 1), fits_all);
}

// Of a matrix product: has its result the left operand's shape, but for the last dimension?
Answer rows_kept(Facts a) {
  const Dims &x = shape(a[0]), &w = shape(a[1]);
  if (x.size() < 2 || w.size() < 2) return AttrValue(false);
  return AttrValue(w.size() == 2 ||
                   (w.size() == x.size() && std::equal(w.begin(), w.end() - 2, x.begin())));
}

Answer same_rank(Facts a) {
  return AttrValue(std::all_of(
      a.begin(), a.end(), [&](const Fact& f) { return shape(f).size() == shape(a[0]).size(); }));
}

Answer rank_at_least(Facts a) {
  return every_operand(a.first(1),
                       [&](const Operand& x) { return x.type->rank() >= integer(a[1]); });
}

// The shape but for one dimension.
Answer shape_without(Facts a) {
  Dims out = shape(a[0]);
  auto k = normal_axis(integer(a[1]), operand(a[0]).type->rank());
  if (!k) return Failure{k.error()};
  out.erase(out.begin() + *k);
  return AttrValue(out);
}

// --- Permutations ---

// Leaves all dimensions but the last n where they are / the last n.
bool is_fixed(const Dims& p, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) {
    if (p[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

Answer swaps_last(Facts a) {
  const Dims& p = dims(a[0]);
  size_t n = p.size();
  return AttrValue(n >= 2 && is_fixed(p, 0, n - 2) && p[n - 1] == static_cast<int64_t>(n) - 2);
}

Answer keeps_last(Facts a) {
  const Dims& p = dims(a[0]);
  size_t n = place(integer(a[1]));
  return AttrValue(p.size() >= n && is_fixed(p, p.size() - n, p.size()));
}

// --- Reductions ---

// Which dimensions, in order; none given are all.
Result<Dims> axes_of(const Dims& given, int64_t rank) {
  Dims out;
  for (int64_t axis : given) {
    auto k = normal_axis(axis, rank);
    if (!k) return Failure{k.error()};
    out.push_back(*k);
  }
  if (given.empty()) {
    for (int64_t k = 0; k < rank; ++k) out.push_back(k);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Answer axes_together(Facts a) {
  int64_t rank = operand(a[0]).type->rank();
  auto k = axes_of(dims(a[1]), rank), m = axes_of(dims(a[2]), rank);
  if (!k || !m) return fail("no such axes");
  k->insert(k->end(), m->begin(), m->end());
  auto all = axes_of(*k, rank);
  if (!all) return Failure{all.error()};
  return AttrValue(*all);
}

Answer is_axes(Facts a) {
  int64_t rank = operand(a[1]).type->rank();
  auto k = axes_of(dims(a[0]), rank), m = axes_of(dims(a[2]), rank);
  return AttrValue(k && m && *k == *m);
}

Answer reduced(Facts a) {
  auto axes = axes_of(dims(a[1]), operand(a[0]).type->rank());
  if (!axes) return Failure{axes.error()};
  const bool* keep = attr(a[2]).as<bool>();
  EMEND_ASSERT(keep, "a flag is expected");
  Dims out;
  for (size_t i = 0; i < shape(a[0]).size(); ++i) {
    bool gone = std::binary_search(axes->begin(), axes->end(), static_cast<int64_t>(i));
    if (!gone) out.push_back(shape(a[0])[i]);
    if (gone && *keep) out.push_back(1);
  }
  return AttrValue(out);
}

Answer elements_along(Facts a) {
  auto axes = axes_of(dims(a[1]), operand(a[0]).type->rank());
  if (!axes) return Failure{axes.error()};
  int64_t n = 1;
  for (int64_t k : *axes) n *= shape(a[0])[place(k)];
  return AttrValue(n);
}

Answer permuted_axes(Facts a) {
  auto axes = axes_of(dims(a[1]), static_cast<int64_t>(dims(a[0]).size()));
  if (!axes) return Failure{axes.error()};
  for (int64_t& k : *axes) k = dims(a[0])[place(k)];
  return AttrValue(*axes);
}

// Of a broadcast: what it is reduced to, how many it repeats, and whether it only repeats.
Answer reduced_shape(Facts a) {
  Dims out = dims(a[0]);
  auto axes = axes_of(dims(a[1]), static_cast<int64_t>(out.size()));
  if (!axes) return Failure{axes.error()};
  for (int64_t k : *axes) out[place(k)] = 1;
  return AttrValue(out);
}

Answer product_along(Facts a) {
  const Dims& s = dims(a[0]);
  auto axes = axes_of(dims(a[1]), static_cast<int64_t>(s.size()));
  if (!axes) return Failure{axes.error()};
  int64_t n = 1;
  for (int64_t k : *axes) n *= s[place(k)];
  return AttrValue(n);
}

Answer one_along(Facts a) {
  const Dims &x = shape(a[0]), &s = dims(a[1]);
  auto axes = axes_of(dims(a[2]), static_cast<int64_t>(s.size()));
  if (!axes || x.size() > s.size()) return AttrValue(false);
  for (int64_t k : *axes) {
    int64_t own = k - static_cast<int64_t>(s.size() - x.size());
    if (s[place(k)] == 0 || (own >= 0 && x[place(own)] != 1)) return AttrValue(false);
  }
  return AttrValue(true);
}

// --- Lists ---

Answer joined(Facts a) {
  Dims out;
  for (const Fact& f : a) out.insert(out.end(), dims(f).begin(), dims(f).end());
  return AttrValue(out);
}

Answer spliced(Facts a) {
  Dims out = dims(a[0]);
  int64_t at = integer(a[1]);
  if (at < 0 || place(at) >= out.size()) return fail("no item ", at);
  out.erase(out.begin() + at);
  out.insert(out.begin() + at, dims(a[2]).begin(), dims(a[2]).end());
  return AttrValue(out);
}

Answer between(Facts a) {
  int64_t from = integer(a[0]), to = integer(a[1]);
  if (to < from) return fail("a negative length");
  Dims out(place(to - from));
  std::iota(out.begin(), out.end(), from);
  return AttrValue(out);
}

Answer product_of(Facts a) {
  return AttrValue(count(dims(a[0])));
}

Answer sum_of(Facts a) {
  return AttrValue(std::accumulate(dims(a[0]).begin(), dims(a[0]).end(), int64_t{0}));
}

}  // namespace

std::vector<RuleFunction> shape_functions() {
  // clang-format off
  return {
      {"axis", 2, 2, axis, "the place of an axis (counted from the end where negative) among an operand's dimensions"},
      {"shape_without", 2, 2, shape_without, "the operand's shape but for one dimension"},
      {"aligned", 2, 2, aligned, "the shape with ones before it, at the rank of the second operand"},
      {"joined", 1, -1, joined, "lists one after the other"},
      {"spliced", 3, 3, spliced, "a list with one item replaced by several"},
      {"between", 2, 2, between, "a, b: [a, .. b-1]"},
      {"product_of", 1, 1, product_of, "of all items"},
      {"sum_of", 1, 1, sum_of, "of all items"},
      {"reduced", 3, 3, reduced, "operand, axes, keepdims: the shape of the reduction"},
      {"reduced_shape", 2, 2, reduced_shape, "a shape with ones at the axes"},
      {"product_along", 2, 2, product_along, "of a shape's sizes at the axes"},
      {"one_along", 3, 3, one_along, "operand, shape it is broadcast to, axes: size one at all of them"},
      {"elements_along", 2, 2, elements_along, "how many elements a reduction along the axes sums"},
      {"axes_together", 3, 3, axes_together, "of two reductions of an operand"},
      {"permuted_axes", 2, 2, permuted_axes, "permutation, axes: where they were before"},
      {"is_axis", 3, 3, is_axis, "k, operand, m: the same dimension of it"},
      {"is_axes", 3, 3, is_axes, "axes, operand, other axes: the same dimensions of it"},
      {"batch_axis", 2, 2, batch_axis, "k, operand: before its last two dimensions"},
      {"constant_along", 3, 3, constant_along, "y, x, axes: broadcasts to x, and does not vary along the axes"},
      {"rows_kept", 2, 2, rows_kept, "the product of the two has the first one's shape but for the last dimension"},
      {"same_rank", 2, -1, same_rank, "equally many dimensions"},
      {"rank_at_least", 2, 2, rank_at_least, "this many dimensions or more"},
      {"swaps_last", 1, 1, swaps_last, "a permutation of the last two dimensions alone"},
      {"keeps_last", 2, 2, keeps_last, "a permutation that leaves the last n dimensions alone"},
  };
  // clang-format on
}

}  // namespace emend
