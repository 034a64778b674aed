// Reductions over windows: pooling and what is made of it. Windows are explicit: auto_pad becomes
// pads at import, and ceil_mode longer ends, except where an average must not count them.
#include "ops/window.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "ops/compose.h"
#include "ops/contraction.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

size_t spatial_rank(const Dims& shape) {
  return shape.size() < 2 ? 0 : shape.size() - 2;
}

int64_t reach(const Pool& a, size_t d) {
  return a.dilations[d] * (a.kernel[d] - 1) + 1;
}

Result<Type> pool_infer(const Pool& a, Types in) {
  const Dims& x = in[0].shape;
  size_t n = a.kernel.size();
  if (x.size() != n + 2 || a.strides.size() != n || a.dilations.size() != n ||
      a.pads.size() != 2 * n) {
    return fail("a window of ", n, " dimensions does not fit the input ", shape_text(x));
  }
  if (auto fault = window_fault(a.kernel, a.strides, a.dilations, a.pads)) return fail(*fault);
  Dims out = {x[0], x[1]};
  for (size_t d = 0; d < n; ++d) {
    int64_t room = x[d + 2] + a.pads[d] + a.pads[d + n] - reach(a, d);
    if (room < 0) return fail("window ", shape_text(a.kernel), " does not fit ", shape_text(x));
    out.push_back(room / a.strides[d] + 1);
  }
  return Type::tensor(in[0].dtype, std::move(out));
}

// out[n, c, o..] = reduce over r.. of x[n, c, o*s + r*d - p ..] or `outside`
Meaning window_means(const Pool& a, Types in, Reduce how, double outside) {
  Meaning m;
  m.out = pool_infer(a, in).value_or_throw().shape;
  m.reduced = a.kernel;
  m.reduce = how;
  Read r{.operand = 0, .index = {index_of(0), index_of(1)}, .outside = outside};
  auto first = static_cast<int>(m.out.size());
  for (int d = 0; d < first - 2; ++d) {
    auto k = static_cast<size_t>(d);
    r.index.push_back(index_of(d + 2, a.strides[k], -a.pads[k]) +
                      index_of(first + d, a.dilations[k]));
  }
  m.reads = {r};
  return m;
}

// Constants that follow from sizes are refused beyond this many elements.
constexpr int64_t kMaxGenerated = int64_t{1} << 24;

double below_all(DType t) {
  return is_float(t) ? -std::numeric_limits<double>::infinity() : lowest(t);
}

// Positions are computed beside elements, maybe in single precision, which counts this far.
constexpr int64_t kMaxPlane = int64_t{1} << 24;

Result<Type> argmax_infer(const Pool& a, Types in) {
  auto pooled = pool_infer(a, in);
  if (!pooled) return pooled;
  if (*pooled != in[1]) return fail("the maxima are ", to_text(in[1]), ", not ", to_text(*pooled));
  if (count(std::span(in[0].shape).subspan(2)) > kMaxPlane)
    return fail("planes of ", shape_text(in[0].shape), " are too large to number their elements");
  return Type::tensor(DType::i64, pooled->shape);
}

// The first position (row-major in the plane) at which a window takes its maximum:
// out[n, c, o..] = min over r.. of position(o, r) where x there is the maximum
Meaning argmax_means(const Pool& a, Types in) {
  Meaning m = window_means(a, in, Reduce::min, 0);
  auto rank = static_cast<int>(m.out.size());
  Read maxima{.operand = 1};
  for (int d = 0; d < rank; ++d) maxima.index.push_back(index_of(d));
  m.reads.push_back(maxima);
  auto is_nan = [](int k) { return call(Fn::is_nan, arg(k)); };
  Scalar here = call(Fn::logical_or, call(Fn::eq, arg(0), arg(1)),
                     call(Fn::logical_and, is_nan(0), is_nan(1)));
  Scalar position = 0;
  auto number = [](int64_t v) { return Scalar(static_cast<double>(v)); };
  for (int d = 2; d < rank; ++d) {
    auto k = static_cast<size_t>(d - 2);
    int64_t extent = in[0].shape[k + 2];
    Scalar at = iter(d) * number(a.strides[k]) + iter(rank + d - 2) * number(a.dilations[k]) -
                number(a.pads[k]);
    here = call(Fn::logical_and, here, call(Fn::logical_and, 0 <= at, at < number(extent)));
    position = position * number(extent) + at;
  }
  m.body = simplified(select(here, position, number(kMaxPlane)));
  return m;
}

