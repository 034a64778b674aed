// Operators whose result's shape depends on data. They are islands evaluated on the host: their
// result type is `any`. Where everything they need follows from constants, reading them from ONNX
// gives the constant instead, so that shapes stay static.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/onnx_lower.h"
#include "ops/table.h"

namespace emend {
namespace {

using Lowered1 = Result<std::vector<NodeId>>;

// The operator on some of the node's inputs. Only constants are looked at: the values of data
// inputs must not become part of the program.
std::vector<NodeId> host_op(OnnxCall& c, std::string_view name, std::vector<NodeId> args,
                            Attrs attrs) {
  std::vector<Value> values;
  std::vector<Type> types;
  for (NodeId a : args) {
    auto v = follows_from(Known::constants, c.b.graph(), a) ? c.value_of(a) : std::nullopt;
    if (!v) return c.b.get_all(c.b.op(name, args, attrs));
    types.push_back(v->type());
    values.emplace_back(std::move(*v));
  }
  const OpDef& def = op_def(op_named(name));
  attrs = complete_attrs(def, attrs).value_or_throw();
  Type type = infer_type(def, attrs, types).value_or_throw();
  Value result = evaluate_node({Arithmetic::own, &def, attrs, types, type}, values);
  std::vector<NodeId> constants;
  if (result.is_tensor()) return {c.b.constant(result.tensor)};
  for (const Value& item : result.items) constants.push_back(c.b.constant(item.tensor));
  return constants;
}

Result<Type> unknown_type(const auto&, Types) {
  return Type::any();
}

// The elements of a tensor as slices along one axis: how to compare and collect them.
struct Slices {
  const Tensor& x;
  int64_t outer = 1, extent = 1, inner = 1;

  Slices(const Tensor& t, bool flat, int64_t axis) : x(t) {
    if (flat) {
      extent = t.count();
      return;
    }
    auto k = static_cast<size_t>(normal_axis(axis, t.rank()).value_or_throw());
    extent = t.shape()[k];
    outer = count(std::span(t.shape()).first(k));
    inner = count(std::span(t.shape()).subspan(k + 1));
  }
  // The position of element e of slice s.
  int64_t at(int64_t s, int64_t e) const { return (e / inner * extent + s) * inner + e % inner; }
  int64_t size() const { return outer * inner; }

  Tensor collect(const Dims& chosen, Dims shape) const {
    auto n = static_cast<int64_t>(chosen.size());
    auto each = [&](const auto& put) {
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t s = 0; s < n; ++s)
          for (int64_t i = 0; i < inner; ++i)
            put((o * n + s) * inner + i, at(chosen[static_cast<size_t>(s)], o * inner + i));
    };
    if (x.dtype() == DType::string) {
      std::vector<std::string> items(static_cast<size_t>(n * size()));
      each([&](int64_t to, int64_t from) {
        items[static_cast<size_t>(to)] = x.strings()[static_cast<size_t>(from)];
      });
      return Tensor::of_strings(std::move(shape), std::move(items));
    }
    int bits = info(x.dtype()).bits;
    auto width = static_cast<size_t>(bits / 8);
    DType code = bits == 4 ? DType::u4 : DType::u2;
    return Tensor::make(x.dtype(), std::move(shape), [&](std::byte* out) {
      each([&](int64_t to, int64_t from) {
        auto t = static_cast<size_t>(to), f = static_cast<size_t>(from);
        if (width == 0)
          store_int(code, out, t, load_int(code, x.data(), f));
        else
          std::memcpy(out + t * width, x.data() + f * width, width);
      });
    });
  }
};

// Whether a symbol is zero cannot be seen.
void check_visible(const EvalContext& c) {
  if (c.arithmetic == Arithmetic::symbol) throw Inexact(c.def->name + " of symbols");
}

// --- compress ---

struct AlongOrFlat {
  bool flat = true;  // no axis: of the flattened tensor
  int64_t axis = 0;
  EMEND_FIELDS(flat, axis)
};

Value compress_eval(const EvalContext& c, const AlongOrFlat& a, std::span<const Value> v) {
  check_visible(c);
  Slices slices(v[0].tensor, a.flat, a.axis);
  Dims chosen, shape = v[0].tensor.shape();
  int64_t n = std::min(v[1].tensor.count(), slices.extent);
  for (int64_t i = 0; i < n; ++i) {
    if (v[1].tensor.integer(i)) chosen.push_back(i);
  }
  auto kept = static_cast<int64_t>(chosen.size());
  if (a.flat)
    shape = {kept};
  else
    shape[static_cast<size_t>(normal_axis(a.axis, v[0].tensor.rank()).value_or_throw())] = kept;
  return slices.collect(chosen, shape);
}

Lowered1 compress_lower(OnnxCall& c) {
  AlongOrFlat a{!c.has_attr("axis"), c.int_attr("axis", 0)};
  NodeId x = c.inputs[0], condition = c.inputs.at(1);
  if (!follows_from(Known::constants, c.b.graph(), condition))
    return host_op(c, "compress", {x, condition}, to_attrs(a));
  // A constant condition is a gather.
  Dims chosen, flags = c.ints(1).value_or_throw();
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) chosen.push_back(static_cast<int64_t>(i));
  }
  if (a.flat) x = c.b.op("reshape", {x}, Attrs({{"shape", Dims{count(c.type(0).shape)}}}));
  return std::vector{c.b.op("gather", {x, c.b.ints(chosen)}, Attrs({{"axis", a.axis}}))};
}

