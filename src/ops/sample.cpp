// Interpolation at places that are data: sampling grids, deformable convolution, regions of
// interest. What lies outside an image reads as zero there, so that borders need no special case.
#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/compose.h"
#include "ops/contraction.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

// --- elements at given points ---

Result<Type> points_infer(const NoAttrs&, Types in) {
  const Dims &x = in[0].shape, &at = in[1].shape;
  if (x.size() < 3 || at.size() != 3 || at[0] != x[0] ||
      at[2] != static_cast<int64_t>(x.size()) - 2 || !is_integer(in[1].dtype)) {
    return fail("gather_points: ", to_text(in[1]), " are no points in ", to_text(in[0]));
  }
  return Type::tensor(in[0].dtype, {x[0], x[1], at[1]});
}

// out[n, c, p] = x[n, c, at[n, p, 0], at[n, p, 1], ..] or 0
Meaning points_means(const NoAttrs&, Types in) {
  Meaning m;
  m.out = points_infer({}, in).value_or_throw().shape;
  auto n = static_cast<int>(in[1].shape[2]);
  Read element{.operand = 0, .index = {index_of(0), index_of(1)}, .outside = 0.0};
  for (int k = 0; k < n; ++k) {
    m.reads.push_back({.operand = 1, .index = {index_of(0), index_of(2), index_constant(k)}});
    IndexExpr place;
    place.read = k;
    element.index.push_back(place);
  }
  m.reads.push_back(element);
  m.body = arg(n);
  return m;
}

// GatherND has no outside: places are moved inside, and what was outside is masked.
std::vector<NodeId> points_raise(OnnxWriter& w) {
  if (w.opset < 12) return {};
  const Dims& x = w.types[0].shape;
  Dims channels_last = {0}, extents, back = {0, 2, 1};
  for (size_t d = 2; d < x.size(); ++d) {
    channels_last.push_back(static_cast<int64_t>(d));
    extents.push_back(x[d] - 1);
  }
  channels_last.push_back(1);
  NodeId zero = w.b.constant(Tensor::of_int(0)), last = w.ints(extents);
  NodeId inside = w.emit("Min", {w.emit("Max", {w.args[1], zero})[0], last})[0];
  NodeId moved = w.emit("Transpose", {w.args[0]}, {{"perm", channels_last}})[0];
  NodeId found = w.emit("GatherND", {moved, inside}, {{"batch_dims", 1}})[0];
  NodeId shift = w.emit("Abs", {w.emit("Sub", {w.args[1], inside})[0]})[0];
  NodeId far = w.opset >= 18
                   ? w.emit("ReduceMax", {shift, w.ints({2})}, {{"keepdims", 1}})[0]
                   : w.emit("ReduceMax", {shift}, {{"keepdims", 1}, {"axes", Dims{2}}})[0];
  NodeId there = w.emit("Equal", {far, zero})[0];
  NodeId nothing = w.b.constant(Tensor::of_real(0, w.type.dtype));
  NodeId masked = w.emit("Where", {there, found, nothing})[0];
  return w.emit("Transpose", {masked}, {{"perm", back}});
}

// --- interpolation between them ---

// One neighbour of a fractional coordinate: its distance from the floor, and its weight.
struct Tap {
  int64_t step;
  std::function<Formula(const Formula& fraction)> weight;
};

Formula plus(const Formula& x, double v) {
  return x + v;
}

const std::vector<Tap>& taps(const std::string& mode) {
  static const std::vector<Tap> kNearest = {{0, nullptr}};
  static const std::vector<Tap> kLinear = {{0, [](const Formula& f) { return plus(-f, 1); }},
                                           {1, [](const Formula& f) { return f; }}};
  // The cubic convolution kernel with a = -3/4, near and far from its middle.
  static const auto kNear = [](const Formula& t) { return plus(plus(t * 1.25, -2.25) * t * t, 1); };
  static const auto kFar = [](const Formula& t) {
    return plus(plus(plus(t * -0.75, 3.75) * t, -6) * t, 3);
  };
  static const std::vector<Tap> kCubic = {{-1, [](const Formula& f) { return kFar(plus(f, 1)); }},
                                          {0, [](const Formula& f) { return kNear(f); }},
                                          {1, [](const Formula& f) { return kNear(plus(-f, 1)); }},
                                          {2, [](const Formula& f) { return kFar(plus(-f, 2)); }}};
  return mode == "nearest" ? kNearest : mode == "linear" ? kLinear : kCubic;
}

