// Tensors that follow from sizes alone. ONNX has operators for them; once the sizes are known they
// are constants.
#include <cmath>
#include <numbers>

#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

using Lowered1 = Result<std::vector<NodeId>>;

struct Iota {
  Dims shape;
  int64_t axis = 0;
  DType dtype = DType::i64;
  EMEND_FIELDS(shape, axis, dtype)
};

// What is generated is stored: larger ones are refused.
constexpr int64_t kMaxGenerated = int64_t{1} << 24;

template <class F>
Tensor generated(DType dtype, Dims shape, const F& value) {
  auto n = checked_count(shape);
  if (!n || *n > kMaxGenerated) throw Error(str("a constant of shape ", shape_text(shape)));
  return Tensor::make(dtype, std::move(shape), [&](std::byte* out) {
    for (int64_t i = 0; i < *n; ++i) value(out, static_cast<size_t>(i));
  });
}

DType output_dtype(const OnnxCall& c, const std::string& attr, DType otherwise) {
  if (!c.has_attr(attr)) return otherwise;
  auto t = dtype_from_onnx(static_cast<int>(c.int_attr(attr, 1)));
  if (!t) throw Error(str(c.node.type, ": unknown element type ", c.int_attr(attr, 1)));
  return *t;
}

Lowered1 range_lower(OnnxCall& c) {
  auto start = c.value(0), limit = c.value(1), delta = c.value(2);
  if (!start || !limit || !delta) return fail("its bounds are not known before run time");
  if (start->count() < 1 || limit->count() < 1 || delta->count() < 1)
    throw Error("Range needs three numbers");
  DType t = start->dtype();
  if (is_float(t)) {
    double from = start->real(0), step = delta->real(0);
    double n = std::ceil((limit->real(0) - from) / step);
    if (!(n < static_cast<double>(kMaxGenerated))) throw Error("Range is too long");
    return std::vector{c.b.constant(
        generated(t, {static_cast<int64_t>(std::max(n, 0.0))}, [&](std::byte* out, size_t i) {
          store_real(t, out, i, from + static_cast<double>(i) * step);
        }))};
  }
  int64_t from = start->integer(0), to = limit->integer(0), step = delta->integer(0);
  if (step == 0) throw Error("Range: delta is 0");
  auto distance = static_cast<__int128>(to) - from;
  __int128 n = (distance + step + (step > 0 ? -1 : 1)) / step;
  if (n > kMaxGenerated) throw Error("Range is too long");
  auto length = n < 0 ? 0 : static_cast<int64_t>(n);
  return std::vector{c.b.constant(generated(t, {length}, [&](std::byte* out, size_t i) {
    // Every element lies between the bounds, but the product alone need not.
    auto element = static_cast<uint64_t>(from) + i * static_cast<uint64_t>(step);
    store_int(t, out, i, static_cast<int64_t>(element));
  }))};
}

Lowered1 eye_lower(OnnxCall& c) {
  const Dims& shape = c.type(0).shape;
  if (shape.size() != 2) throw Error(str("EyeLike needs a matrix, got ", shape_text(shape)));
  DType t = output_dtype(c, "dtype", c.type(0).dtype);
  int64_t k = c.int_attr("k", 0);
  return std::vector{c.b.constant(generated(t, shape, [&](std::byte* out, size_t i) {
    auto at = static_cast<int64_t>(i);
    store_real(t, out, i, at % shape[1] - at / shape[1] == k);
  }))};
}

// Window functions are sums of cosines: w[0] - w[1] cos(2 pi i / n) + w[2] cos(4 pi i / n).
OnnxRow window_row(const std::string& type, double w0, double w1, double w2) {
  auto lower = [=](OnnxCall& c) -> Lowered1 {
    auto size = c.ints(0);
    if (!size) return Failure{size.error()};
    if (size->size() != 1 || (*size)[0] < 0) throw Error(str(type, " needs one size"));
    DType t = output_dtype(c, "output_datatype", DType::f32);
    auto n = static_cast<double>((*size)[0] - (c.int_attr("periodic", 1) ? 0 : 1));
    return std::vector{c.b.constant(generated(t, *size, [&](std::byte* out, size_t i) {
      double angle = 2 * std::numbers::pi * static_cast<double>(i) / n;
      store_real(t, out, i, w0 - w1 * std::cos(angle) + w2 * std::cos(2 * angle));
    }))};
  };
  return {.type = type, .since = 17, .lower = lower, .lower_only = true};
}

