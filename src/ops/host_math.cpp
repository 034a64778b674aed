// What has no index notation: determinants, averages over as many samples as a region is large, and
// maxima put back to where they were found.
#include <algorithm>
#include <cmath>

#include "ops/contraction.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

double determinant(std::vector<double> m, size_t n) {
  double product = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i)
      if (std::abs(m[i * n + k]) > std::abs(m[pivot * n + k])) pivot = i;
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(m.begin() + static_cast<int64_t>(k * n),
                       m.begin() + static_cast<int64_t>((k + 1) * n),
                       m.begin() + static_cast<int64_t>(pivot * n));
      product = -product;
    }
    product *= m[k * n + k];
    for (size_t i = k + 1; i < n; ++i) {
      double factor = m[i * n + k] / m[k * n + k];
      for (size_t j = k; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
    }
  }
  return product;
}

Value det_eval(const EvalContext& c, const NoAttrs&, std::span<const Value> v) {
  const Tensor& x = v[0].tensor;
  int64_t n = x.shape().back();
  std::vector<double> all = x.reals(), results;
  for (int64_t i = 0; i < count(c.type.shape); ++i) {
    auto first = all.begin() + i * n * n;
    results.push_back(determinant({first, first + n * n}, static_cast<size_t>(n)));
  }
  return Tensor::of_reals(c.result_dtype(), c.type.shape, results);
}

struct RoiAlign {
  std::string coordinate_transformation_mode = "half_pixel", mode = "avg";
  int64_t output_height = 1, output_width = 1;
  int64_t sampling_ratio = 0;  // samples per bin and dimension; 0: as many as the bin has pixels
  double spatial_scale = 1;
  EMEND_FIELDS(coordinate_transformation_mode, mode, output_height, output_width, sampling_ratio,
               spatial_scale)
};

Result<Type> roi_align_infer(const RoiAlign& a, Types in) {
  const Dims &x = in[0].shape, &rois = in[1].shape, &batch = in[2].shape;
  if (x.size() != 4 || rois.size() != 2 || rois[1] != 4 || batch != Dims{rois[0]})
    return fail("roi_align: ", to_text(in[0]), ", ", to_text(in[1]), " and ", to_text(in[2]));
  if (a.output_height < 1 || a.output_width < 1 || a.sampling_ratio < 0)
    return fail("roi_align: output sizes are positive");
  if (a.mode != "avg" && a.mode != "max") return fail("roi_align: unknown mode ", a.mode);
  return Type::tensor(in[0].dtype, {rois[0], x[1], a.output_height, a.output_width});
}

// Along one dimension: the two neighbours of a sample and the second one's weight.
struct Between {
  int64_t low = 0, high = 0;
  double weight = 0;
  bool inside = false;
};

Between between(double at, int64_t extent) {
  if (extent < 1 || !(at >= -1 && at <= static_cast<double>(extent))) return {};
  at = std::clamp(at, 0.0, static_cast<double>(extent - 1));
  auto low = static_cast<int64_t>(at);
  return {low, std::min(low + 1, extent - 1), at - static_cast<double>(low), true};
}

// The samples of every bin along one dimension of a region.
std::vector<std::vector<Between>> bins(const RoiAlign& a, double start, double end, int64_t outputs,
                                       int64_t extent) {
  bool half_pixel = a.coordinate_transformation_mode == "half_pixel";
  start = start * a.spatial_scale - (half_pixel ? 0.5 : 0);
  end = end * a.spatial_scale - (half_pixel ? 0.5 : 0);
  double length = half_pixel ? end - start : std::max(end - start, 1.0);
  double bin = length / static_cast<double>(outputs);
  double samples = a.sampling_ratio > 0 ? static_cast<double>(a.sampling_ratio) : std::ceil(bin);
  if (!(samples < 4096)) throw Error(str("a region of length ", length, " is absurd"));
  std::vector<std::vector<Between>> result;
  for (int64_t o = 0; o < outputs; ++o) {
    result.emplace_back();
    for (double i = 0; i < samples; ++i)
      result.back().push_back(
          between(start + static_cast<double>(o) * bin + (i + 0.5) * bin / samples, extent));
  }
  return result;
}

