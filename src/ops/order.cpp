// Operators that look at the order of elements along an axis: sorting, the k best, the place of the
// best, and running sums and products. Of equal elements the one with the lower index comes first.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/index.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

using Lowered1 = Result<std::vector<NodeId>>;

size_t axis_of(int64_t axis, int64_t rank) {
  return static_cast<size_t>(normal_axis(axis, rank).value_or_throw());
}

// --- sort_indices and top_k ---

Result<Type> sort_infer(const TopK& a, Types in) {
  auto axis = normal_axis(a.axis, in[0].rank());
  if (!axis) return fail("top_k: ", axis.error());
  if (in[0].dtype == DType::string || is_complex(in[0].dtype))
    return fail("top_k: ", to_text(in[0].dtype), " has no order");
  Dims shape = in[0].shape;
  auto k = static_cast<size_t>(*axis);
  if (a.k < 0 || a.k > shape[k])
    return fail("top_k: there are no ", a.k, " elements along axis ", k, " of ", shape_text(shape));
  shape[k] = a.k;
  return Type::tensor(DType::i64, shape);
}

// NaN counts as larger than every number.
template <class T>
bool comes_first(T a, T b, bool largest) {
  if (a != a || b != b) return largest ? a != a && b == b : b != b && a == a;
  return largest ? b < a : a < b;
}

template <class T>
Tensor sorted_indices(const Tensor& x, const TopK& a, const Dims& shape) {
  size_t axis = axis_of(a.axis, x.rank());
  Dims strides = row_major_strides(x.shape()), out_strides = row_major_strides(shape);
  int64_t extent = x.shape()[axis];
  int64_t rows = extent ? x.count() / extent : 0;
  return Tensor::make(DType::i64, shape, [&](std::byte* out) {
    std::vector<T> keys(static_cast<size_t>(extent));
    std::vector<size_t> order(keys.size());
    for (int64_t r = 0; r < rows; ++r) {
      int64_t inner = r % strides[axis], outer = r / strides[axis];
      int64_t from = outer * strides[axis] * extent + inner;
      int64_t to = outer * out_strides[axis] * a.k + inner;
      for (size_t i = 0; i < keys.size(); ++i) {
        int64_t at = from + static_cast<int64_t>(i) * strides[axis];
        keys[i] =
            std::is_same_v<T, double> ? static_cast<T>(x.real(at)) : static_cast<T>(x.integer(at));
      }
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
        return comes_first(keys[i], keys[j], a.largest);
      });
      for (int64_t i = 0; i < a.k; ++i) {
        auto index = static_cast<int64_t>(order[static_cast<size_t>(i)]);
        store_int(DType::i64, out, static_cast<size_t>(to + i * out_strides[axis]), index);
      }
    }
  });
}

Value sort_eval(const EvalContext& c, const TopK& a, std::span<const Value> v) {
  const Tensor& x = v[0].tensor;
  bool ordered = c.arithmetic != Arithmetic::field && c.arithmetic != Arithmetic::symbol;
  if (is_float(c.types[0].dtype) && !ordered) throw Inexact("residues have no order");
  if (x.dtype() == DType::u64) return sorted_indices<uint64_t>(x, a, c.type.shape);
  if (is_float(x.dtype())) return sorted_indices<double>(x, a, c.type.shape);
  return sorted_indices<int64_t>(x, a, c.type.shape);
}

NodeId top_k_expand(GraphBuilder& b, const TopK& a, Args args) {
  NodeId at = b.op("sort_indices", {args[0]}, a);
  return b.op("tuple", {b.op("gather_elements", {args[0], at}, Axis{a.axis}), at});
}

Lowered1 top_k_lower(OnnxCall& c) {
  Dims k = {c.int_attr("k", -1)};
  if (c.version() >= 10) {
    auto given = c.ints(1);
    if (!given) return Failure{given.error()};
    k = *given;
  }
  if (k.size() != 1 || k[0] < 0) throw Error(str("TopK: k is ", shape_text(k)));
  TopK a{k[0], c.int_attr("axis", -1), c.int_attr("largest", 1) != 0};
  return c.b.get_all(c.b.op("top_k", {c.inputs[0]}, a));
}

std::vector<NodeId> top_k_raise(OnnxWriter& w) {
  auto a = w.attrs.as<TopK>();
  if (w.opset >= 11) {
    return w.emit("TopK", {w.args[0], w.ints({a.k})},
                  {{"axis", a.axis}, {"largest", int64_t{a.largest}}}, 2);
  }
  // Before opset 11 there is only the largest: the smallest are those of the negated operand.
  NodeId x = a.largest ? w.args[0] : w.emit("Neg", w.args)[0];
  auto out = w.opset >= 10 ? w.emit("TopK", {x, w.ints({a.k})}, {{"axis", a.axis}}, 2)
                           : w.emit("TopK", {x}, {{"axis", a.axis}, {"k", a.k}}, 2);
  if (!a.largest) out[0] = w.emit("Neg", {out[0]})[0];
  return out;
}

// --- arg_max and arg_min ---

