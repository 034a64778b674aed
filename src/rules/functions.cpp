// Arithmetic, what is known of operands and of the values of constants; and the one table.
#include "rules/functions.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "ops/families.h"
#include "rules/function_args.h"
#include "rules/scale.h"

namespace emend {
namespace {

// f on integers, on reals, on lists, and on a list with one integer.
template <class F>
Answer arithmetic(const Fact& a, const Fact& b, const F& f) {
  const AttrValue &x = attr(a), &y = attr(b);
  const Dims *xs = x.as<Dims>(), *ys = y.as<Dims>();
  if (!xs && !ys) {
    if (x.as<double>() || y.as<double>()) return AttrValue(f(number(x), number(y)));
    return AttrValue(f(integer(a), integer(b)));
  }
  if (xs && ys && xs->size() != ys->size()) return fail("lists of different length");
  Dims out(xs ? xs->size() : ys->size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = f(xs ? (*xs)[i] : integer(a), ys ? (*ys)[i] : integer(b));
  return AttrValue(std::move(out));
}

template <class Test>
Answer every(const Dims& d, const Test& test) {
  return AttrValue(std::all_of(d.begin(), d.end(), test));
}

// Every constant among the elements of an operand passes the test; false where it is unknown.
template <class Test>
bool every_element(const Operand& x, const Test& test) {
  if (!x.constant) return false;
  for (int64_t i = 0; i < x.constant->count(); ++i) {
    if (!test(x.constant->real(i))) return false;
  }
  return true;
}

// Does s, aligned at the right with a shape of that rank, vary along dimension k at most?
bool varies_only_along(const Dims& s, size_t rank, size_t k) {
  if (s.size() > rank) return false;
  size_t skip = rank - s.size();
  for (size_t d = 0; d < s.size(); ++d) {
    if (s[d] != 1 && skip + d != k) return false;
  }
  return true;
}

// Only dimensions of size one change their place, so that the elements keep their order.
Answer keeps_order(Facts a) {
  int64_t last = -1;
  for (int64_t p : dims(a[1])) {
    if (place(p) >= shape(a[0]).size()) return fail("no dimension ", p);
    if (shape(a[0])[place(p)] == 1) continue;
    if (p < last) return AttrValue(false);
    last = p;
  }
  return AttrValue(true);
}

Answer sizes_along(Facts a) {
  Dims out;
  for (const Operand& x : operands(a[0])) {
    auto k = normal_axis(integer(a[1]), x.type->rank());
    if (!k) return Failure{k.error()};
    out.push_back(x.type->shape[place(*k)]);
  }
  return AttrValue(out);
}

Answer dim(Facts a) {
  auto k = normal_axis(integer(a[1]), operand(a[0]).type->rank());
  if (!k) return Failure{k.error()};
  return AttrValue(shape(a[0])[place(*k)]);
}

Answer gather(Facts a) {
  const Dims &from = dims(a[0]), &at = dims(a[1]);
  Dims out;
  for (int64_t i : at) {
    if (i < 0 || place(i) >= from.size()) return fail("no item ", i);
    out.push_back(from[place(i)]);
  }
  return AttrValue(out);
}

Answer inverse(Facts a) {
  Dims out(dims(a[0]).size());
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t p = dims(a[0])[i];
    if (p < 0 || place(p) >= out.size()) return fail("no permutation");
    out[place(p)] = static_cast<int64_t>(i);
  }
  return AttrValue(out);
}

Answer iota(Facts a) {
  if (integer(a[0]) < 0) return fail("a negative length");
  Dims out(place(integer(a[0])));
  std::iota(out.begin(), out.end(), 0);
  return AttrValue(out);
}

Answer item(Facts a) {
  int64_t i = integer(a[1]);
  if (i < 0 || place(i) >= dims(a[0]).size()) return fail("no item ", i);
  return AttrValue(dims(a[0])[place(i)]);
}

Answer same_shape(Facts a) {
  if (auto* many = std::get_if<std::vector<Operand>>(&a[0])) {
    return AttrValue(std::all_of(many->begin(), many->end(), [&](const Operand& x) {
      return x.type->shape == many->front().type->shape;
    }));
  }
  return AttrValue(
      std::all_of(a.begin(), a.end(), [&](const Fact& f) { return shape(f) == shape(a[0]); }));
}

// Item by item, for two starred variables.
Answer same_shapes(Facts a) {
  const auto *xs = std::get_if<std::vector<Operand>>(&a[0]),
             *ys = std::get_if<std::vector<Operand>>(&a[1]);
  EMEND_ASSERT(xs && ys, "starred variables are expected");
  return AttrValue(std::equal(
      xs->begin(), xs->end(), ys->begin(), ys->end(),
      [](const Operand& x, const Operand& y) { return x.type->shape == y.type->shape; }));
}

Answer different_axes(Facts a) {
  int64_t rank = operand(a[2]).type->rank();
  auto k = normal_axis(integer(a[0]), rank), m = normal_axis(integer(a[1]), rank);
  return AttrValue(k && m && *k != *m);
}

// Of two slices that differ along dimension k only: the sizes of both together.
Answer widened(Facts a) {
  Dims out = dims(a[0]);
  auto k = normal_axis(integer(a[2]), static_cast<int64_t>(out.size()));
  if (!k) return Failure{k.error()};
  if (dims(a[1]).size() != out.size()) return fail("slices of other ranks");
  out[place(*k)] += dims(a[1])[place(*k)];
  return AttrValue(out);
}

// Starts, sizes and steps of a slice, the starts of another, and a dimension: does the second begin
// where the first ends?
Answer adjacent(Facts a) {
  Dims next = dims(a[0]);
  auto k = normal_axis(integer(a[4]), static_cast<int64_t>(next.size()));
  if (!k) return Failure{k.error()};
  if (dims(a[1]).size() != next.size() || dims(a[2]).size() != next.size())
    return fail("slices of other ranks");
  next[place(*k)] += dims(a[1])[place(*k)] * dims(a[2])[place(*k)];
  return AttrValue(next == dims(a[3]));
}

Answer quotient(Facts a) {
  if (integer(a[1]) == 0 || integer(a[0]) % integer(a[1]) != 0) return fail("has a remainder");
  return AttrValue(integer(a[0]) / integer(a[1]));
}

Answer fits(Facts a) {
  auto both = broadcast_shapes(shape(a[0]), shape(a[1]));
  return AttrValue(both && *both == shape(a[1]));
}

// The dimension of an operand that dimension k is of a shape it is reshaped to, where the two
// differ by dimensions of size one only.
Answer unsqueezed_axis(Facts a) {
  const Dims &from = shape(a[0]), &to = dims(a[1]);
  auto axis = normal_axis(integer(a[2]), static_cast<int64_t>(to.size()));
  if (!axis || to[place(*axis)] == 1) return fail("no such dimension");
  auto wide = [](const Dims& d) {  // places of dimensions other than one
    Dims places;
    for (size_t i = 0; i < d.size(); ++i) {
      if (d[i] != 1) places.push_back(static_cast<int64_t>(i));
    }
    return places;
  };
  Dims in = wide(from), out = wide(to);
  if (in.size() != out.size()) return fail("not only dimensions of size one");
  int64_t found = -1;
  for (size_t i = 0; i < in.size(); ++i) {
    if (from[place(in[i])] != to[place(out[i])]) return fail("dimensions are regrouped");
    if (out[i] == *axis) found = in[i];
  }
  return AttrValue(found);
}

Answer flattened(Facts a) {
  const Dims& s = std::holds_alternative<Operand>(a[0]) ? shape(a[0]) : dims(a[0]);
  if (s.empty()) return fail("a scalar");
  return AttrValue(Dims{count(std::span(s).first(s.size() - 1)), s.back()});
}

// The number that a constant of one element is.
Answer value(Facts a) {
  const Tensor* t = operand(a[0]).constant;
  if (!t || t->count() != 1 || t->dtype() == DType::string) return fail("not a known number");
  return AttrValue(t->real(0));
}

Answer last_axis(Facts a) {
  const Dims& axes = dims(a[0]);
  int64_t rank = operand(a[1]).type->rank();
  return AttrValue(axes.size() == 1 && (axes[0] == -1 || axes[0] == rank - 1));
}

Answer with_last(Facts a) {
  Dims out = dims(a[0]);
  if (out.empty()) return fail("a scalar");
  out.back() = integer(a[1]);
  return AttrValue(out);
}

Answer list(Facts a) {
  Dims out;
  for (const Fact& f : a) out.push_back(integer(f));
  return AttrValue(out);
}

// Scales (or zero points) that are one number, or of an operand along its axis a[2] where that is
// its dimension a[3].
Answer scales_along(Facts a) {
  if (count(shape(a[0])) == 1) return AttrValue(true);
  int64_t rank = operand(a[1]).type->rank();
  auto own = normal_axis(integer(a[2]), rank), wanted = normal_axis(integer(a[3]), rank);
  return AttrValue(own && wanted && *own == *wanted && shape(a[0]).size() == 1);
}

Answer is_byte(Facts a) {
  DType t = operand(a[0]).type->dtype;
  return AttrValue(t == DType::u8 || t == DType::i8);
}

Answer is_negative(Facts a) {
  return AttrValue(integer(a[0]) < 0);
}

// --- Values of constants ---

Answer uniform(Facts a) {
  const Operand& x = operand(a[0]);
  if (!x.constant || x.constant->count() == 0) return fail("not a known number");
  double first = x.constant->real(0);
  if (!every_element(x, [&](double v) { return v == first; })) return fail("different numbers");
  return AttrValue(first);
}

Answer is_identity(Facts a) {
  const Tensor* t = operand(a[0]).constant;
  if (!t || t->shape().size() < 2 || t->shape()[0] != t->shape()[1]) return AttrValue(false);
  for (int64_t i = 0; i < t->count(); ++i) {
    if (t->real(i) != (on_diagonal(t->shape(), i) ? 1 : 0)) return AttrValue(false);
  }
  return AttrValue(true);
}

}  // namespace

bool on_diagonal(const Dims& shape, int64_t flat) {
  int64_t at[2] = {0, 0};
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) {
    int64_t i = flat % shape[d];
    if (d < 2)
      at[d] = i;
    else if (i != (shape[d] - 1) / 2)
      return false;
  }
  return at[0] == at[1];
}