// A window sum is a convolution by ones, channel by channel; ONNX has no other word for it.
NodeId sum_pool_expand(GraphBuilder& b, const Pool& a, Args args) {
  int64_t channels = b.shape(args[0]).at(1);
  Dims shape = {channels, 1};
  shape.insert(shape.end(), a.kernel.begin(), a.kernel.end());
  DType dtype = b.dtype(args[0]);
  NodeId weights = b.constant(Tensor::make(dtype, shape, [&](std::byte* data) {
    for (int64_t i = 0; i < count(shape); ++i) store_real(dtype, data, static_cast<size_t>(i), 1);
  }));
  return b.op("conv", {args[0], weights}, Conv{a.strides, a.dilations, a.pads, channels});
}

struct PoolIndices {
  Dims kernel, strides, dilations, pads;
  int64_t storage_order = 0;  // 1: positions count down the columns
  EMEND_FIELDS(kernel, strides, dilations, pads, storage_order)
  Pool pool() const { return {kernel, strides, dilations, pads}; }
};

// Positions in a row-major plane as positions in the same plane laid out with the first dimension
// running fastest.
NodeId column_major(GraphBuilder& b, NodeId position, std::span<const int64_t> plane) {
  NodeId result, rest = position;
  int64_t step = count(plane);
  for (size_t d = plane.size(); d-- > 0;) {
    NodeId extent = b.ints({plane[d]});
    step /= plane[d];
    NodeId part = b.op("mul", {b.op("mod", {rest, extent}), b.ints({step})});
    result = result.valid() ? b.op("add", {result, part}) : part;
    rest = b.op("div", {rest, extent});
  }
  return result;
}

NodeId max_pool_indices_expand(GraphBuilder& b, const PoolIndices& a, Args args) {
  NodeId maxima = b.op("max_pool", {args[0]}, a.pool());
  NodeId position = b.op("window_argmax", {args[0], maxima}, a.pool());
  Dims x = b.shape(args[0]);
  auto plane = std::span(x).subspan(2);
  if (!checked_count(Dims{x[0], x[1]}) || x[0] * x[1] > kMaxGenerated || count(plane) == 0)
    throw Error(str("too many planes in ", shape_text(x), ", or empty ones"));
  if (a.storage_order) position = column_major(b, position, plane);
  // ONNX numbers the elements of the whole input: planes follow one another.
  Dims first;
  for (int64_t i = 0; i < x[0] * x[1]; ++i) first.push_back(i * count(plane));
  Dims shape(x.size(), 1);
  shape[0] = x[0];
  shape[1] = x[1];
  NodeId planes = b.constant(Tensor::of_ints(first).reshaped(shape));
  return b.op("tuple", {maxima, b.op("add", {position, planes})});
}

// --- averages ---

// The pads with the ends lengthened so that rounding the output size down gives ceil_mode's size:
// the last window begins within the input or its begin pads.
Dims ceil_pads(const Pool& a, const Dims& x) {
  size_t n = a.kernel.size();
  Dims pads = a.pads;
  for (size_t d = 0; d < n; ++d) {
    int64_t room = x[d + 2] + a.pads[d] + a.pads[d + n] - reach(a, d);
    if (room < 0) continue;
    int64_t outputs = (room + a.strides[d] - 1) / a.strides[d] + 1;
    if ((outputs - 1) * a.strides[d] >= x[d + 2] + a.pads[d]) --outputs;
    pads[d + n] += std::max<int64_t>(0, (outputs - 1) * a.strides[d] - room);
  }
  return pads;
}

// How many elements of the windows at positions o = 0, 1, .. of a dimension count.
std::vector<double> window_counts(const AveragePool& a, size_t d, int64_t extent, int64_t outputs) {
  int64_t low = a.count_include_pad ? -a.pads[d] : 0;
  int64_t high = extent + (a.count_include_pad ? a.pads[d + a.kernel.size()] : 0);
  std::vector<double> counts;
  // Steps of the dilation that stay below a border.
  auto below = [&](int64_t border) {
    int64_t steps = (std::max<int64_t>(border, 0) + a.dilations[d] - 1) / a.dilations[d];
    return std::min(steps, a.kernel[d]);
  };
  for (int64_t o = 0; o < outputs; ++o) {
    int64_t first = o * a.strides[d] - a.pads[d];
    counts.push_back(static_cast<double>(below(high - first) - below(low - first)));
  }
  return counts;
}