double pool_bin(const RoiAlign& a, const Tensor& x, int64_t plane, const std::vector<Between>& rows,
                const std::vector<Between>& columns) {
  int64_t width = x.shape()[3];
  bool average = a.mode == "avg", any = false;
  double result = 0;
  for (const Between& r : rows) {
    for (const Between& c : columns) {
      bool inside = r.inside && c.inside;
      auto part = [&](int64_t i, int64_t j, double wi, double wj) {
        return inside ? wi * wj * x.real(plane + i * width + j) : 0.0;
      };
      double parts[] = {part(r.low, c.low, 1 - r.weight, 1 - c.weight),
                        part(r.low, c.high, 1 - r.weight, c.weight),
                        part(r.high, c.low, r.weight, 1 - c.weight),
                        part(r.high, c.high, r.weight, c.weight)};
      // ONNX takes the largest weighted neighbour, not the largest interpolated value.
      double value =
          average ? parts[0] + parts[1] + parts[2] + parts[3] : *std::max_element(parts, parts + 4);
      result = average ? result + value : any ? std::max(result, value) : value;
      any = true;
    }
  }
  auto n = static_cast<double>(rows.size() * columns.size());
  return average ? result / std::max(n, 1.0) : result;
}

Value roi_align_eval(const EvalContext& c, const RoiAlign& a, std::span<const Value> v) {
  const Tensor &x = v[0].tensor, &rois = v[1].tensor, &batch = v[2].tensor;
  const Dims& shape = x.shape();
  std::vector<double> results;
  for (int64_t r = 0; r < c.type.shape[0]; ++r) {
    int64_t image = batch.integer(r);
    if (image < 0 || image >= shape[0])
      throw Error(str("region ", r, " is in image ", image, " of ", shape[0]));
    auto columns = bins(a, rois.real(r * 4), rois.real(r * 4 + 2), a.output_width, shape[3]);
    auto rows = bins(a, rois.real(r * 4 + 1), rois.real(r * 4 + 3), a.output_height, shape[2]);
    for (int64_t ch = 0; ch < shape[1]; ++ch) {
      int64_t plane = (image * shape[1] + ch) * shape[2] * shape[3];
      for (const auto& row : rows)
        for (const auto& column : columns) results.push_back(pool_bin(a, x, plane, row, column));
    }
  }
  return Tensor::of_reals(c.result_dtype(), c.type.shape, results);
}

Result<std::vector<NodeId>> old_roi_align_lower(OnnxCall& c) {
  RoiAlign a{"output_half_pixel",
             c.text_attr("mode", "avg"),
             c.int_attr("output_height", 1),
             c.int_attr("output_width", 1),
             c.int_attr("sampling_ratio", 0),
             c.real_attr("spatial_scale", 1)};
  return std::vector{c.b.op("roi_align", c.inputs, to_attrs(a))};
}

std::vector<NodeId> old_roi_align_raise(OnnxWriter& w) {
  auto a = w.attrs.as<RoiAlign>();
  if (a.coordinate_transformation_mode != "output_half_pixel") return {};
  return w.emit("RoiAlign", w.args,
                {{"mode", a.mode},
                 {"output_height", a.output_height},
                 {"output_width", a.output_width},
                 {"sampling_ratio", a.sampling_ratio},
                 {"spatial_scale", a.spatial_scale}});
}

struct Unpool {
  Dims kernel, strides, pads;
  EMEND_FIELDS(kernel, strides, pads)
};

Result<Type> unpool_infer(const Unpool& a, Types in) {
  size_t n = in[0].shape.size() < 2 ? 0 : in[0].shape.size() - 2;
  if (in[0].rank() < 2 || a.kernel.size() != n || a.strides.size() != n || a.pads.size() != 2 * n ||
      in[1].shape != in[0].shape) {
    return fail("kernel, strides, pads and indices do not fit ", shape_text(in[0].shape));
  }
  if (auto fault = window_fault(a.kernel, a.strides, Dims(n, 1), a.pads)) return fail(*fault);
  Dims out = {in[0].shape[0], in[0].shape[1]};
  for (size_t d = 0; d < n; ++d) {
    out.push_back((in[0].shape[d + 2] - 1) * a.strides[d] - a.pads[d] - a.pads[d + n] +
                  a.kernel[d]);
  }
  return Type::tensor(in[0].dtype, out);
}

