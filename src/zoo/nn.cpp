#include "zoo/nn.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "ops/composite.h"
#include "ops/contraction.h"
#include "ops/movement.h"
#include "ops/window.h"

namespace emend {
namespace {

// One number per dimension from a list of that length or of one number.
Dims spread(const Dims& given, size_t n) {
  EMEND_ASSERT(given.size() == 1 || given.size() == n, shape_text(given), " for ", n);
  return given.size() == n ? given : Dims(n, given[0]);
}

// Begins and ends.
Dims both_sides(const Dims& given, size_t n) {
  if (given.size() == 2 * n) return given;
  Dims pads = spread(given, n);
  pads.insert(pads.end(), pads.begin(), pads.begin() + static_cast<int64_t>(n));
  return pads;
}

// Uniform numbers, four from each call of the generator.
Tensor random_tensor(uint64_t seed, uint64_t stream, Dims shape, double deviation, double mean) {
  const double half_width = deviation * std::sqrt(3.0);
  int64_t n = count(shape);
  return Tensor::make(DType::f32, std::move(shape), [&](std::byte* out) {
    parallel_for((n + 3) / 4, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t quad = begin; quad < end; ++quad) {
        auto bits = philox(seed, stream, static_cast<uint64_t>(quad));
        std::array<float, 4> values;
        for (size_t i = 0; i < 4; ++i) {
          double unit = static_cast<double>(static_cast<int32_t>(bits[i])) * 0x1p-31;
          values[i] = static_cast<float>(mean + half_width * unit);
        }
        auto left = static_cast<size_t>(std::min<int64_t>(4, n - quad * 4));
        std::memcpy(out + quad * 16, values.data(), left * sizeof(float));
      }
    });
  });
}

}  // namespace

void Net::enter(const std::string& at) {
  int use = uses_[at]++;
  b_.set_origin(use == 0 ? at : str(at, "_", use));
}

NodeId Net::input(const std::string& name, Dims shape, DType dtype) {
  for (int64_t d : shape) {
    if (d < 1) throw Error(str("input ", name, " would be empty: ", shape_text(shape)));
  }
  return b_.input(name, Type::tensor(dtype, std::move(shape)));
}

NodeId Net::constant(const std::string& name, Tensor value) {
  NodeId n = b_.constant(std::move(value));
  b_.name(n, name);
  return n;
}

NodeId Net::parameter(const std::string& name, Dims shape, double deviation, double mean) {
  return constant(name, weights_ ? random_tensor(seed_, hash_text(name), shape, deviation, mean)
                                 : Tensor::zeros(DType::f32, shape));
}

NodeId Net::op(const std::string& at, std::string_view name, std::initializer_list<NodeId> args,
               Attrs attrs) {
  enter(at);
  return b_.op(name, args, attrs);
}

NodeId Net::reshape(const std::string& at, NodeId x, Dims shape) {
  return op(at, "reshape", {x}, Reshape{std::move(shape)});
}

NodeId Net::transpose(const std::string& at, NodeId x, Dims perm) {
  return op(at, "transpose", {x}, Transpose{std::move(perm)});
}

NodeId Net::slice(const std::string& at, NodeId x, int64_t axis, int64_t start, int64_t size) {
  Slice s{.starts = Dims(shape(x).size(), 0), .sizes = shape(x), .steps = Dims(shape(x).size(), 1)};
  s.starts.at(static_cast<size_t>(axis)) = start;
  s.sizes.at(static_cast<size_t>(axis)) = size;
  return op(at, "slice", {x}, s);
}

NodeId Net::concat(const std::string& at, const std::vector<NodeId>& parts, int64_t axis) {
  enter(at);
  return b_.op("concat", parts, to_attrs(Axis{axis}));
}

NodeId Net::flatten(const std::string& at, NodeId x) {
  int64_t rows = shape(x).at(0);
  return reshape(at, x, {rows, count(shape(x)) / rows});
}

NodeId Net::softmax(const std::string& at, NodeId x, int64_t axis) {
  return op(at, "softmax", {x}, Softmax{axis});
}