NodeId avg_pool_expand(GraphBuilder& b, const AveragePool& a, Args args) {
  Pool windows{a.kernel, a.strides, a.dilations, a.pads};
  const Dims x = b.shape(args[0]);
  if (a.ceil_mode) windows.pads = ceil_pads(windows, x);
  NodeId sum = b.op("sum_pool", {args[0]}, windows);
  Dims divisor_shape = b.shape(sum);
  divisor_shape[0] = divisor_shape[1] = 1;
  if (auto n = checked_count(divisor_shape); !n || *n > kMaxGenerated)
    throw Error(str("a plane of ", shape_text(divisor_shape), " averages"));
  // How many elements count is a product over the dimensions.
  std::vector<std::vector<double>> counts;
  bool equal = true;
  for (size_t d = 0; d < a.kernel.size(); ++d) {
    counts.push_back(window_counts(a, d, x[d + 2], divisor_shape[d + 2]));
    equal =
        equal && std::ranges::adjacent_find(counts[d], std::not_equal_to<>()) == counts[d].end();
  }
  auto count_at = [&](int64_t position) {
    double product = 1;
    for (size_t d = counts.size(); d-- > 0; position /= divisor_shape[d + 2])
      product *= counts[d][static_cast<size_t>(position % divisor_shape[d + 2])];
    return product;
  };
  DType dtype = b.dtype(sum);
  int64_t positions = count(divisor_shape);
  NodeId divisor = equal && positions > 0
                       ? b.scalar(count_at(0), dtype)
                       : b.constant(Tensor::make(dtype, divisor_shape, [&](std::byte* data) {
                           for (int64_t i = 0; i < positions; ++i)
                             store_real(dtype, data, static_cast<size_t>(i), count_at(i));
                         }));
  return b.op("div", {sum, divisor});
}

struct LpPool {
  Dims kernel, strides, dilations, pads;
  int64_t p = 2;
  EMEND_FIELDS(kernel, strides, dilations, pads, p)
};

// |x|^p
NodeId magnitude(GraphBuilder& b, NodeId x, int64_t p) {
  if (p == 1) return b.op("abs", {x});
  if (p == 2) return b.op("mul", {x, x});
  return b.op("pow", {b.op("abs", {x}), b.scalar(static_cast<double>(p), b.dtype(x))});
}

NodeId root(GraphBuilder& b, NodeId x, int64_t p) {
  if (p == 1) return x;
  if (p == 2) return b.op("sqrt", {x});
  return b.op("pow", {x, b.scalar(1 / static_cast<double>(p), b.dtype(x))});
}

NodeId lp_pool_expand(GraphBuilder& b, const LpPool& a, Args args) {
  const DType own = b.dtype(args[0]);
  NodeId x = cast(Formula(b, args[0]), roomy(own));
  NodeId sum =
      b.op("sum_pool", {magnitude(b, x, a.p)}, Pool{a.kernel, a.strides, a.dilations, a.pads});
  return cast(Formula(b, root(b, sum, a.p)), own);
}

struct Lrn {
  double alpha = 0.0001, beta = 0.75, bias = 1;
  int64_t size = 1;
  EMEND_FIELDS(alpha, beta, bias, size)
};

// x / (bias + alpha / size * sum of squares over neighbouring channels) ^ beta
NodeId lrn_expand(GraphBuilder& b, const Lrn& a, Args args) {
  const DType own = b.dtype(args[0]);
  const Dims shape = b.shape(args[0]);
  if (shape.size() < 2) throw Error(str("needs channels, got ", shape_text(shape)));
  if (a.size < 1) throw Error(str("a neighbourhood of ", a.size, " channels"));
  const DType t = roomy(own);
  NodeId x = cast(Formula(b, args[0]), t);
  // Channels become the one spatial dimension of a window.
  int64_t inner = count(std::span(shape).subspan(2));
  NodeId squares = b.op("reshape", {b.op("mul", {x, x})}, Reshape{{shape[0], 1, shape[1], inner}});
  Pool neighbours{.kernel = {a.size, 1}, .strides = {1, 1}, .dilations = {1, 1}};
  neighbours.pads = {(a.size - 1) / 2, 0, a.size / 2, 0};
  NodeId sum = b.op("reshape", {b.op("sum_pool", {squares}, neighbours)}, Reshape{shape});
  NodeId scaled = b.op("mul", {sum, b.scalar(a.alpha / static_cast<double>(a.size), t)});
  NodeId base = b.op("add", {scaled, b.scalar(a.bias, t)});
  return cast(Formula(b, b.op("div", {x, b.op("pow", {base, b.scalar(a.beta, t)})})), own);
}

// --- ONNX ---