Formula clamp(const Formula& x, double low, double high) {
  return apply("min", {apply("max", {x, x.number(low)}), x.number(high)});
}

// x[n, c, ..] at coordinates[d] = [n, p], one tensor per spatial dimension, all of one float type.
// `place` says where a whole coordinate beyond the border of a dimension reads instead.
Formula sample(const Formula& x, const std::vector<Formula>& coordinates, const std::string& mode,
               const std::function<Formula(const Formula&, size_t)>& place) {
  const Dims at = coordinates[0].shape();
  size_t n = coordinates.size();
  std::vector<Formula> floors, fractions;
  for (size_t d = 0; d < n; ++d) {
    // Far outside all neighbours are zero, wherever exactly: keep whole numbers small.
    Formula c = clamp(coordinates[d], -4, static_cast<double>(x.dim(d + 2)) + 4);
    floors.push_back(apply(mode == "nearest" ? "round" : "floor", {c}));
    fractions.push_back(c - floors.back());
  }
  std::optional<Formula> total;
  const auto& around = taps(mode);
  std::vector<size_t> which(n, 0);
  for (bool more = true; more;) {
    std::optional<Formula> weight;
    std::vector<NodeId> indices;
    for (size_t d = 0; d < n; ++d) {
      const Tap& tap = around[which[d]];
      Formula index = place(plus(floors[d], static_cast<double>(tap.step)), d);
      indices.push_back(reshape(cast(index, DType::i64), {at[0], at[1], 1}));
      if (!tap.weight) continue;
      Formula w = tap.weight(fractions[d]);
      weight = weight ? *weight * w : w;
    }
    GraphBuilder& b = x.builder();
    Formula points(b, b.op("concat", indices, to_attrs(Axis{2})));
    Formula part = apply("gather_points", {x, points});
    if (weight) part = part * cast(reshape(*weight, {at[0], 1, at[1]}), x.dtype());
    total = total ? *total + part : part;
    more = false;
    for (size_t d = n; d-- > 0 && !more;) {
      which[d] = (which[d] + 1) % around.size();
      more = which[d] != 0;
    }
  }
  return *total;
}

Formula stay(const Formula& x, size_t) {
  return x;
}

DType at_least_f32(DType t) {
  return t == DType::f64 ? t : DType::f32;
}

// Triangular wave between low and high.
Formula reflect(const Formula& x, double low, double high) {
  if (high <= low) return x * 0.0 + low;
  Formula period = x.number(2 * (high - low));
  Formula t = apply("fmod", {abs(plus(x, -low)), period});
  return plus(apply("min", {t, period - t}), low);
}

struct GridSample {
  std::string mode = "linear", padding_mode = "zeros";
  bool align_corners = false;
  EMEND_FIELDS(mode, padding_mode, align_corners)
};