NodeId Net::conv(const std::string& at, NodeId x, int64_t filters, const WindowStyle& w,
                 const ConvStyle& style) {
  size_t spatial = shape(x).size() - 2;
  Dims shape_of_weights = {filters, channels(x) / style.groups};
  for (int64_t k : spread(w.kernel, spatial)) shape_of_weights.push_back(k);
  double fan_in = static_cast<double>(count(shape_of_weights) / filters);
  NodeId weights = parameter(at + ".weight", shape_of_weights, style.gain / std::sqrt(fan_in));
  Conv attrs{.strides = spread(w.stride, spatial),
             .dilations = spread(w.dilation, spatial),
             .pads = both_sides(w.pad, spatial),
             .group = style.groups};
  if (!style.bias) return op(at, "conv", {x, weights}, attrs);
  NodeId bias = parameter(at + ".bias", {filters}, 0.1);
  NodeId y = op(at, "conv", {x, weights}, attrs);
  return b_.op("add", {y, add_spatial_dims(b_, bias, spatial)});
}

NodeId Net::linear(const std::string& at, NodeId x, int64_t out, bool bias, double gain) {
  int64_t in = shape(x).back();
  NodeId w = parameter(at + ".weight", {out, in}, gain / std::sqrt(static_cast<double>(in)));
  NodeId addend = bias ? parameter(at + ".bias", {out}, 0.1) : NodeId();
  if (shape(x).size() == 2) {
    Gemm attrs{.trans_b = true};
    return bias ? op(at, "gemm", {x, w, addend}, attrs) : op(at, "gemm", {x, w}, attrs);
  }
  NodeId y = op(at, "matmul", {x, transpose(at + ".t", w, {1, 0})});
  return bias ? b_.op("add", {y, addend}) : y;
}

NodeId Net::batch_norm(const std::string& at, NodeId x, double epsilon, double gain) {
  Dims c = {channels(x)};
  NodeId scale = parameter(at + ".weight", c, 0.15 * gain, gain);
  NodeId bias = parameter(at + ".bias", c, 0.1);
  NodeId mean = parameter(at + ".running_mean", c, 0.2);
  NodeId variance = parameter(at + ".running_var", c, 0.2, 1);
  return op(at, "batch_norm", {x, scale, bias, mean, variance}, Epsilon{epsilon});
}

NodeId Net::layer_norm(const std::string& at, NodeId x, double epsilon) {
  Dims width = {shape(x).back()};
  NodeId scale = parameter(at + ".weight", width, 0.15, 1);
  NodeId bias = parameter(at + ".bias", width, 0.1);
  return op(at, "layer_norm", {x, scale, bias}, LayerNorm{.epsilon = epsilon});
}

NodeId Net::rms_norm(const std::string& at, NodeId x, double epsilon) {
  NodeId scale = parameter(at + ".weight", {shape(x).back()}, 0.15, 1);
  return op(at, "rms_norm", {x, scale}, RmsNorm{.epsilon = epsilon});
}

NodeId Net::embedding(const std::string& at, NodeId ids, int64_t rows, int64_t width,
                      double deviation) {
  NodeId table = parameter(at + ".weight", {rows, width}, deviation);
  return op(at, "gather", {table, ids}, Axis{0});
}

NodeId Net::max_pool(const std::string& at, NodeId x, const WindowStyle& w, bool ceil) {
  size_t spatial = shape(x).size() - 2;
  Pool p{.kernel = spread(w.kernel, spatial),
         .strides = spread(w.stride, spatial),
         .dilations = spread(w.dilation, spatial),
         .pads = both_sides(w.pad, spatial)};
  for (size_t d = 0; d < spatial && ceil; ++d) {
    int64_t room = shape(x)[d + 2] + p.pads[d] + p.pads[d + spatial] - p.kernel[d];
    if (int64_t rest = room % p.strides[d]) p.pads[d + spatial] += p.strides[d] - rest;
  }
  return op(at, "max_pool", {x}, p);
}

NodeId Net::average_pool(const std::string& at, NodeId x, const WindowStyle& w, bool count_pads) {
  size_t spatial = shape(x).size() - 2;
  return op(at, "avg_pool", {x},
            AveragePool{.kernel = spread(w.kernel, spatial),
                        .strides = spread(w.stride, spatial),
                        .dilations = spread(w.dilation, spatial),
                        .pads = both_sides(w.pad, spatial),
                        .count_include_pad = count_pads});
}

NodeId Net::global_average_pool(const std::string& at, NodeId x) {
  Dims axes;
  for (size_t d = 2; d < shape(x).size(); ++d) axes.push_back(static_cast<int64_t>(d));
  return op(at, "reduce_mean", {x}, Attrs({{"axes", axes}, {"keepdims", true}}));
}

}  // namespace emend