// --- non_zero ---

Value non_zero_eval(const EvalContext& c, const NoAttrs&, std::span<const Value> v) {
  check_visible(c);
  const Tensor& x = v[0].tensor;
  Dims found, strides = row_major_strides(x.shape());
  bool text = x.dtype() == DType::string;
  for (int64_t i = 0; i < x.count(); ++i) {
    bool zero = text                  ? x.strings()[static_cast<size_t>(i)].empty()
                : is_float(x.dtype()) ? x.real(i) == 0
                                      : x.integer(i) == 0;
    if (!zero) found.push_back(i);
  }
  auto n = found.size();
  // A scalar has no coordinates.
  return Tensor::make(DType::i64, {x.rank(), static_cast<int64_t>(n)}, [&](std::byte* out) {
    for (size_t d = 0; d < strides.size(); ++d) {
      for (size_t i = 0; i < n; ++i)
        store_int(DType::i64, out, d * n + i, found[i] / strides[d] % x.shape()[d]);
    }
  });
}

// --- unique ---

struct Unique {
  bool flat = true;
  int64_t axis = 0;
  bool sorted = true;
  EMEND_FIELDS(flat, axis, sorted)
};

// Orders slices element by element: -1, 0 or 1. NaNs come last and equal each other.
int compare(const Slices& s, int64_t a, int64_t b) {
  const Tensor& x = s.x;
  for (int64_t e = 0; e < s.size(); ++e) {
    int64_t i = s.at(a, e), j = s.at(b, e);
    if (x.dtype() == DType::string) {
      int order = x.strings()[static_cast<size_t>(i)].compare(x.strings()[static_cast<size_t>(j)]);
      if (order) return order < 0 ? -1 : 1;
    } else if (is_float(x.dtype())) {
      double p = x.real(i), q = x.real(j);
      if (std::isnan(p) || std::isnan(q)) {
        if (std::isnan(p) != std::isnan(q)) return std::isnan(p) ? 1 : -1;
      } else if (p != q) {
        return p < q ? -1 : 1;
      }
    } else if (int64_t p = x.integer(i), q = x.integer(j); p != q) {
      bool less =
          x.dtype() == DType::u64 ? static_cast<uint64_t>(p) < static_cast<uint64_t>(q) : p < q;
      return less ? -1 : 1;
    }
  }
  return 0;
}