NodeId grid_sample_expand(GraphBuilder& b, const GridSample& a, Args args) {
  Formula x(b, args[0]), grid(b, args[1]);
  const Dims from = x.shape(), to = grid.shape();
  size_t n = from.size() < 2 ? 0 : from.size() - 2;
  if (n < 1 || to.size() != n + 2 || to.back() != static_cast<int64_t>(n) || to[0] != from[0])
    throw Error(str("grid ", shape_text(to), " does not fit ", shape_text(from)));
  if (a.mode != "nearest" && a.mode != "linear" && a.mode != "cubic")
    throw Error(str("unknown mode ", a.mode));
  int64_t points = count(std::span(to).subspan(1, n));
  auto border = [&](size_t d) {
    auto extent = static_cast<double>(from[d + 2]);
    return a.align_corners ? std::pair(0.0, extent - 1) : std::pair(-0.5, extent - 0.5);
  };
  auto place = [&](const Formula& at, size_t d) {
    if (a.padding_mode == "zeros") return at;
    Formula inside =
        a.padding_mode == "border" ? at : reflect(at, border(d).first, border(d).second);
    return clamp(inside, 0, static_cast<double>(from[d + 2] - 1));
  };
  Formula wide = cast(grid, at_least_f32(grid.dtype()));
  std::vector<Formula> coordinates;
  for (size_t d = 0; d < n; ++d) {
    // The grid names the last dimension first.
    Formula g = reshape(slice(wide, n + 1, static_cast<int64_t>(n - 1 - d), 1), {from[0], points});
    auto extent = static_cast<double>(from[d + 2]);
    Formula c =
        a.align_corners ? plus(g, 1) / 2.0 * (extent - 1) : plus(plus(g, 1) * extent, -1) / 2.0;
    if (a.mode == "nearest") c = apply("round", {c});
    auto [low, high] = border(d);
    if (a.padding_mode == "border") {
      Formula outside = apply("logical_or", {less(c, c.number(low)), less(c.number(high), c)});
      c = where(outside, clamp(c, 0, extent - 1), c);
    } else if (a.padding_mode == "reflection") {
      c = reflect(c, low, high);
    } else if (a.padding_mode != "zeros") {
      throw Error(str("unknown padding ", a.padding_mode));
    }
    coordinates.push_back(c);
  }
  bool moves = a.mode == "nearest";
  Formula source = moves ? x : cast(x, at_least_f32(x.dtype()));
  Formula y = sample(source, coordinates, a.mode, place);
  Dims shape = {from[0], from[1]};
  shape.insert(shape.end(), to.begin() + 1, to.end() - 1);
  return reshape(cast(y, x.dtype()), shape);
}

struct AffineGrid {
  Dims size;  // of the image: n, c, then spatial
  bool align_corners = false;
  EMEND_FIELDS(size, align_corners)
};

NodeId affine_grid_expand(GraphBuilder& b, const AffineGrid& a, Args args) {
  Formula theta(b, args[0]);
  size_t n = a.size.size() < 2 ? 0 : a.size.size() - 2;
  if (n < 1 ||
      theta.shape() != Dims{a.size[0], static_cast<int64_t>(n), static_cast<int64_t>(n) + 1})
    throw Error(str("theta ", shape_text(theta.shape()), " against size ", shape_text(a.size)));
  auto spatial = std::span(a.size).subspan(2);
  auto points = checked_count(spatial);
  if (!points) throw Error("the grid is absurd");
  // Homogeneous coordinates of all points, the last dimension first.
  Dims shape = {*points, static_cast<int64_t>(n) + 1};
  DType dtype = theta.dtype();
  Formula grid(b, b.constant(Tensor::make(dtype, shape, [&](std::byte* data) {
    size_t next = 0;
    for (int64_t p = 0; p < *points; ++p) {
      int64_t rest = p;
      for (size_t d = n; d-- > 0; rest /= spatial[d]) {
        auto i = static_cast<double>(rest % spatial[d]), extent = static_cast<double>(spatial[d]);
        store_real(dtype, data, next++,
                   !a.align_corners ? (2 * i + 1) / extent - 1
                   : extent > 1     ? 2 * i / (extent - 1) - 1
                                    : -1);
      }
      store_real(dtype, data, next++, 1);
    }
  })));
  Dims to = {a.size[0]};
  to.insert(to.end(), spatial.begin(), spatial.end());
  to.push_back(static_cast<int64_t>(n));
  return reshape(matmul(grid, transpose(theta, {0, 2, 1})), to);
}

struct DeformConv {
  Dims strides, dilations, pads;
  int64_t group = 1, offset_group = 1;
  bool has_mask = false;
  EMEND_FIELDS(strides, dilations, pads, group, offset_group, has_mask)
};

