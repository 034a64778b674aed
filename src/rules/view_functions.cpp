// What rules ask of views (ir/view.h): maps in their text form, composed, moved past broadcasts,
// concatenations and masks.
#include "ir/view.h"
#include "ops/families.h"
#include "ops/table.h"
#include "ops/view.h"
#include "ops/view_compose.h"
#include "rules/function_args.h"

namespace emend {
namespace {

Result<View> map_of(const AttrValue& v) {
  const std::string* text = v.as<std::string>();
  EMEND_ASSERT(text, "a map is expected");
  auto view = parse_view(*text);
  if (!view) return view;
  return normalised(*view);
}

// A map that fits the operand.
Result<View> map_on(const Fact& map, const Dims& shape) {
  auto v = map_of(attr(map));
  if (v && v->index.size() != shape.size()) return fail("a map of another rank");
  return v;
}

Answer text_of(const View& v) {
  return AttrValue(to_text(v));
}

Answer normal(Facts a) {
  auto v = map_of(attr(a[0]));
  if (!v) return Failure{v.error()};
  return text_of(*v);
}

Answer view_shape(Facts a) {
  auto v = map_of(attr(a[0]));
  if (!v) return Failure{v.error()};
  return AttrValue(shape_of(*v));
}

Answer unmoved(Facts a) {
  auto v = map_on(a[0], shape(a[1]));
  return AttrValue(v && is_identity(*v, shape(a[1])));
}

Answer total(Facts a) {
  auto v = map_on(a[0], shape(a[1]));
  return AttrValue(v && is_total(*v, shape(a[1])));
}

// The elements in their order, under another shape?
Answer only_reshapes(Facts a) {
  auto v = map_on(a[0], shape(a[1]));
  if (!v || is_identity(*v, shape(a[1]))) return AttrValue(false);
  const Dims to = shape_of(*v);
  if (count(to) != count(shape(a[1]))) return AttrValue(false);
  Meaning m;
  m.out = to;
  m.reads = {Read{.operand = 0, .index = reshape_index(shape(a[1]), to)}};
  return AttrValue(as_view(m, to) == *v);
}

// Dimensions that only change places, as a permutation.
Answer permutation(Facts a) {
  auto v = map_on(a[0], shape(a[1]));
  if (!v) return Failure{v.error()};
  if (is_identity(*v, shape(a[1]))) return fail("nothing moves");
  Dims perm;
  for (size_t d = 0; d < v->out.size(); ++d) {
    auto from = passed(*v, d, shape(a[1]));
    if (!from) return fail("dimension ", d, " is none of the operand's");
    perm.push_back(static_cast<int64_t>(*from));
  }
  return AttrValue(perm);
}

// op, attributes, operand (or the map that makes it): the view that the operator is.
Answer viewed(Facts a) {
  const OpDef& def = op_def(op_named(*attr(a[0]).as<std::string>()));
  Type x = Type::tensor(DType::f32, {});
  if (std::holds_alternative<AttrValue>(a[2])) {
    auto v = map_of(attr(a[2]));
    if (!v) return Failure{v.error()};
    x.shape = shape_of(*v);
  } else {
    x.shape = shape(a[2]);
  }
  const Attrs& attrs = *attr(a[1]).as<Attrs>();
  auto type = infer_type(def, attrs, Types(&x, 1));
  if (!type) return Failure{type.error()};
  auto v = as_view(meaning_of(def, attrs, Types(&x, 1)), type->shape);
  if (!v) return fail("a ", def.name, " that is no view");
  return text_of(*v);
}

// --- One after the other: outer map, inner map, operand ---

Result<ComposedView> composition(Facts a) {
  auto outer = map_of(attr(a[0])), inner = map_on(a[1], shape(a[2]));
  if (!outer) return Failure{outer.error()};
  if (!inner) return Failure{inner.error()};
  if (outer->index.size() != inner->out.size()) return fail("maps of different ranks");
  auto both = composed(*outer, *inner, shape(a[2]));
  if (!both) return fail("no view");
  return *std::move(both);
}

Answer composed_map(Facts a) {
  auto both = composition(a);
  if (!both) return Failure{both.error()};
  return text_of(both->view);
}

Answer mask(Facts a) {
  auto both = composition(a);
  if (!both) return Failure{both.error()};
  if (!both->mask) return fail("nothing is masked");
  return AttrValue(*both->mask);
}

Answer unmasked(Facts a) {
  auto both = composition(a);
  return AttrValue(both && !both->mask);
}

// --- Past broadcasts: map, operand, the one that is broadcast to the view's result ---

Answer passes_by(Facts a) {
  auto v = map_on(a[0], shape(a[1]));
  if (!v) return Failure{v.error()};
  const Dims &x = shape(a[1]), &y = shape(a[2]);
  if (y.size() > v->out.size() || y.size() > x.size()) return AttrValue(false);
  for (size_t k = 1; k <= y.size(); ++k) {  // from the last on
    if (y[y.size() - k] == 1) continue;
    auto from = passed(*v, v->out.size() - k, x);
    if (!from || *from != x.size() - k) return AttrValue(false);
  }
  return AttrValue(true);
}

// Map, operand, channels, others: the map of the operand with so many channels, which it passes,
// for other ones.
Answer channel_map(Facts a) {
  Dims x = shape(a[1]);
  auto v = map_on(a[0], x);
  if (!v) return Failure{v.error()};
  if (v->out.size() != x.size() || x.size() < 2) return fail("channels are not passed");
  x[1] = integer(a[2]);
  if (passed(*v, 1, x) != size_t{1}) return fail("channels are not passed");
  return text_of(with_extent(*v, 1, 1, integer(a[3])));
}

// --- Past concatenations ---

const std::vector<AttrValue>& maps_of(const Fact& f) {
  const auto* maps = std::get_if<std::vector<AttrValue>>(&f);
  EMEND_ASSERT(maps && !maps->empty(), "maps are expected");
  return *maps;
}

// Axis of the views' results, their maps, their operands: the axis among those.
Answer inner_axis(Facts a) {
  const Operand& x = first_operand(a[2]);
  auto v = map_of(maps_of(a[1])[0]);
  if (!v) return Failure{v.error()};
  auto k = normal_axis(integer(a[0]), static_cast<int64_t>(v->out.size()));
  if (!k || v->index.size() != x.type->shape.size()) return fail("no such axis");
  auto from = passed(*v, place(*k), x.type->shape);
  if (!from) return fail("the axis is not passed");
  return AttrValue(static_cast<int64_t>(*from));
}

Dims concat_shape(const std::vector<Operand>& xs, size_t axis) {
  Dims all = xs[0].type->shape;
  for (size_t i = 1; i < xs.size(); ++i) all[axis] += xs[i].type->shape[axis];
  return all;
}

// Map of a concatenation, its axis, its operands: where that axis is in the result.
Result<size_t> outer_dim(Facts a) {
  const auto& xs = operands(a[2]);
  auto k = normal_axis(integer(a[1]), xs[0].type->rank());
  if (!k) return Failure{k.error()};
  auto v = map_on(a[0], xs[0].type->shape);
  if (!v) return Failure{v.error()};
  for (size_t d = 0; d < v->out.size(); ++d)
    if (passed(*v, d, concat_shape(xs, place(*k))) == place(*k)) return d;
  return fail("the axis is not passed");
}

Answer outer_axis(Facts a) {
  auto d = outer_dim(a);
  if (!d) return Failure{d.error()};
  return AttrValue(static_cast<int64_t>(*d));
}

// The same map for one of the operands.
Answer part_map(Facts a) {
  auto d = outer_dim(a);
  if (!d) return Failure{d.error()};
  auto v = map_of(attr(a[0]));
  auto k = place(normal_axis(integer(a[1]), operand(a[3]).type->rank()).value_or_throw());
  return text_of(with_extent(*v, *d, k, shape(a[3])[k]));
}

// Axis of the concatenated results, maps, operands: the one map that they are parts of.
Answer whole_map(Facts a) {
  const auto& xs = operands(a[2]);
  const auto& maps = maps_of(a[1]);
  auto first = map_of(maps[0]);
  if (!first) return Failure{first.error()};
  auto k = normal_axis(integer(a[0]), static_cast<int64_t>(first->out.size()));
  if (!k || first->index.size() != xs[0].type->shape.size()) return fail("no such axis");
  std::optional<size_t> from;
  std::optional<View> wide;
  Dims whole;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Dims& x = xs[i].type->shape;
    auto v = map_of(maps[i]);
    if (!v || v->out.size() != first->out.size() || v->index.size() != x.size())
      return fail("maps of different ranks");
    auto here = passed(*v, place(*k), x);
    if (!here || (from && *from != *here)) return fail("the axis is not passed");
    from = here;
    if (i == 0) whole = concat_shape(xs, *from);
    View same = with_extent(*v, place(*k), *from, whole[*from]);
    if (wide && !(*wide == same)) return fail("different maps");
    wide = std::move(same);
  }
  return text_of(*wide);
}

// --- Masks: map, condition, operand that it chooses from ---

// The map for a condition that is broadcast: dimensions of size one are read at 0, and those of the
// result that nothing else depends on are of size one, too. Where the operand is left along such a
// dimension the result is zero whatever the condition says.
Result<View> condition_view(Facts a) {
  auto v = map_on(a[0], shape(a[2]));
  if (!v) return v;
  const Dims& c = shape(a[1]);
  const size_t rank = v->index.size();
  if (c.size() > rank) return fail("a condition of a higher rank");
  const size_t missing = rank - c.size();
  View to = *v;
  std::vector<bool> named(radices_of(to).size(), false);
  for (size_t d = 0; d < rank; ++d) {
    if (d < missing || c[d - missing] == 1) {
      to.index[d] = {};
    } else if (c[d - missing] != shape(a[2])[d]) {
      return fail("a condition that is wider");
    }
    for (auto [digit, coef] : to.index[d].terms) named[static_cast<size_t>(digit)] = true;
  }
  to.index.erase(to.index.begin(), to.index.begin() + static_cast<std::ptrdiff_t>(missing));
  size_t digit = 0;
  for (View::Dim& d : to.out) {
    bool any = false;
    for (size_t k = 0; k < d.radices.size(); ++k) any |= named[digit++];
    if (!any) d = {1, Dims(d.radices.size(), 1)};
  }
  return normalised(to);
}

Answer condition_map(Facts a) {
  auto v = condition_view(a);
  if (!v) return Failure{v.error()};
  return text_of(*v);
}

// Is a constant condition true wherever the view reads?
Answer kept(Facts a) {
  const Tensor* c = operand(a[1]).constant;
  auto v = condition_view(a);
  if (!v || !c || count(shape_of(*v)) > kMaxMask) return AttrValue(false);
  const Dims to = shape_of(*v), strides = row_major_strides(c->shape());
  Dims at(to.size(), 0);
  for (int64_t n = count(to); n > 0; --n) {
    const Dims p = place(*v, at);
    int64_t flat = 0;
    bool inside = true;
    for (size_t d = 0; d < p.size(); ++d) {
      inside &= p[d] >= 0 && p[d] < c->shape()[d];
      flat += p[d] * strides[d];
    }
    if (inside && c->real(flat) == 0) return AttrValue(false);
    for (size_t d = to.size(); d-- > 0 && ++at[d] == to[d];) at[d] = 0;
  }
  return AttrValue(true);
}

}  // namespace