Value unique_eval(const EvalContext&, const Unique& a, std::span<const Value> v) {
  Slices s(v[0].tensor, a.flat, a.axis);
  Dims order(static_cast<size_t>(s.extent));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return compare(s, i, j) < 0; });
  // Runs of equal slices; each begins with its first occurrence because the sort is stable.
  std::vector<Dims> groups;
  for (int64_t i : order) {
    if (groups.empty() || compare(s, groups.back()[0], i) != 0) groups.emplace_back();
    groups.back().push_back(i);
  }
  if (!a.sorted) std::ranges::sort(groups, {}, [](const Dims& g) { return g[0]; });
  Dims first, counts, inverse(order.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    first.push_back(groups[g][0]);
    counts.push_back(static_cast<int64_t>(groups[g].size()));
    for (int64_t i : groups[g]) inverse[static_cast<size_t>(i)] = static_cast<int64_t>(g);
  }
  auto n = static_cast<int64_t>(first.size());
  Dims shape = a.flat ? Dims{n} : v[0].tensor.shape();
  if (!a.flat)
    shape[static_cast<size_t>(normal_axis(a.axis, v[0].tensor.rank()).value_or_throw())] = n;
  return Value::tuple({s.collect(first, shape), Tensor::of_ints(first), Tensor::of_ints(inverse),
                       Tensor::of_ints(counts)});
}

// --- non_max_suppression ---

struct NonMaxSuppression {
  int64_t max_output_boxes_per_class = 0;
  double iou_threshold = 0, score_threshold = -std::numeric_limits<double>::infinity();
  bool center_point_box = false;
  EMEND_FIELDS(max_output_boxes_per_class, iou_threshold, score_threshold, center_point_box)
};

struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};

Box box_at(const Tensor& boxes, int64_t at, bool center) {
  double v[4];
  for (int64_t i = 0; i < 4; ++i) v[i] = boxes.real(at + i);
  if (center) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

// Intersection over union.
double overlap(const Box& a, const Box& b) {
  double h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  double w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (h <= 0 || w <= 0) return 0;
  double both = h * w, either = a.area() + b.area() - both;
  return either > 0 ? both / either : 0;
}

// Boxes of one class, best score first, each kept unless it overlaps a better one too much.
Dims kept_boxes(const NonMaxSuppression& a, const std::vector<Box>& boxes,
                const std::vector<double>& scores) {
  Dims order, kept;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > a.score_threshold) order.push_back(static_cast<int64_t>(i));
  }
  auto score = [&](int64_t i) { return scores[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return score(i) > score(j); });
  for (int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= a.max_output_boxes_per_class) break;
    bool free = std::ranges::none_of(kept, [&](int64_t k) {
      return overlap(boxes[static_cast<size_t>(k)], boxes[static_cast<size_t>(i)]) >
             a.iou_threshold;
    });
    if (free) kept.push_back(i);
  }
  return kept;
}

Value non_max_suppression_eval(const EvalContext&, const NonMaxSuppression& a,
                               std::span<const Value> v) {
  const Tensor &boxes = v[0].tensor, &scores = v[1].tensor;
  const Dims &bs = boxes.shape(), &ss = scores.shape();
  if (bs.size() != 3 || ss.size() != 3 || bs[2] != 4 || bs[0] != ss[0] || bs[1] != ss[2]) {
    throw Error(str("boxes ", shape_text(bs), " and scores ", shape_text(ss),
                    " are not [batch, boxes, 4] and [batch, classes, boxes]"));
  }
  Dims rows;
  for (int64_t batch = 0; batch < ss[0]; ++batch) {
    std::vector<Box> of_batch;
    for (int64_t i = 0; i < bs[1]; ++i)
      of_batch.push_back(box_at(boxes, (batch * bs[1] + i) * 4, a.center_point_box));
    for (int64_t cls = 0; cls < ss[1]; ++cls) {
      std::vector<double> of_class;
      for (int64_t i = 0; i < ss[2]; ++i)
        of_class.push_back(scores.real((batch * ss[1] + cls) * ss[2] + i));
      for (int64_t box : kept_boxes(a, of_batch, of_class))
        rows.insert(rows.end(), {batch, cls, box});
    }
  }
  auto n = static_cast<int64_t>(rows.size()) / 3;
  return Tensor::of_ints(std::move(rows)).reshaped({n, 3});
}