// Where the kernel's places would read without offsets: [1, places, n, outputs].
Tensor regular_places(DType dtype, const DeformConv& a, std::span<const int64_t> kernel,
                      std::span<const int64_t> out) {
  Dims shape = {1, count(kernel), static_cast<int64_t>(kernel.size()), count(out)};
  return Tensor::make(dtype, shape, [&](std::byte* data) {
    size_t next = 0;
    for (int64_t k = 0; k < shape[1]; ++k) {
      for (size_t d = 0; d < kernel.size(); ++d) {
        int64_t along = k / count(kernel.subspan(d + 1)) % kernel[d];
        int64_t inner = count(out.subspan(d + 1));
        for (int64_t o = 0; o < shape[3]; ++o) {
          int64_t at = o / inner % out[d];
          int64_t place = at * a.strides[d] + along * a.dilations[d] - a.pads[d];
          store_real(dtype, data, next++, static_cast<double>(place));
        }
      }
    }
  });
}

// x, w, offset and maybe mask
NodeId deform_conv_expand(GraphBuilder& b, const DeformConv& a, Args args) {
  Formula x(b, args[0]), w(b, args[1]), offset(b, args[2]);
  const Dims xs = x.shape(), ws = w.shape(), os = offset.shape();
  size_t n = a.strides.size();
  if (xs.size() != n + 2 || ws.size() != n + 2 || os.size() != n + 2 || a.dilations.size() != n ||
      a.pads.size() != 2 * n || a.group < 1 || a.offset_group < 1 || xs[1] % a.offset_group != 0 ||
      a.group > ws[0] || ws[0] % a.group != 0 || xs[1] != ws[1] * a.group) {
    throw Error(str("x ", shape_text(xs), ", w ", shape_text(ws), " and offsets ", shape_text(os),
                    " do not fit"));
  }
  auto kernel = std::span(ws).subspan(2), out = std::span(os).subspan(2);
  if (auto fault = window_fault(kernel, a.strides, a.dilations, a.pads)) throw Error(*fault);
  int64_t places = count(kernel), outputs = count(out), dims = static_cast<int64_t>(n);
  int64_t groups = xs[0] * a.offset_group;
  if (os[1] != a.offset_group * places * dims) throw Error("wrong number of offsets");
  DType wide = at_least_f32(x.dtype());
  Tensor base = regular_places(wide, a, kernel, out);
  Formula where_to =
      reshape(cast(offset, wide), {groups, places, dims, outputs}) + Formula(b, b.constant(base));
  std::vector<Formula> coordinates;
  for (int64_t d = 0; d < dims; ++d)
    coordinates.push_back(reshape(slice(where_to, 2, d, 1), {groups, places * outputs}));
  Dims split = {groups, xs[1] / a.offset_group};
  split.insert(split.end(), xs.begin() + 2, xs.end());
  Formula columns = sample(reshape(cast(x, wide), split), coordinates, "linear", stay);
  if (a.has_mask)
    columns = columns * reshape(cast(Formula(b, args[3]), wide), {groups, 1, places * outputs});
  Formula weights = reshape(cast(w, wide), {a.group, ws[0] / a.group, ws[1] * places});
  Formula y = matmul(weights, reshape(columns, {xs[0], a.group, ws[1] * places, outputs}));
  Dims shape = {xs[0], ws[0]};
  shape.insert(shape.end(), out.begin(), out.end());
  return cast(reshape(y, shape), x.dtype());
}

// --- ONNX ---

Result<std::vector<NodeId>> grid_sample_lower(OnnxCall& c) {
  c.type(1);  // the grid is there
  GridSample a{c.text_attr("mode", "linear"), c.text_attr("padding_mode", "zeros"),
               c.int_attr("align_corners", 0) != 0};
  if (a.mode == "bilinear") a.mode = "linear";
  if (a.mode == "bicubic") a.mode = "cubic";
  return std::vector{c.b.op("grid_sample", {c.inputs[0], c.inputs[1]}, a)};
}