const Operand& operand(const Fact& f) {
  EMEND_ASSERT(std::holds_alternative<Operand>(f), "an operand is expected");
  return std::get<Operand>(f);
}
const std::vector<Operand>& operands(const Fact& f) {
  EMEND_ASSERT(std::holds_alternative<std::vector<Operand>>(f), "a starred variable is expected");
  return std::get<std::vector<Operand>>(f);
}
const Operand& first_operand(const Fact& f) {
  return std::holds_alternative<Operand>(f) ? operand(f) : operands(f).front();
}
const Dims& shape(const Fact& f) {
  return operand(f).type->shape;
}
const AttrValue& attr(const Fact& f) {
  EMEND_ASSERT(std::holds_alternative<AttrValue>(f), "an attribute is expected");
  return std::get<AttrValue>(f);
}
const Dims& dims(const Fact& f) {
  const Dims* d = attr(f).as<Dims>();
  EMEND_ASSERT(d, "a list of integers is expected, not ", to_text(attr(f)));
  return *d;
}
int64_t integer(const Fact& f) {
  const int64_t* i = attr(f).as<int64_t>();
  EMEND_ASSERT(i, "an integer is expected, not ", to_text(attr(f)));
  return *i;
}
double number(const AttrValue& v) {
  if (auto* i = v.as<int64_t>()) return static_cast<double>(*i);
  if (auto* b = v.as<bool>()) return *b;
  EMEND_ASSERT(v.as<double>(), "a number is expected, not ", to_text(v));
  return *v.as<double>();
}

