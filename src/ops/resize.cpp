// Resizing by interpolation. Every mode works on one axis after the other: nearest picks elements,
// linear and cubic (with or without antialiasing) multiply by a constant matrix, or where that
// would be mostly zeros add neighbours up.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/compose.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

struct Resize {
  Dims sizes;                  // of the result
  std::vector<double> scales;  // per dimension; sizes may have been rounded from them
  std::vector<double> roi;     // starts, then ends; empty unless tf_crop_and_resize
  std::string mode = "nearest", coordinates = "half_pixel", nearest_mode = "round_prefer_floor";
  double cubic_coeff_a = -0.75, extrapolation_value = 0;
  bool exclude_outside = false, antialias = false;
  bool by_scales = false;  // the scales were given, and the sizes follow: so at any other size
  EMEND_FIELDS(sizes, scales, roi, mode, coordinates, nearest_mode, cubic_coeff_a,
               extrapolation_value, exclude_outside, antialias, by_scales)
};

// Where output position x of dimension d stands in the input, by the formula of the transformation.
double transformed(const Resize& a, size_t d, int64_t extent, int64_t x) {
  double s = a.scales[d], length = static_cast<double>(extent), resized = s * length;
  auto at = static_cast<double>(x);
  const std::string& how = a.coordinates;
  if (how == "half_pixel") return (at + 0.5) / s - 0.5;
  if (how == "asymmetric") return at / s;
  if (how == "pytorch_half_pixel") return a.sizes[d] > 1 ? (at + 0.5) / s - 0.5 : 0;
  if (how == "align_corners") return resized == 1 ? 0 : at * (length - 1) / (resized - 1);
  if (how == "tf_half_pixel_for_nn") return (at + 0.5) / s;
  if (how == "half_pixel_symmetric") {
    double offset = length / 2 * (1 - static_cast<double>(a.sizes[d]) / resized);
    return offset + (at + 0.5) / s - 0.5;
  }
  if (how == "tf_crop_and_resize") {
    double start = a.roi[d], end = a.roi[d + a.sizes.size()];
    double moved = resized == 1 ? (end - start) * (length - 1) / 2
                                : at * (end - start) * (length - 1) / (resized - 1);
    return start * (length - 1) + moved;
  }
  throw Error(str("unknown coordinate transformation ", how));
}

double source_position(const Resize& a, size_t d, int64_t extent, int64_t x) {
  constexpr double kFar = 1e12;  // any place beyond is the same place, and an integer
  double at = transformed(a, d, extent, x);
  return at > kFar ? kFar : at > -kFar ? at : -kFar;
}

int64_t nearest(const std::string& mode, double x) {
  double v = mode == "floor"               ? std::floor(x)
             : mode == "ceil"              ? std::ceil(x)
             : mode == "round_prefer_ceil" ? std::floor(x + 0.5)
                                           : std::ceil(x - 0.5);
  return static_cast<int64_t>(v);
}

// The interpolation kernel at distance t.
double kernel(const Resize& a, double t) {
  t = std::abs(t);
  if (a.mode == "linear") return std::max(0.0, 1 - t);
  double c = a.cubic_coeff_a;
  if (t <= 1) return ((c + 2) * t - (c + 3)) * t * t + 1;
  if (t < 2) return ((c * t - 5 * c) * t + 8 * c) * t - 4 * c;
  return 0;
}

// Per neighbour and output position, which element of the input counts, and how much. Outside
// counts as the edge.
struct Taps {
  std::vector<Dims> place;
  std::vector<std::vector<double>> weight;
};

// More taps than this are refused: they are constants of the program.
constexpr int64_t kMaxTaps = int64_t{1} << 22;
// A product with a matrix of up to this many elements is worth its zeros.
constexpr int64_t kMaxMatrix = int64_t{1} << 20;

Taps interpolation_taps(const Resize& a, size_t d, int64_t extent) {
  double spread = a.antialias ? std::min(a.scales[d], 1.0) : 1.0;
  double reach = std::ceil((a.mode == "linear" ? 1 : 2) / spread);
  if (!(2 * reach * static_cast<double>(a.sizes[d]) < static_cast<double>(kMaxTaps)))
    throw Error(str("resizing ", extent, " elements to ", a.sizes[d], " is absurd"));
  auto first = 1 - static_cast<int64_t>(reach), outputs = a.sizes[d];
  auto n = static_cast<size_t>(2 - 2 * first);
  Taps taps{std::vector<Dims>(n), std::vector<std::vector<double>>(n)};
  for (int64_t o = 0; o < outputs; ++o) {
    double x = source_position(a, d, extent, o), base = std::floor(x), total = 0;
    for (size_t t = 0; t < n; ++t) {
      int64_t step = first + static_cast<int64_t>(t), at = static_cast<int64_t>(base) + step;
      double weight = kernel(a, (static_cast<double>(step) - (x - base)) * spread);
      if (a.exclude_outside && (at < 0 || at >= extent)) weight = 0;
      taps.place[t].push_back(std::clamp<int64_t>(at, 0, extent - 1));
      taps.weight[t].push_back(weight);
      total += weight;
    }
    bool normalised = (a.exclude_outside || a.antialias) && total != 0;
    for (size_t t = 0; t < n && normalised; ++t) taps.weight[t].back() /= total;
  }
  return taps;
}