std::vector<NodeId> grid_sample_raise(OnnxWriter& w) {
  auto a = w.attrs.as<GridSample>();
  bool flat = w.types[0].rank() == 4;
  if (w.opset < 20 && !flat) return {};
  if (w.opset < 20 && a.mode != "nearest") a.mode = "bi" + a.mode;
  return w.emit("GridSample", w.args,
                {{"mode", a.mode},
                 {"padding_mode", a.padding_mode},
                 {"align_corners", int64_t{a.align_corners}}});
}

Result<std::vector<NodeId>> affine_grid_lower(OnnxCall& c) {
  auto size = c.ints(1);
  if (!size) return Failure{size.error()};
  AffineGrid a{*size, c.int_attr("align_corners", 0) != 0};
  return std::vector{c.b.op("affine_grid", {c.inputs[0]}, a)};
}

Result<std::vector<NodeId>> deform_conv_lower(OnnxCall& c) {
  const Dims& x = c.type(0).shape;
  size_t n = x.size() < 2 ? 0 : x.size() - 2;
  DeformConv a{c.ints_attr("strides", Dims(n, 1)),  c.ints_attr("dilations", Dims(n, 1)),
               c.ints_attr("pads", Dims(2 * n, 0)), c.int_attr("group", 1),
               c.int_attr("offset_group", 1),       c.has(4)};
  c.type(2);  // weights and offsets are there
  c.type(1);
  std::vector<NodeId> args(c.inputs.begin(), c.inputs.begin() + 3);
  if (c.has(4)) args.push_back(c.inputs[4]);
  NodeId y = c.b.op("deform_conv", args, to_attrs(a));
  if (c.has(3)) y = c.b.op("add", {y, add_spatial_dims(c.b, c.inputs[3], n)});
  return std::vector{y};
}

std::vector<NodeId> deform_conv_raise(OnnxWriter& w) {
  auto a = w.attrs.as<DeformConv>();
  return w.emit("DeformConv",
                {w.args[0], w.args[1], w.args[2], NodeId(), a.has_mask ? w.args[3] : NodeId()},
                {{"strides", a.strides},
                 {"dilations", a.dilations},
                 {"pads", a.pads},
                 {"group", a.group},
                 {"offset_group", a.offset_group}});
}

}  // namespace

std::vector<OpDef> sample_ops() {
  return {
      define<NoAttrs>({.name = "gather_points",
                       .min_args = 2,
                       .max_args = 2,
                       .kind = Kind::index,
                       .infer = points_infer,
                       .means = points_means,
                       .onnx = {{.type = "GatherND", .since = 12, .raise = points_raise}},
                       .doc = "x[n,c,at[n,p,..]], zero where a point lies outside"}),
      define<GridSample>({.name = "grid_sample",
                          .min_args = 2,
                          .max_args = 2,
                          .expand = grid_sample_expand,
                          .onnx = {{.type = "GridSample",
                                    .since = 16,
                                    .lower = grid_sample_lower,
                                    .raise = grid_sample_raise}},
                          .doc = "an image read at the points of a grid, interpolated"}),
      define<AffineGrid>({.name = "affine_grid",
                          .traits = multilinear,
                          .expand = affine_grid_expand,
                          .onnx = {{.type = "AffineGrid",
                                    .since = 20,
                                    .lower = affine_grid_lower,
                                    .raise =
                                        [](OnnxWriter& w) {
                                          auto a = w.attrs.as<AffineGrid>();
                                          return w.emit(
                                              "AffineGrid", {w.args[0], w.ints(a.size)},
                                              {{"align_corners", int64_t{a.align_corners}}});
                                        }}},
                          .doc = "the grid of an image under affine maps"}),
      define<DeformConv>({.name = "deform_conv",
                          .min_args = 3,
                          .max_args = 4,
                          .expand = deform_conv_expand,
                          .onnx = {{.type = "DeformConv",
                                    .since = 19,
                                    .lower = deform_conv_lower,
                                    .raise = deform_conv_raise}},
                          .doc = "convolution whose kernel reads at places moved by offsets"}),
  };
}

}  // namespace emend