std::vector<RuleFunction> value_functions() {
  auto plus = [](auto a, auto b) { return a + b; };
  auto minus = [](auto a, auto b) { return a - b; };
  auto times = [](auto a, auto b) { return a * b; };
  // clang-format off
  return {
      {"shape", 1, 1, [](Facts a) -> Answer { return AttrValue(shape(a[0])); }, "the operand's shape"},
      {"rank", 1, 1, [](Facts a) -> Answer { return AttrValue(operand(a[0]).type->rank()); }, "how many dimensions"},
      {"dim", 2, 2, dim, "the size of one dimension"},
      {"sizes", 2, 2, sizes_along, "the sizes of a starred variable's operands along a dimension"},
      {"elements", 1, 1, [](Facts a) -> Answer { return AttrValue(count(shape(a[0]))); }, "how many"},
      {"unsqueezed_axis", 3, 3, unsqueezed_axis, "operand, shape, k: the operand's dimension that is k of the shape, but for ones"},
      {"flattened", 1, 1, flattened, "[rows, columns]: all dimensions but the last as one"},
      {"with_last", 2, 2, with_last, "a shape with another last dimension"},
      {"value", 1, 1, value, "the number that a constant of one element is"},
      {"list", 1, -1, list, "of integers"},
      {"sum", 2, 2, [=](Facts a) { return arithmetic(a[0], a[1], plus); }, "of numbers or, item by item, of lists"},
      {"difference", 2, 2, [=](Facts a) { return arithmetic(a[0], a[1], minus); }, "of numbers or lists"},
      {"product", 2, 2, [=](Facts a) { return arithmetic(a[0], a[1], times); }, "of numbers or lists"},
      {"quotient", 2, 2, quotient, "of integers, without remainder"},
      {"gather", 2, 2, gather, "items of the first list at the places in the second: q after p for permutations"},
      {"inverse", 1, 1, inverse, "of a permutation"},
      {"iota", 1, 1, iota, "[0, 1, .. n-1]"},
      {"repeated", 2, 2, [](Facts a) -> Answer { return AttrValue(Dims(place(integer(a[1])), integer(a[0]))); }, "a number n times"},
      {"length", 1, 1, [](Facts a) -> Answer { return AttrValue(static_cast<int64_t>(dims(a[0]).size())); }, "of a list"},
      {"item", 2, 2, item, "one item of a list"},
      {"last", 1, 1, [](Facts a) -> Answer { return dims(a[0]).empty() ? Answer(fail("no items")) : Answer(AttrValue(dims(a[0]).back())); }, "item of a list"},
      {"uniform", 1, 1, uniform, "the number that all elements of a constant are"},
      {"widened", 3, 3, widened, "sizes, other sizes, axis: both together along the axis"},

      {"equal", 2, 2, [](Facts a) -> Answer { return AttrValue(attr(a[0]) == attr(a[1])); }, "equal attributes"},
      {"different", 2, 2, [](Facts a) -> Answer { return AttrValue(!(attr(a[0]) == attr(a[1]))); }, "attributes that are not equal"},
      {"either", 2, -1, [](Facts a) -> Answer { return AttrValue(std::any_of(a.begin(), a.end(), [](const Fact& f) { return *attr(f).as<bool>(); })); }, "one of several guards holds"},
      {"negative", 1, 1, is_negative, "below zero"},
      {"rank_within", 2, 2, [](Facts a) -> Answer { return AttrValue(shape(a[0]).size() <= shape(a[1]).size()); }, "no more dimensions than the second"},
      {"identity", 1, 1, is_identity, "a constant: an identity matrix, or the filter that changes nothing"},
      {"every", 2, 2, [](Facts a) { return every(dims(a[0]), [v = integer(a[1])](int64_t i) { return i == v; }); }, "all items are this number"},
      {"differ", 2, 2, [](Facts a) -> Answer { return AttrValue(std::ranges::any_of(dims(a[0]), [v = integer(a[1])](int64_t i) { return i != v; })); }, "some item is not this number"},
      {"at_least", 2, 2, [](Facts a) { return every(dims(a[0]), [v = integer(a[1])](int64_t i) { return i >= v; }); }, "no item is below this number"},
      {"last_axis", 2, 2, last_axis, "axes that are the operand's last alone"},
      {"is_f32", 1, 1, [](Facts a) -> Answer { return AttrValue(operand(a[0]).type->dtype == DType::f32); }, "of dtype f32"},
      {"byte", 1, 1, is_byte, "of dtype u8 or i8"},
      {"scales_along", 4, 4, scales_along, "scales, operand, axis, k: one, or one per position of dimension k, which is the axis"},
      {"constant", 1, -1, [](Facts a) { return every_operand(a, [](const Operand& x) { return x.constant != nullptr; }); }, "known before the program runs"},
      {"weights", 1, -1, [](Facts a) { return every_operand(a, [](const Operand& x) { return x.weight_only; }); }, "can be computed before the program runs"},
      {"positive", 1, 1, [](Facts a) -> Answer { return AttrValue(every_element(operand(a[0]), [](double v) { return v > 0; })); }, "a constant above zero everywhere"},
      {"single", 1, 1, [](Facts a) -> Answer { return AttrValue(count(shape(a[0])) == 1); }, "one element"},
      {"floating", 1, 1, [](Facts a) -> Answer { return AttrValue(is_float(operand(a[0]).type->dtype)); }, "of a floating-point dtype"},
      {"boolean", 1, 1, [](Facts a) -> Answer { return AttrValue(operand(a[0]).type->dtype == DType::boolean); }, "truth values"},
      {"same_shape", 1, -1, same_shape, "equal shapes: nothing broadcasts"},
      {"same_shapes", 2, 2, same_shapes, "equal shapes, item by item of two starred variables"},
      {"different_axes", 3, 3, different_axes, "two axes of an operand that are not the same"},
      {"adjacent", 5, 5, adjacent, "starts, sizes, steps; other starts; axis: the other slice begins where the first ends"},
      {"fits", 2, 2, fits, "the first broadcasts to the shape of the second"},
      {"has_rank", 2, 2, [](Facts a) -> Answer { return AttrValue(operand(a[0]).type->rank() == integer(a[1])); }, "this many dimensions"},
      {"keeps_order", 2, 2, keeps_order, "a permutation that moves dimensions of size one only"},
      {"per_channel", 2, 2, [](Facts a) -> Answer { return AttrValue(varies_only_along(shape(a[0]), shape(a[1]).size(), 1)); }, "varies along dimension 1 at most, at the rank of the second"},
      {"per_column", 2, 2, [](Facts a) -> Answer { return AttrValue(varies_only_along(shape(a[0]), shape(a[1]).size(), shape(a[1]).size() - 1)); }, "varies along the last dimension at most"},
  };
  // clang-format on
}