// The window an ONNX pooling node describes, with explicit pads.
Pool pool_of(const OnnxCall& c, bool extend_for_ceil) {
  const Dims& x = c.type(0).shape;
  size_t n = spatial_rank(x);
  Pool a;
  a.kernel = c.ints_attr("kernel_shape");
  a.strides = c.ints_attr("strides", Dims(n, 1));
  a.dilations = c.ints_attr("dilations", Dims(n, 1));
  a.pads = c.ints_attr("pads", Dims(2 * n, 0));
  if (a.kernel.size() != n || a.strides.size() != n || a.dilations.size() != n ||
      a.pads.size() != 2 * n) {
    throw Error(str(c.node.type,
                    ": kernel_shape, strides, dilations and pads need one entry (pads ",
                    "two) per spatial dimension of ", shape_text(x)));
  }
  if (auto fault = window_fault(a.kernel, a.strides, a.dilations, a.pads))
    throw Error(str(c.node.type, ": ", *fault));
  if (auto p = auto_pads(c.text_attr("auto_pad", "NOTSET"), x, a.kernel, a.strides, a.dilations))
    a.pads = *p;
  else if (extend_for_ceil && c.int_attr("ceil_mode", 0))
    a.pads = ceil_pads(a, x);
  return a;
}

Result<std::vector<NodeId>> max_pool_lower(OnnxCall& c) {
  Pool a = pool_of(c, true);
  if (c.node.outputs < 2) return std::vector{c.b.op("max_pool", {c.inputs[0]}, a)};
  PoolIndices with{a.kernel, a.strides, a.dilations, a.pads, c.int_attr("storage_order", 0)};
  return c.b.get_all(c.b.op("max_pool_with_indices", {c.inputs[0]}, with));
}

Result<std::vector<NodeId>> avg_pool_lower(OnnxCall& c) {
  bool include = c.int_attr("count_include_pad", 0) != 0;
  bool notset = c.text_attr("auto_pad", "NOTSET") == "NOTSET";
  Pool a = pool_of(c, !include);
  bool ceil =
      include && notset && c.int_attr("ceil_mode", 0) && ceil_pads(a, c.type(0).shape) != a.pads;
  return std::vector{c.b.op("avg_pool", {c.inputs[0]},
                            AveragePool{a.kernel, a.strides, a.dilations, a.pads, include, ceil})};
}

Result<std::vector<NodeId>> lp_pool_lower(OnnxCall& c) {
  Pool a = pool_of(c, true);
  return std::vector{c.b.op("lp_pool", {c.inputs[0]},
                            LpPool{a.kernel, a.strides, a.dilations, a.pads, c.int_attr("p", 2)})};
}

Attrs all_spatial_axes(const OnnxCall& c) {
  Dims axes;
  for (int64_t d = 2; d < c.type(0).rank(); ++d) axes.push_back(d);
  if (axes.empty()) throw Error(str(c.node.type, " needs spatial dimensions"));
  return Attrs({{"axes", axes}});
}

OnnxRow global_row(const std::string& type, const std::string& reduction) {
  return {.type = type,
          .lower = [reduction](OnnxCall& c) -> Result<std::vector<NodeId>> {
            return std::vector{c.b.op(reduction, {c.inputs[0]}, all_spatial_axes(c))};
          },
          .lower_only = true};
}

Result<std::vector<NodeId>> global_lp_pool_lower(OnnxCall& c) {
  int64_t p = c.int_attr("p", 2);
  // Rounded once, so that squares beyond a narrow type's range do no harm.
  if (p == 1 || p == 2)
    return std::vector{
        c.b.op(p == 1 ? "reduce_l1" : "reduce_l2", {c.inputs[0]}, all_spatial_axes(c))};
  NodeId sum = c.b.op("reduce_sum", {magnitude(c.b, c.inputs[0], p)}, all_spatial_axes(c));
  return std::vector{root(c.b, sum, p)};
}

bool all_ones(const Dims& d) {
  return std::ranges::all_of(d, [](int64_t v) { return v == 1; });
}

std::vector<Attrs::Entry> pool_attributes(const Pool& a, int64_t opset, int dilations_since) {
  std::vector<Attrs::Entry> e = {
      {"kernel_shape", a.kernel}, {"strides", a.strides}, {"pads", a.pads}};
  if (opset >= dilations_since) e.emplace_back("dilations", a.dilations);
  return e;
}

std::vector<NodeId> max_pool_raise(OnnxWriter& w, const Pool& a, int64_t order, int outputs) {
  if (w.opset < 10 && !all_ones(a.dilations)) return {};
  auto attributes = pool_attributes(a, w.opset, 10);
  if (order) attributes.emplace_back("storage_order", order);
  return w.emit("MaxPool", w.args, attributes, outputs);
}