bool is_identity(const Taps& taps, int64_t extent) {
  for (size_t t = 0; t < taps.place.size(); ++t) {
    if (static_cast<int64_t>(taps.place[t].size()) != extent) return false;
    for (size_t o = 0; o < taps.place[t].size(); ++o) {
      bool here = taps.place[t][o] == static_cast<int64_t>(o);
      // At its own place a row has one tap of weight 1: kernels are 1 there and 0 at whole steps.
      if (taps.weight[t][o] != 0 && !(here && taps.weight[t][o] == 1)) return false;
    }
  }
  return true;
}

Formula pick_nearest(const Formula& x, const Resize& a, size_t d) {
  int64_t extent = x.dim(d);
  Dims indices, identity(static_cast<size_t>(extent));
  std::iota(identity.begin(), identity.end(), 0);
  for (int64_t o = 0; o < a.sizes[d]; ++o) {
    int64_t at = nearest(a.nearest_mode, source_position(a, d, extent, o));
    indices.push_back(std::clamp<int64_t>(at, 0, extent - 1));
  }
  if (indices == identity) return x;
  Formula places(x.builder(), x.builder().ints(indices));
  return apply("gather", {x, places}, to_attrs(Axis{static_cast<int64_t>(d)}));
}

// As a product with the matrix of all weights.
Formula by_matrix(const Formula& x, const Taps& taps, size_t d, const Dims& result) {
  Dims shape = x.shape();
  auto width = static_cast<size_t>(shape[d]);
  std::vector<double> matrix(static_cast<size_t>(result[d]) * width, 0);
  for (size_t t = 0; t < taps.place.size(); ++t) {
    for (size_t o = 0; o < taps.place[t].size(); ++o)
      matrix[o * width + static_cast<size_t>(taps.place[t][o])] += taps.weight[t][o];
  }
  int64_t outer = count(std::span(shape).first(d)), inner = count(std::span(shape).subspan(d + 1));
  Tensor weights = Tensor::of_reals(x.dtype(), {result[d], shape[d]}, matrix);
  Formula w(x.builder(), x.builder().constant(weights));
  if (inner == 1)
    return reshape(matmul(reshape(x, {outer, shape[d]}), transpose(w, {1, 0})), result);
  return reshape(matmul(w, reshape(x, {outer, shape[d], inner})), result);
}

// As a sum over neighbours, where the matrix would be mostly zeros.
Formula by_neighbours(const Formula& x, const Taps& taps, size_t d, const Dims& result) {
  GraphBuilder& b = x.builder();
  Dims along(result.size(), 1);
  along[d] = result[d];
  std::optional<Formula> sum;
  for (size_t t = 0; t < taps.place.size(); ++t) {
    Formula places(b, b.ints(taps.place[t]));
    Formula weights(b, b.constant(Tensor::of_reals(x.dtype(), along, taps.weight[t])));
    Formula part = apply("gather", {x, places}, to_attrs(Axis{static_cast<int64_t>(d)})) * weights;
    sum = sum ? *sum + part : part;
  }
  return *sum;
}

Formula interpolate(const Formula& x, const Resize& a, size_t d) {
  Dims result = x.shape();
  int64_t extent = result[d];
  Taps taps = interpolation_taps(a, d, extent);
  if (is_identity(taps, extent)) return x;
  result[d] = a.sizes[d];
  bool small = a.sizes[d] <= kMaxMatrix / std::max<int64_t>(1, extent);
  return small ? by_matrix(x, taps, d, result) : by_neighbours(x, taps, d, result);
}

// Whether a position of the result lies outside the region that is resized; true where any
// dimension's does. Empty if none does.
std::optional<Formula> outside(GraphBuilder& b, const Resize& a, const Dims& from) {
  std::optional<Formula> any;
  for (size_t d = 0; d < from.size() && a.coordinates == "tf_crop_and_resize"; ++d) {
    std::vector<double> beyond;
    for (int64_t o = 0; o < a.sizes[d]; ++o) {
      double x = source_position(a, d, from[d], o);
      beyond.push_back(x < 0 || x > static_cast<double>(from[d] - 1));
    }
    if (std::ranges::count(beyond, 0) == a.sizes[d]) continue;
    Dims shape(from.size(), 1);
    shape[d] = a.sizes[d];
    Formula mask(b, b.constant(Tensor::of_reals(DType::boolean, shape, beyond)));
    any = any ? apply("logical_or", {*any, mask}) : mask;
  }
  return any;
}