const std::vector<RuleFunction>& all_functions() {
  static const std::vector<RuleFunction> kTable = [] {
    std::vector<RuleFunction> all;
    for (auto part : {value_functions, shape_functions, window_functions, view_functions,
                      patch_functions, canvas_functions}) {
      for (RuleFunction& f : part()) all.push_back(std::move(f));
    }
    return all;
  }();
  return kTable;
}

const RuleFunction* find_function(std::string_view name) {
  for (const RuleFunction& f : all_functions()) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

uint64_t seen_by_rules(const Tensor& t) {
  constexpr int64_t kWhole = 1 << 16;  // read whole: nothing that is asked can be missed
  // Of masks every element is looked at.
  bool numbers =
      t.dtype() != DType::string && t.dtype() != DType::boolean && !is_complex(t.dtype());
  if (t.count() <= kWhole || !numbers) return hash(t);
  Type type = t.type();
  const Fact of_it[] = {Operand{&type, &t, true}};
  uint64_t seen = 0;
  for (const char* asked : {"positive", "uniform", "identity"}) {
    Answer answer = find_function(asked)->call(of_it);
    seen = hash_mix(seen, answer ? hash_text(to_text(*answer)) : 0);
  }
  const Scale scale = scale_of(t);
  for (double exponent : {scale.least, scale.most})
    seen = hash_mix(seen, std::bit_cast<uint64_t>(exponent));
  return hash_mix(seen, scale.zeros + 2 * scale.negatives);
}

}  // namespace emend