std::vector<NodeId> avg_pool_raise(OnnxWriter& w) {
  auto a = w.attrs.as<AveragePool>();
  size_t n = a.kernel.size();
  bool small_pads = true;  // onnxruntime refuses pads of a window's size
  for (size_t d = 0; d < 2 * n; ++d) small_pads &= a.pads[d] < a.kernel[d % n];
  if ((w.opset < 19 && !all_ones(a.dilations)) || (w.opset < 10 && a.ceil_mode) || !small_pads)
    return {};
  Pool pool{a.kernel, a.strides, a.dilations, a.pads};
  auto attributes = pool_attributes(pool, w.opset, 19);
  if (a.count_include_pad) attributes.emplace_back("count_include_pad", 1);
  if (a.ceil_mode) attributes.emplace_back("ceil_mode", 1);
  return w.emit("AveragePool", w.args, attributes);
}

std::vector<NodeId> lp_pool_raise(OnnxWriter& w) {
  auto a = w.attrs.as<LpPool>();
  if (w.opset < 18 && !all_ones(a.dilations)) return {};
  auto attributes = pool_attributes({a.kernel, a.strides, a.dilations, a.pads}, w.opset, 18);
  attributes.emplace_back("p", a.p);
  return w.emit("LpPool", w.args, attributes);
}

}  // namespace

std::vector<OpDef> window_ops() {
  return {
      define<Pool>(
          {.name = "max_pool",
           .kind = Kind::reduction,
           .infer = pool_infer,
           .means =
               [](const Pool& a, Types in) {
                 return window_means(a, in, Reduce::max, below_all(in[0].dtype));
               },
           .onnx = {{.type = "MaxPool",
                     .lower = max_pool_lower,
                     .raise =
                         [](OnnxWriter& w) { return max_pool_raise(w, w.attrs.as<Pool>(), 0, 1); }},
                    global_row("GlobalMaxPool", "reduce_max")},
           .doc = "largest element of each window; pads never win"}),
      define<Pool>({.name = "window_argmax",
                    .min_args = 2,
                    .max_args = 2,
                    .kind = Kind::reduction,
                    .infer = argmax_infer,
                    .means = argmax_means,
                    .onnx = {{.type = "MaxPool",
                              .since = 8,
                              .raise =
                                  [](OnnxWriter& w) {
                                    // The indices of the whole input, modulo the plane.
                                    w.args.pop_back();
                                    auto both = max_pool_raise(w, w.attrs.as<Pool>(), 0, 2);
                                    if (both.empty()) return both;
                                    auto plane = std::span(w.types[0].shape).subspan(2);
                                    return w.emit("Mod", {both[1], w.ints({count(plane)})});
                                  }}},
                    .doc = "where in its plane (row-major) each window first takes its maximum, "
                           "given the maxima"}),
      define<PoolIndices>({.name = "max_pool_with_indices",
                           .expand = max_pool_indices_expand,
                           .onnx = {{.type = "MaxPool",
                                     .since = 8,
                                     .raise =
                                         [](OnnxWriter& w) {
                                           auto a = w.attrs.as<PoolIndices>();
                                           return max_pool_raise(w, a.pool(), a.storage_order, 2);
                                         }}},
                           .doc = "max_pool and where in the whole input the maxima stand"}),
      define<Pool>(
          {.name = "sum_pool",
           .kind = Kind::reduction,
           .traits = multilinear,
           .infer = pool_infer,
           .means = [](const Pool& a, Types in) { return window_means(a, in, Reduce::sum, 0); },
           .expand = sum_pool_expand,
           .doc = "sum of each window; pads count as zero"}),
      define<AveragePool>(
          {.name = "avg_pool",
           .expand = avg_pool_expand,
           .onnx = {{.type = "AveragePool", .lower = avg_pool_lower, .raise = avg_pool_raise},
                    global_row("GlobalAveragePool", "reduce_mean")},
           .doc = "mean of each window, with or without its pads"}),
      define<LpPool>(
          {.name = "lp_pool",
           .expand = lp_pool_expand,
           .onnx = {{.type = "LpPool", .lower = lp_pool_lower, .raise = lp_pool_raise},
                    {.type = "GlobalLpPool", .lower = global_lp_pool_lower, .lower_only = true}},
           .doc = "p-norm of each window"}),
      define<Lrn>({.name = "lrn",
                   .expand = lrn_expand,
                   .onnx = {{"LRN"}},
                   .doc = "x / (bias + alpha / size * squares of neighbouring channels) ^ beta"}),
  };
}

}  // namespace emend