// The first (or last) position whose element equals the best one. A NaN is the best there is.
NodeId arg_expand(GraphBuilder& b, const ArgReduce& a, Args args, const char* best) {
  Dims shape = b.shape(args[0]);
  size_t axis = axis_of(a.axis, static_cast<int64_t>(shape.size()));
  if (shape[axis] == 0) throw Error(str("axis ", axis, " of ", shape_text(shape), " is empty"));
  Dims axes = {static_cast<int64_t>(axis)};
  NodeId top = b.op(best, {args[0]}, Attrs({{"axes", axes}, {"keepdims", true}}));
  NodeId hit = b.op("equal", {args[0], top});
  if (is_float(b.dtype(args[0]))) hit = b.op("logical_or", {hit, b.op("is_nan", {args[0]})});
  NodeId place = iota_along(b, shape[axis], axis, shape.size());
  NodeId none = b.constant(Tensor::of_int(a.select_last_index ? -1 : shape[axis]));
  return b.op(a.select_last_index ? "reduce_max" : "reduce_min",
              {b.op("where", {hit, place, none})},
              Attrs({{"axes", axes}, {"keepdims", a.keepdims}}));
}

OpDef arg_op(const std::string& name, const char* best, const std::string& onnx,
             const std::string& doc) {
  return define<ArgReduce>(
      {.name = name,
       .expand = [best](GraphBuilder& b, const ArgReduce& a,
                        Args args) { return arg_expand(b, a, args, best); },
       .onnx = {{.type = onnx,
                 .raise =
                     [onnx](OnnxWriter& w) {
                       auto a = w.attrs.as<ArgReduce>();
                       std::vector<Attrs::Entry> attributes = {{"axis", a.axis},
                                                               {"keepdims", int64_t{a.keepdims}}};
                       if (a.select_last_index) {
                         if (w.opset < 12) throw Error(onnx + " has select_last_index since 12");
                         attributes.emplace_back("select_last_index", 1);
                       }
                       return w.emit(onnx, w.args, attributes);
                     }}},
       .doc = doc});
}

// --- cum_sum and cum_prod ---

struct Cumulative {
  int64_t axis = 0;
  bool exclusive = false, reverse = false;
  EMEND_FIELDS(axis, exclusive, reverse)
};

Result<Type> cumulative_infer(const Cumulative& a, Types in) {
  auto axis = normal_axis(a.axis, in[0].rank());
  if (!axis) return Failure{axis.error()};
  return in[0];
}

// out[i] = sum over r of x[i - r], nothing beyond the border: a convolution with ones.
Meaning cumulative_means(const Cumulative& a, Types in, Reduce how) {
  size_t axis = axis_of(a.axis, in[0].rank());
  Meaning m;
  m.out = in[0].shape;
  m.reduced = {in[0].shape[axis]};
  m.reduce = how;
  Read r{.operand = 0, .outside = how == Reduce::sum ? 0.0 : 1.0};
  int64_t back = a.reverse ? 1 : -1;
  for (size_t d = 0; d < m.out.size(); ++d) {
    IndexExpr at = index_of(static_cast<int>(d));
    if (d == axis) at = at + index_of(static_cast<int>(m.out.size()), back, a.exclusive ? back : 0);
    r.index.push_back(at);
  }
  m.reads = {r};
  return m;
}

OpDef cumulative(const std::string& name, Reduce how, const std::string& onnx, int since,
                 uint32_t traits) {
  return define<Cumulative>(
      {.name = name,
       .kind = Kind::reduction,
       .traits = traits,
       .infer = cumulative_infer,
       .means = [how](const Cumulative& a, Types in) { return cumulative_means(a, in, how); },
       .onnx = {{.type = onnx, .since = since, .operands = {{.attr = "axis", .input = 1}}}},
       .doc = str("running ", to_text(how),
                  " along an axis: of everything up to a position, "
                  "without it if exclusive, from the end if reverse")});
}

}  // namespace

std::vector<OpDef> order_ops() {
  return {
      // Reading TopK finds the first record that names it.
      define<TopK>({.name = "top_k",
                    .expand = top_k_expand,
                    .onnx = {{.type = "TopK", .lower = top_k_lower, .raise = top_k_raise}},
                    .doc = "the k largest (or smallest) elements along an axis, and where they "
                           "stand"}),
      define<TopK>(
          {.name = "sort_indices",
           .kind = Kind::index,
           .traits = raw_moves,
           .infer = sort_infer,
           .eval = sort_eval,
           .onnx = {{.type = "TopK",
                     .raise = [](OnnxWriter& w) { return std::vector{top_k_raise(w)[1]}; }}},
           .doc = "where the k largest (or smallest) elements along an axis stand, best "
                  "first"}),
      arg_op("arg_max", "reduce_max", "ArgMax", "where the largest element along an axis stands"),
      arg_op("arg_min", "reduce_min", "ArgMin", "where the smallest element along an axis stands"),
      cumulative("cum_sum", Reduce::sum, "CumSum", 11, multilinear),
      cumulative("cum_prod", Reduce::product, "CumProd", 26, 0),
  };
}

}  // namespace emend