NodeId resize_expand(GraphBuilder& b, const Resize& a, Args args) {
  Formula x(b, args[0]);
  const Dims from = x.shape();
  if (a.sizes.size() != from.size() || a.scales.size() != from.size() ||
      (a.coordinates == "tf_crop_and_resize" && a.roi.size() != 2 * from.size())) {
    throw Error(str("needs a size, a scale (and a region) per dimension of ", shape_text(from)));
  }
  if (a.mode != "nearest" && a.mode != "linear" && a.mode != "cubic")
    throw Error(str("unknown mode ", a.mode));
  for (size_t d = 0; d < from.size(); ++d) {
    if (a.sizes[d] < 0 || (a.sizes[d] > 0 && (from[d] < 1 || !(a.scales[d] > 0))))
      throw Error(str(shape_text(from), " cannot be resized to ", shape_text(a.sizes)));
    if (a.sizes[d] > kMaxTaps)
      throw Error(str("resizing ", shape_text(from), " to ", shape_text(a.sizes), " is absurd"));
  }
  // Weights need the precision of single floats at least.
  DType type = x.dtype();
  bool wide = type == DType::f32 || type == DType::f64;
  Formula y = a.mode == "nearest" || wide ? x : cast(x, DType::f32);
  for (size_t d = 0; d < from.size(); ++d)
    y = a.mode == "nearest" ? pick_nearest(y, a, d) : interpolate(y, a, d);
  if (auto mask = outside(b, a, from)) y = where(*mask, y.number(a.extrapolation_value), y);
  return cast(y, type);
}

// --- ONNX ---

// A floats or ints operand; empty where it is absent or empty.
Result<std::vector<double>> reals_of(const OnnxCall& c, size_t input) {
  if (!c.has(input)) return std::vector<double>{};
  auto v = c.value(input);
  if (!v) return fail("the value of input ", input, " is not known before run time");
  return v->reals();
}

int64_t size_of(double size) {
  if (!(size >= 0 && size < 1e12)) throw Error(str("Resize to a size of ", size));
  return static_cast<int64_t>(size);
}

int64_t scaled(int64_t extent, double scale) {
  return size_of(std::floor(static_cast<float>(extent) * static_cast<float>(scale)));
}

// Sizes and scales of all dimensions from those of the named axes. False where rounding makes
// sizes that do not follow from either alone.
bool set_sizes(Resize& a, const Dims& from, const Dims& axes, const std::vector<double>& scales,
               const std::vector<double>& sizes, const std::string& policy) {
  a.sizes = from;
  a.scales.assign(from.size(), 1.0);
  a.by_scales = !scales.empty();
  if ((scales.empty() ? sizes.size() : scales.size()) != axes.size())
    throw Error("Resize: needs one scale or size per axis");
  std::vector<double> wanted;
  for (size_t i = 0; i < axes.size() && scales.empty(); ++i)
    wanted.push_back(sizes[i] / static_cast<double>(from[static_cast<size_t>(axes[i])]));
  double common = 1;
  if (!wanted.empty())
    common = policy == "not_smaller" ? std::ranges::max(wanted) : std::ranges::min(wanted);
  bool plain = true;
  for (size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<size_t>(axes[i]);
    if (!scales.empty()) {
      a.scales[d] = scales[i];
      a.sizes[d] = scaled(from[d], scales[i]);
    } else if (policy == "stretch") {
      a.scales[d] = wanted[i];
      a.sizes[d] = size_of(sizes[i]);
    } else {
      a.scales[d] = common;
      a.sizes[d] = size_of(std::floor(common * static_cast<double>(from[d]) + 0.5));
      plain = false;
    }
  }
  return plain;
}

