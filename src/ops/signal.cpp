// Fourier transforms, as products with matrices of sines and cosines: exact in meaning,
// differentiable, and small signals are all that a reference needs.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ops/compose.h"
#include "ops/contraction.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

// Real parts and imaginary parts stand in the last dimension, of size 1 (real) or 2.
struct Dft {
  int64_t axis = -2;
  int64_t length = 0;  // the signal is cut or filled up with zeros to it
  bool inverse = false, onesided = false;
  EMEND_FIELDS(axis, length, inverse, onesided)
};

double turn(int64_t k, int64_t n, int64_t length) {
  return 2 * std::numbers::pi * static_cast<double>((k * n) % length) / static_cast<double>(length);
}

// What one part (0 real, 1 imaginary) of input n contributes to one part of output k.
double dft_weight(const Dft& a, int64_t n, int64_t part, int64_t k, int64_t out_part) {
  if (a.inverse && a.onesided) {
    // Half a spectrum stands for a symmetric one: all but the middle and the first count twice.
    if (n > a.length / 2) return 0;
    double twice = n == 0 || 2 * n == a.length ? 1 : 2, angle = turn(n, k, a.length);
    return twice / static_cast<double>(a.length) * (part ? -std::sin(angle) : std::cos(angle));
  }
  if (n >= a.length) return 0;
  double angle = a.inverse ? turn(n, k, a.length) : -turn(n, k, a.length);
  double value = part == out_part ? std::cos(angle) : part ? -std::sin(angle) : std::sin(angle);
  return a.inverse ? value / static_cast<double>(a.length) : value;
}

struct DftSizes {
  int64_t n, parts, outputs, out_parts;
};

// [n * parts, outputs * out_parts]
Tensor dft_matrix(const Dft& a, const DftSizes& s, DType dtype) {
  constexpr int64_t kMaxLength = int64_t{1} << 26, kMaxWeights = int64_t{1} << 23;
  if (s.n > kMaxLength || a.length > kMaxLength ||
      s.n * s.parts > kMaxWeights / std::max<int64_t>(1, s.outputs * s.out_parts))
    throw Error("the signal is too long");
  std::vector<double> m;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t part = 0; part < s.parts; ++part)
      for (int64_t k = 0; k < s.outputs; ++k)
        for (int64_t out_part = 0; out_part < s.out_parts; ++out_part)
          m.push_back(dft_weight(a, n, part, k, out_part));
  return Tensor::of_reals(dtype, {s.n * s.parts, s.outputs * s.out_parts}, m);
}