// Triangles whose corners are equally spaced in mels, over the bins of a spectrum.
Lowered1 mel_lower(OnnxCall& c) {
  std::vector<double> v;
  for (size_t i = 0; i < 5; ++i) {
    auto value = c.value(i);
    if (!value) return fail("the value of input ", i, " is not known before run time");
    if (value->count() < 1) throw Error(str("MelWeightMatrix: input ", i, " is empty"));
    v.push_back(value->real(0));
  }
  double rate = v[2];
  auto is_size = [](double s) { return s >= 0 && s <= static_cast<double>(kMaxGenerated); };
  if (!is_size(v[0]) || !is_size(v[1]) || !(rate > 0))
    throw Error("MelWeightMatrix: sizes and rate are positive");
  auto bins = static_cast<int64_t>(v[0]), length = static_cast<int64_t>(v[1]);
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double low = mel(v[3]), step = (mel(v[4]) - low) / static_cast<double>(bins + 2);
  auto corner = [&](int64_t i) {
    double hertz = 700 * (std::pow(10, (low + static_cast<double>(i) * step) / 2595) - 1);
    double bin = std::floor(static_cast<double>(length + 1) * hertz / rate);
    return static_cast<int64_t>(std::min(std::max(bin, -1e9), 1e9));
  };
  DType t = output_dtype(c, "output_datatype", DType::f32);
  return std::vector{
      c.b.constant(generated(t, {length / 2 + 1, bins}, [&](std::byte* out, size_t i) {
        auto bin = static_cast<int64_t>(i) / bins, band = static_cast<int64_t>(i) % bins;
        int64_t left = corner(band), centre = corner(band + 1), right = corner(band + 2);
        auto part = [](int64_t a, int64_t b) {
          return static_cast<double>(a) / static_cast<double>(b);
        };
        double weight = 0;
        if (bin >= centre && bin < right)
          weight = part(right - bin, right - centre);
        else if (bin == centre)
          weight = 1;
        else if (bin >= left && bin < centre)
          weight = part(bin - left, centre - left);
        store_real(t, out, i, weight);
      }))};
}

}  // namespace

std::vector<OpDef> generate_ops() {
  return {define<Iota>(
      {.name = "iota",
       .min_args = 0,
       .max_args = 0,
       .kind = Kind::movement,
       .infer = [](const Iota& a, Types) -> Result<Type> {
         auto axis = normal_axis(a.axis, static_cast<int64_t>(a.shape.size()));
         if (!axis) return fail("iota: ", axis.error());
         return Type::tensor(a.dtype, a.shape);
       },
       .means =
           [](const Iota& a, Types) {
             auto rank = static_cast<int64_t>(a.shape.size());
             Meaning m;
             m.out = a.shape;
             m.body = iter(static_cast<int>(normal_axis(a.axis, rank).value_or_throw()));
             return m;
           },
       .expand =  // for formats that have no such operator
       [](GraphBuilder& b, const Iota& a, Args) {
         auto rank = static_cast<int64_t>(a.shape.size());
         auto axis = static_cast<size_t>(normal_axis(a.axis, rank).value_or_throw());
         int64_t inner = count(std::span(a.shape).subspan(axis + 1));
         return b.constant(generated(a.dtype, a.shape, [&](std::byte* out, size_t i) {
           auto at = static_cast<int64_t>(i) / inner % a.shape[axis];
           store_real(a.dtype, out, i, static_cast<double>(at));
         }));
       },
       .onnx = {{.type = "Range", .since = 11, .lower = range_lower, .lower_only = true},
                {.type = "EyeLike", .since = 9, .lower = eye_lower, .lower_only = true},
                window_row("HannWindow", 0.5, 0.5, 0),
                window_row("HammingWindow", 25.0 / 46, 21.0 / 46, 0),
                window_row("BlackmanWindow", 0.42, 0.5, 0.08),
                {.type = "MelWeightMatrix", .since = 17, .lower = mel_lower, .lower_only = true}},
       .doc = "every element its position along an axis"})};
}

}  // namespace emend