Value unpool_eval(const EvalContext& c, const Unpool&, std::span<const Value> v) {
  const Tensor &x = v[0].tensor, &indices = v[1].tensor;
  auto width = static_cast<size_t>(info(x.dtype()).bits) / 8;
  int64_t n = count(c.type.shape);
  return Tensor::make(x.dtype(), c.type.shape, [&](std::byte* out) {
    for (int64_t i = 0; i < x.count(); ++i) {
      int64_t at = indices.integer(i);
      if (at < 0 || at >= n) throw Error(str("index ", at, " is outside ", n, " elements"));
      auto from = x.data() + static_cast<size_t>(i) * width;
      std::copy_n(from, width, out + static_cast<size_t>(at) * width);
    }
  });
}

Result<std::vector<NodeId>> unpool_lower(OnnxCall& c) {
  size_t n = c.type(1).shape.size() < 2 ? 0 : c.type(1).shape.size() - 2;
  Unpool a{c.ints_attr("kernel_shape"), c.ints_attr("strides", Dims(n, 1)),
           c.ints_attr("pads", Dims(2 * n, 0))};
  NodeId y = c.b.op("max_unpool", {c.inputs[0], c.inputs[1]}, a);
  if (!c.has(2)) return std::vector{y};
  auto shape = c.ints(2);
  if (!shape) return Failure{shape.error()};
  // A larger output keeps the places of the inferred one.
  const Dims& from = c.b.shape(y);
  if (shape->size() != from.size()) throw Error("MaxUnpool: output_shape has the wrong length");
  Pad more{.pads = Dims(2 * from.size(), 0)};
  for (size_t d = 0; d < from.size(); ++d) more.pads[from.size() + d] = (*shape)[d] - from[d];
  return std::vector{*shape == from ? y : c.b.op("pad", {y}, more)};
}

}  // namespace

std::vector<OpDef> host_math_ops() {
  return {
      define<NoAttrs>({.name = "det",
                       .kind = Kind::index,
                       .infer = [](const NoAttrs&, Types in) -> Result<Type> {
                         Dims s = in[0].shape;
                         if (s.size() < 2 || s[s.size() - 1] != s[s.size() - 2])
                           return fail("det: ", to_text(in[0]), " holds no square matrices");
                         return Type::tensor(in[0].dtype, Dims(s.begin(), s.end() - 2));
                       },
                       .eval = det_eval,
                       .onnx = {{.type = "Det", .since = 11}},
                       .doc = "determinants of square matrices"}),
      define<RoiAlign>(
          {.name = "roi_align",
           .min_args = 3,
           .max_args = 3,
           .kind = Kind::index,
           .infer = roi_align_infer,
           .eval = roi_align_eval,
           .onnx = {{.type = "RoiAlign", .since = 16},
                    {.type = "RoiAlign",
                     .since = 10,
                     .before = 16,
                     .lower = old_roi_align_lower,
                     .raise = old_roi_align_raise}},
           .doc = "regions of an image pooled to one size, from interpolated samples"}),
      define<Unpool>(
          {.name = "max_unpool",
           .min_args = 2,
           .max_args = 2,
           .kind = Kind::index,
           .traits = raw_moves,
           .infer = unpool_infer,
           .eval = unpool_eval,
           .onnx = {{.type = "MaxUnpool",
                     .since = 9,
                     .lower = unpool_lower,
                     .raise =
                         [](OnnxWriter& w) {
                           auto a = w.attrs.as<Unpool>();
                           return w.emit("MaxUnpool", w.args,
                                         {{"kernel_shape", a.kernel},
                                          {"strides", a.strides},
                                          {"pads", a.pads}});
                         }}},
           .doc = "elements put where max_pool_with_indices found them, zeros elsewhere"}),
  };
}

}  // namespace emend