Result<std::vector<NodeId>> resize_lower(OnnxCall& c) {
  const Dims from = c.type(0).shape;
  bool modern = c.version() >= 11;
  auto scales = reals_of(c, modern ? 2 : 1), sizes = reals_of(c, 3), roi = reals_of(c, 1);
  if (!scales) return Failure{scales.error()};
  if (modern && !sizes) return Failure{sizes.error()};
  if (modern && !roi) return Failure{roi.error()};
  Resize a;
  a.mode = c.text_attr("mode", "nearest");
  a.coordinates =
      c.text_attr("coordinate_transformation_mode", modern ? "half_pixel" : "asymmetric");
  a.nearest_mode = c.text_attr("nearest_mode", modern ? "round_prefer_floor" : "floor");
  a.cubic_coeff_a = c.real_attr("cubic_coeff_a", -0.75);
  a.extrapolation_value = c.real_attr("extrapolation_value", 0);
  a.exclude_outside = c.int_attr("exclude_outside", 0) != 0;
  a.antialias = c.int_attr("antialias", 0) != 0;
  Dims axes(from.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = c.ints_attr("axes", axes);
  for (int64_t& axis : axes) axis = normal_axis(axis, c.type(0).rank()).value_or_throw();
  bool plain = set_sizes(a, from, axes, *scales, modern ? *sizes : std::vector<double>{},
                         c.text_attr("keep_aspect_ratio_policy", "stretch"));
  if (a.coordinates == "tf_crop_and_resize") {
    if (roi->size() != 2 * axes.size())
      throw Error("Resize: needs a region with two ends per axis");
    a.roi.assign(2 * from.size(), 0);
    std::fill(a.roi.begin() + static_cast<int64_t>(from.size()), a.roi.end(), 1.0);
    for (size_t i = 0; i < axes.size(); ++i) {
      a.roi[static_cast<size_t>(axes[i])] = (*roi)[i];
      a.roi[static_cast<size_t>(axes[i]) + from.size()] = (*roi)[i + axes.size()];
    }
  }
  // Before opset 11, shrinking by nearest rounds up.
  bool shrinks = std::ranges::any_of(a.scales, [](double s) { return s < 1; });
  if (!modern && shrinks) a.nearest_mode = "ceil";
  if (!plain) return std::vector{resize_expand(c.b, a, c.inputs)};
  return std::vector{c.b.op("resize", {c.inputs[0]}, a)};
}

Result<std::vector<NodeId>> upsample_lower(OnnxCall& c) {
  auto scales = c.version() >= 9 ? reals_of(c, 1)
                                 : c.node.attributes.get_or<std::vector<double>>("scales", {});
  if (!scales) return Failure{scales.error()};
  Resize a{
      .mode = c.text_attr("mode", "nearest"), .coordinates = "asymmetric", .nearest_mode = "floor"};
  if (a.mode == "bilinear") a.mode = "linear";
  Dims axes(c.type(0).shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  set_sizes(a, c.type(0).shape, axes, *scales, {}, "stretch");
  return std::vector{c.b.op("resize", {c.inputs[0]}, a)};
}

std::vector<NodeId> resize_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Resize>();
  bool newer =
      (a.antialias && w.opset < 18) || (a.coordinates == "half_pixel_symmetric" && w.opset < 19);
  bool older = a.coordinates == "tf_half_pixel_for_nn" && w.opset >= 13;
  if (newer || older) return {};
  bool by_sizes = true, by_scales = a.by_scales;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    const int64_t from = w.types[0].shape[d];
    by_sizes &= a.scales[d] * static_cast<double>(from) == static_cast<double>(a.sizes[d]);
    by_scales &= scaled(from, a.scales[d]) == a.sizes[d];
  }
  if (by_scales) by_sizes = false;
  auto floats = [&](const std::vector<double>& v) {
    return w.b.constant(Tensor::of_reals(DType::f32, {static_cast<int64_t>(v.size())}, v));
  };
  NodeId none = w.opset < 13 ? floats({}) : NodeId();
  std::vector<NodeId> in = {w.args[0], a.roi.empty() ? none : floats(a.roi),
                            by_sizes ? none : floats(a.scales),
                            by_sizes ? w.ints(a.sizes) : NodeId()};
  std::vector<Attrs::Entry> attributes = {{"mode", a.mode},
                                          {"coordinate_transformation_mode", a.coordinates},
                                          {"nearest_mode", a.nearest_mode},
                                          {"cubic_coeff_a", a.cubic_coeff_a},
                                          {"exclude_outside", int64_t{a.exclude_outside}},
                                          {"extrapolation_value", a.extrapolation_value}};
  if (a.antialias) attributes.emplace_back("antialias", 1);
  return w.emit("Resize", in, attributes);
}

}  // namespace

std::vector<OpDef> resize_ops() {
  return {define<Resize>(
      {.name = "resize",
       .expand = resize_expand,
       .onnx = {{.type = "Resize", .since = 11, .lower = resize_lower, .raise = resize_raise},
                {.type = "Resize",
                 .since = 10,
                 .before = 11,
                 .lower = resize_lower,
                 .lower_only = true},
                {.type = "Upsample", .since = 7, .lower = upsample_lower, .lower_only = true}},
       .doc = "interpolated to other sizes: nearest, linear or cubic, axis by axis"})};
}

}  // namespace emend