NodeId dft_expand(GraphBuilder& b, const Dft& a, Args args) {
  Formula x(b, args[0]);
  const Dims from = x.shape();
  int64_t rank = x.rank();
  if (rank < 2 || from.back() < 1 || from.back() > 2)
    throw Error(str("needs a last dimension of 1 or 2, got ", shape_text(from)));
  int64_t axis = normal_axis(a.axis, rank).value_or_throw();
  if (axis == rank - 1) throw Error("the last dimension holds real and imaginary parts");
  if (a.length < 1) throw Error(str("length ", a.length));
  DftSizes s{.n = from[static_cast<size_t>(axis)], .parts = from.back()};
  s.outputs = a.onesided && !a.inverse ? a.length / 2 + 1 : a.length;
  s.out_parts = a.onesided && a.inverse ? 1 : 2;
  // The axis moves beside the parts, and back.
  Dims perm, back(from.size());
  for (int64_t d = 0; d + 1 < rank; ++d)
    if (d != axis) perm.push_back(d);
  perm.push_back(axis);
  perm.push_back(rank - 1);
  for (size_t d = 0; d < perm.size(); ++d)
    back[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  Dims moved;
  for (int64_t p : perm) moved.push_back(from[static_cast<size_t>(p)]);
  moved[from.size() - 2] = s.outputs;
  moved[from.size() - 1] = s.out_parts;
  DType type = x.dtype(), wide = type == DType::f64 ? type : DType::f32;
  Formula matrix(b, b.constant(dft_matrix(a, s, wide)));
  int64_t outer = count(from) / std::max<int64_t>(1, s.n * s.parts);
  Formula flat = reshape(transpose(cast(x, wide), perm), {outer, s.n * s.parts});
  return cast(transpose(reshape(matmul(flat, matrix), moved), back), type);
}

struct Stft {
  int64_t frame_step = 1, frame_length = 1;
  bool onesided = true;
  EMEND_FIELDS(frame_step, frame_length, onesided)
};

// Frames are windows of a convolution whose weights are the transform, weighted by the window.
NodeId stft_expand(GraphBuilder& b, const Stft& a, Args args) {
  Formula x(b, args[0]);
  Dims from = x.shape();
  if (from.size() == 2) from.push_back(1);
  if (from.size() != 3 || from[2] < 1 || from[2] > 2 || a.frame_length < 1)
    throw Error(str("needs a signal [batch, length, 1 or 2], got ", shape_text(x.shape())));
  DftSizes s{a.frame_length, from[2], a.onesided ? a.frame_length / 2 + 1 : a.frame_length, 2};
  Dft transform{.length = a.frame_length, .onesided = a.onesided};
  DType type = x.dtype(), wide = type == DType::f64 ? type : DType::f32;
  Formula matrix(b, b.constant(dft_matrix(transform, s, wide)));
  Formula weights = transpose(reshape(matrix, {s.n, s.parts, s.outputs * 2}), {2, 1, 0});
  if (args.size() > 1) weights = weights * cast(Formula(b, args[1]), wide);
  Formula signal = transpose(reshape(cast(x, wide), from), {0, 2, 1});
  Conv frames{{a.frame_step}, {1}, {0, 0}, 1};
  Formula y = apply("conv", {signal, weights}, to_attrs(frames));
  return cast(reshape(transpose(y, {0, 2, 1}), {from[0], y.dim(2), s.outputs, 2}), type);
}

// --- ONNX ---

// A number from an input; `otherwise` where it is absent.
Result<int64_t> number_of(const OnnxCall& c, size_t input, int64_t otherwise) {
  if (!c.has(input)) return otherwise;
  auto v = c.ints(input);
  if (!v) return Failure{v.error()};
  return v->empty() ? otherwise : (*v)[0];
}

Result<std::vector<NodeId>> dft_lower(OnnxCall& c) {
  bool axis_is_input = c.version() >= 20;
  auto axis = axis_is_input ? number_of(c, 2, -2) : Result<int64_t>(c.int_attr("axis", 1));
  if (!axis) return Failure{axis.error()};
  Dft a{.inverse = c.int_attr("inverse", 0) != 0, .onesided = c.int_attr("onesided", 0) != 0};
  a.axis = normal_axis(*axis, c.type(0).rank()).value_or_throw();
  int64_t n = c.type(0).shape[static_cast<size_t>(a.axis)];
  auto length = number_of(c, 1, a.inverse && a.onesided ? 2 * (n - 1) : n);
  if (!length) return Failure{length.error()};
  a.length = *length;
  return std::vector{c.b.op("dft", {c.inputs[0]}, a)};
}

std::vector<NodeId> dft_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Dft>();
  if (a.inverse && a.onesided) return {};  // not everywhere understood: written as a product
  std::vector<NodeId> in = {w.args[0], w.b.constant(Tensor::of_int(a.length))};
  std::vector<Attrs::Entry> attributes = {{"inverse", int64_t{a.inverse}},
                                          {"onesided", int64_t{a.onesided}}};
  if (w.opset >= 20)
    in.push_back(w.b.constant(Tensor::of_int(a.axis)));
  else
    attributes.emplace_back("axis", a.axis);
  return w.emit("DFT", in, attributes);
}

Result<std::vector<NodeId>> stft_lower(OnnxCall& c) {
  const Dims& signal = c.type(0).shape;
  if (signal.size() < 2) throw Error("STFT needs a batch of signals");
  if (c.has(2) && c.type(2).rank() != 1) throw Error("STFT: the window is a vector");
  int64_t natural = c.has(2) ? c.type(2).shape[0] : signal[1];
  auto step = number_of(c, 1, 1), length = number_of(c, 3, natural);
  if (!step) return Failure{step.error()};
  if (!length) return Failure{length.error()};
  std::vector<NodeId> args = {c.inputs[0]};
  if (c.has(2)) args.push_back(c.inputs[2]);
  Stft a{*step, *length, c.int_attr("onesided", 1) != 0};
  return std::vector{c.b.op("stft", args, to_attrs(a))};
}

std::vector<NodeId> stft_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Stft>();
  return w.emit(
      "STFT",
      {w.args[0], w.b.constant(Tensor::of_int(a.frame_step)),
       w.args.size() > 1 ? w.args[1] : NodeId(), w.b.constant(Tensor::of_int(a.frame_length))},
      {{"onesided", int64_t{a.onesided}}});
}

}  // namespace

std::vector<OpDef> signal_ops() {
  return {
      define<Dft>({.name = "dft",
                   .traits = multilinear,
                   .expand = dft_expand,
                   .onnx = {{.type = "DFT", .since = 17, .lower = dft_lower, .raise = dft_raise}},
                   .doc = "discrete Fourier transform along an axis; the last dimension holds "
                          "real and imaginary parts"}),
      define<Stft>(
          {.name = "stft",
           .min_args = 1,
           .max_args = 2,
           .traits = multilinear,
           .expand = stft_expand,
           .onnx = {{.type = "STFT", .since = 17, .lower = stft_lower, .raise = stft_raise}},
           .doc = "Fourier transforms of frames of a signal, weighted by a window"}),
  };
}

}  // namespace emend