std::vector<RuleFunction> view_functions() {
  // clang-format off
  return {
      {"normal", 1, 1, normal, "a map's normal form"},
      {"view_shape", 1, 1, view_shape, "the shape of a map's result"},
      {"permutation", 2, 2, permutation, "map, operand: the dimensions that the result's are, in another order"},
      {"viewed", 3, 3, viewed, "operator, its attributes, its operand (or the map that makes it): the map that the operator is"},
      {"composed", 3, 3, composed_map, "outer map, inner map, operand: the map of both"},
      {"mask", 3, 3, mask, "outer map, inner map, operand: where the map of both does not see a zero of the inner one"},
      {"channel_map", 4, 4, channel_map, "map, operand, channels, others: the map of the operand with so many channels, which it passes, for others"},
      {"inner_axis", 3, 3, inner_axis, "axis of views' results, their maps, their operands: the axis among those"},
      {"outer_axis", 3, 3, outer_axis, "map, axis of a concatenation, its operands: where it is in the result"},
      {"part_map", 4, 4, part_map, "map, axis of a concatenation, its operands, one of them: the map for that one"},
      {"whole_map", 3, 3, whole_map, "axis, maps, operands: the map whose parts along the axis these are"},
      {"condition_map", 3, 3, condition_map, "map, condition, operand: the map for a condition that is broadcast to it"},

      {"unmoved", 2, 2, unmoved, "a map that leaves the operand as it is"},
      {"total", 2, 2, total, "a map that reads inside of the operand only"},
      {"only_reshapes", 2, 2, only_reshapes, "a map that keeps all elements in their order, under another shape"},
      {"unmasked", 3, 3, unmasked, "outer map, inner map, operand: one map, without a mask"},
      {"passes_by", 3, 3, passes_by, "map, operand, another: that does not vary along any dimension that the map changes"},
      {"kept", 3, 3, kept, "map, condition, operand: the condition is true wherever the map reads"},
  };
  // clang-format on
}

}  // namespace emend