Lowered1 non_max_suppression_lower(OnnxCall& c) {
  NonMaxSuppression a;
  a.center_point_box = c.int_attr("center_point_box", 0) != 0;
  for (size_t i = 2; i < 5; ++i) {
    if (!c.has(i)) continue;
    auto v = c.value(i);
    if (!v) return fail("the value of input ", i, " is not known before run time");
    bool number = v->count() == 1 && (is_integer(v->dtype()) || is_float(v->dtype()));
    if (!number) throw Error(str("NonMaxSuppression: input ", i, " is one number"));
    if (i == 2) a.max_output_boxes_per_class = v->integer(0);
    if (i == 3) a.iou_threshold = v->real(0);
    if (i == 4) a.score_threshold = v->real(0);
  }
  return host_op(c, "non_max_suppression", {c.inputs[0], c.inputs.at(1)}, to_attrs(a));
}

std::vector<NodeId> non_max_suppression_raise(OnnxWriter& w) {
  auto a = w.attrs.as<NonMaxSuppression>();
  auto number = [&](double v) { return w.b.constant(Tensor::of_reals(DType::f32, {1}, {{v}})); };
  std::vector<NodeId> in = w.args;
  in.push_back(w.ints({a.max_output_boxes_per_class}));
  in.push_back(number(a.iou_threshold));
  if (std::isfinite(a.score_threshold)) in.push_back(number(a.score_threshold));
  return w.emit("NonMaxSuppression", in, {{"center_point_box", int64_t{a.center_point_box}}});
}

// An axis is written only if there is one.
std::vector<Attrs::Entry> axis_attr(const OnnxWriter& w) {
  if (w.attrs.get<bool>("flat")) return {};
  return {{"axis", w.attrs.get<int64_t>("axis")}};
}

}  // namespace

std::vector<OpDef> data_dependent_ops() {
  return {
      define<AlongOrFlat>(
          {.name = "compress",
           .min_args = 2,
           .max_args = 2,
           .kind = Kind::host,
           .traits = raw_moves,
           .infer = unknown_type<AlongOrFlat>,
           .eval = compress_eval,
           .onnx = {{.type = "Compress",
                     .since = 9,
                     .lower = compress_lower,
                     .raise =
                         [](OnnxWriter& w) { return w.emit("Compress", w.args, axis_attr(w)); }}},
           .doc = "the slices along an axis (or elements) where the condition holds"}),
      define<NoAttrs>({.name = "non_zero",
                       .kind = Kind::host,
                       .traits = raw_moves,
                       .infer = unknown_type<NoAttrs>,
                       .eval = non_zero_eval,
                       .onnx = {{.type = "NonZero",
                                 .since = 9,
                                 .lower = [](OnnxCall& c) -> Lowered1 {
                                   return host_op(c, "non_zero", {c.inputs[0]}, {});
                                 },
                                 .raise = [](OnnxWriter& w) { return w.emit("NonZero", w.args); }}},
                       .doc = "the coordinates of elements that are not zero, one column each"}),
      define<Unique>(
          {.name = "unique",
           .kind = Kind::host,
           .infer = [](const Unique&, Types) -> Result<Type> {
             return Type::tuple(std::vector<Type>(4, Type::any()));
           },
           .eval = unique_eval,
           .onnx = {{.type = "Unique",
                     .since = 11,
                     .lower = [](OnnxCall& c) -> Lowered1 {
                       Unique a{!c.has_attr("axis"), c.int_attr("axis", 0),
                                c.int_attr("sorted", 1) != 0};
                       return host_op(c, "unique", {c.inputs[0]}, to_attrs(a));
                     },
                     .raise =
                         [](OnnxWriter& w) {
                           auto attributes = axis_attr(w);
                           attributes.emplace_back("sorted", int64_t{w.attrs.as<Unique>().sorted});
                           return w.emit("Unique", w.args, attributes, 4);
                         }}},
           .doc = "a tuple: distinct elements (or slices), where each first stands, which one each "
                  "element is, and how often each occurs"}),
      define<NonMaxSuppression>(
          {.name = "non_max_suppression",
           .min_args = 2,
           .max_args = 2,
           .kind = Kind::host,
           .infer = unknown_type<NonMaxSuppression>,
           .eval = non_max_suppression_eval,
           .onnx = {{.type = "NonMaxSuppression",
                     .since = 10,
                     .lower = non_max_suppression_lower,
                     .raise = non_max_suppression_raise}},
           .doc = "rows (batch, class, box) of boxes that no better box of their class overlaps"}),
  };
}

}  // namespace emend
