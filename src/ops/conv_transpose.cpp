// Convolutions that are made of plain ones: transposed (and with it Col2Im), and the causal one
// that carries its last inputs to the next call.
#include <algorithm>
#include <numeric>

#include "ops/compose.h"
#include "ops/contraction.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

struct ConvTranspose {
  Dims strides, dilations;
  Dims pads;            // begins, then ends: cropped from the output
  Dims output_padding;  // added at its ends
  int64_t group = 1;
  EMEND_FIELDS(strides, dilations, pads, output_padding, group)
};

// One spatial dimension: output s q + r is the sum of x[q + o] w[k] with s o = r + begin - k. So
// every phase r is a plain convolution, of the `taps` inputs from q + first on; where some phases
// see others than the rest, their weights there are zeros. (With a stride of one the plain
// convolution is dilated, else the weights are.)
struct Phases {
  int64_t stride = 1, dilation = 1, taps = 1, first = 0;
  int64_t outputs = 1;  // of a phase
  int64_t apart = 1;    // from one weight to the next
  int64_t zeros = 0;    // before the weights
  int64_t fewest = 1;   // taps that one phase needs
  int64_t halves = 1;   // see `halve`

  Phases(int64_t stride_, int64_t dilation_, int64_t kernel, int64_t begin, int64_t output)
      : stride(stride_), outputs((output + stride_ - 1) / stride_) {
    if (stride == 1) {
      dilation = dilation_;
      taps = fewest = kernel;
      first = begin - dilation * (kernel - 1);
      return;
    }
    auto floored = [](int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); };
    apart = dilation_;
    int64_t reach = apart * (kernel - 1), last = floored(stride - 1 + begin, stride);
    first = -floored(reach - begin, stride);
    taps = last - first + 1;
    zeros = stride * last - begin;
    fewest = reach / stride + 1;
  }
  // If it is the second half of the phases that begins one input later, all are computed for q from
  // 0 to `outputs`, of which each half leaves one out: then nothing is multiplied by zeros.
  bool can_halve() const { return taps > fewest && 2 * zeros == stride; }
  void halve() {
    first += taps - 1 - fewest;
    taps = fewest;
    zeros = 0;
    halves = 2;
  }
  int64_t computed() const { return outputs + halves - 1; }  // of a phase
};

// Halves are interleaved in a pass of their own: worth it from half of the products on.
void halve_phases(std::vector<Phases>& phases) {
  int64_t less = 1, more = 1;
  for (const Phases& p : phases) {
    if (p.can_halve()) less *= p.fewest, more *= p.taps;
  }
  if (more < 2 * less) return;
  for (Phases& p : phases) {
    if (p.can_halve()) p.halve();
  }
}

// Weights w[c, f, k..] with zeros between and around them: stride times taps in all.
NodeId spread_weights(GraphBuilder& b, NodeId w, const std::vector<Phases>& phases) {
  const Dims from = b.shape(w);
  const size_t n = phases.size();
  Dims split(from.begin(), from.begin() + 2), joined = split;
  Pad gaps{.pads = Dims(2 * (2 + 2 * n), 0)}, border{.pads = Dims(2 * (2 + n), 0)};
  for (size_t d = 0; d < n; ++d) {
    const Phases& p = phases[d];
    split.insert(split.end(), {from[d + 2], 1});
    gaps.pads[2 + 2 * n + 2 * d + 3] = p.apart - 1;
    joined.push_back(from[d + 2] * p.apart);
    border.pads[d + 2] = p.zeros;
    border.pads[2 + n + d + 2] = p.stride * p.taps - p.zeros - joined.back();
  }
  if (joined != from) {
    w = b.op("reshape", {b.op("pad", {b.op("reshape", {w}, Reshape{split})}, gaps)},
             Reshape{joined});
  }
  return b.op("pad", {w}, border);
}

// w[c, f/g, k..] as weights [f * phases, c/g, taps..] of the plain convolution.
NodeId phase_weights(GraphBuilder& b, NodeId w, int64_t group, const std::vector<Phases>& phases) {
  w = spread_weights(b, w, phases);
  const Dims from = b.shape(w);
  Dims split = {group, from[0] / group, from[1]}, perm = {0, 2}, last = {1};
  Dims joined = {group * from[1], from[0] / group};
  for (const Phases& p : phases) {
    auto axis = static_cast<int64_t>(split.size());
    split.insert(split.end(), {p.taps, p.halves, p.stride / p.halves});
    perm.insert(perm.end(), {axis + 1, axis + 2});
    last.push_back(axis);
    joined[0] *= p.stride;
    joined.push_back(p.taps);
  }
  perm.insert(perm.end(), last.begin(), last.end());
  // Taps and halves run backwards.
  Slice flip{.starts = Dims(split.size(), 0), .sizes = split, .steps = Dims(split.size(), 1)};
  for (size_t d = 0; d < phases.size(); ++d) {
    for (size_t axis : {3 + 3 * d, 4 + 3 * d}) {
      flip.starts[axis] = split[axis] - 1;
      flip.steps[axis] = -1;
    }
  }
  NodeId flipped = b.op("slice", {b.op("reshape", {w}, Reshape{split})}, flip);
  return b.op("reshape", {b.op("transpose", {flipped}, Transpose{perm})}, Reshape{joined});
}

// y[n, f * phases, computed..] as [n, f, outputs..].
NodeId interleaved(GraphBuilder& b, NodeId y, const std::vector<Phases>& phases,
                   const Dims& outputs) {
  if (std::ranges::all_of(phases, [](const Phases& p) { return p.stride == 1; })) return y;
  const size_t n = phases.size();
  const Dims whole(outputs.begin(), outputs.begin() + 2);
  // [halves, computed] as one number is, from one row of `outputs` + 2 to the next, one more than a
  // row of it: the second half from its second on.
  Dims split = whole, by_half = {0, 1}, flat = whole, skewed = whole, cut = whole,
       by_place = {0, 1}, joined = whole;
  Pad end{.pads = Dims(2 * (2 + 2 * n), 0)};
  for (const Phases& p : phases) split.insert(split.end(), {p.halves, p.stride / p.halves});
  for (size_t d = 0; d < n; ++d) {
    const Phases& p = phases[d];
    int64_t rest = p.stride / p.halves, more = 2 * (p.halves - 1);
    auto half = static_cast<int64_t>(2 + 2 * d), place = static_cast<int64_t>(2 + 2 * n + d),
         axis = static_cast<int64_t>(2 + 3 * d);
    split.push_back(p.computed());
    by_half.insert(by_half.end(), {half, place, half + 1});
    flat.insert(flat.end(), {p.halves * p.computed(), rest});
    end.pads[2 + 2 * n + 2 + 2 * d] = more;
    skewed.insert(skewed.end(), {p.halves, p.outputs + more, rest});
    cut.insert(cut.end(), {p.halves, p.outputs, rest});
    by_place.insert(by_place.end(), {axis + 1, axis, axis + 2});
    joined.push_back(p.outputs * p.stride);
  }
  y = b.op("transpose", {b.op("reshape", {y}, Reshape{split})}, Transpose{by_half});
  if (skewed != cut) {
    y = b.op("pad", {b.op("reshape", {y}, Reshape{flat})}, end);
    y = b.op("slice", {b.op("reshape", {y}, Reshape{skewed})},
             Slice{Dims(cut.size(), 0), cut, Dims(cut.size(), 1)});
  }
  y = b.op("reshape", {b.op("transpose", {y}, Transpose{by_place})}, Reshape{joined});
  if (joined == outputs) return y;
  return b.op("slice", {y}, Slice{Dims(n + 2, 0), outputs, Dims(n + 2, 1)});
}

NodeId conv_transpose_expand(GraphBuilder& b, const ConvTranspose& a, Args args) {
  const Dims x = b.shape(args[0]), w = b.shape(args[1]);
  size_t n = a.strides.size();
  if (x.size() != n + 2 || w.size() != n + 2 || a.dilations.size() != n || a.pads.size() != 2 * n ||
      a.output_padding.size() != n) {
    throw Error(str("input ", shape_text(x), ", weights ", shape_text(w), " and ", n,
                    " strides do not fit"));
  }
  if (a.group < 1 || x[1] != w[0] || w[0] % a.group != 0)
    throw Error(str(x[1], " channels against weights ", shape_text(w), " in ", a.group, " groups"));
  auto kernel = std::span(w).subspan(2);
  if (auto fault = window_fault(kernel, a.strides, a.dilations, a.pads)) throw Error(*fault);
  if (auto fault = window_fault(kernel, a.strides, a.dilations, a.output_padding))
    throw Error(*fault);
  if (std::ranges::any_of(std::span(x).subspan(2), [](int64_t v) { return v < 1; }))
    throw Error(str("nothing to spread in ", shape_text(x)));
  std::vector<Phases> phases;
  Dims outputs = {x[0], w[1] * a.group}, ones(n, 1), dilations;
  Pad border{.pads = Dims(2 * (n + 2), 0)};
  for (size_t d = 0; d < n; ++d) {
    outputs.push_back((x[d + 2] - 1) * a.strides[d] + a.dilations[d] * (w[d + 2] - 1) + 1 -
                      a.pads[d] - a.pads[d + n] + a.output_padding[d]);
    if (outputs.back() < 1) throw Error(str("pads leave nothing of the result of ", shape_text(x)));
    phases.emplace_back(a.strides[d], a.dilations[d], w[d + 2], a.pads[d], outputs.back());
  }
  halve_phases(phases);
  for (size_t d = 0; d < n; ++d) {
    const Phases& p = phases[d];
    dilations.push_back(p.dilation);
    border.pads[d + 2] = -p.first;
    border.pads[n + 2 + d + 2] = p.computed() + p.first + p.dilation * (p.taps - 1) - x[d + 2];
  }
  Conv plain{ones, dilations, Dims(2 * n, 0), a.group};
  NodeId weights = phase_weights(b, args[1], a.group, phases);
  NodeId y = b.op("conv", {b.op("pad", {args[0]}, border), weights}, plain);
  return interleaved(b, y, phases, outputs);
}

// Pads that give the wanted output size. A size beyond the natural one is filled up at the end.
void fit_output(ConvTranspose& a, size_t d, int64_t natural, int64_t wanted, bool more_at_end) {
  size_t n = a.strides.size();
  int64_t total = natural + a.output_padding[d] - wanted;
  if (total < 0) {
    a.output_padding[d] -= total;
    total = 0;
  }
  a.pads[d] = more_at_end ? total / 2 : total - total / 2;
  a.pads[d + n] = total - a.pads[d];
}

Result<std::vector<NodeId>> conv_transpose_lower(OnnxCall& c) {
  const Dims &x = c.type(0).shape, &w = c.type(1).shape;
  if (x.size() < 3 || w.size() != x.size()) {
    throw Error(str("ConvTranspose needs input and weights of equal rank 3 or more, got ",
                    shape_text(x), " and ", shape_text(w)));
  }
  size_t n = x.size() - 2;
  ConvTranspose a;
  a.strides = c.ints_attr("strides", Dims(n, 1));
  a.dilations = c.ints_attr("dilations", Dims(n, 1));
  a.pads = c.ints_attr("pads", Dims(2 * n, 0));
  a.output_padding = c.ints_attr("output_padding", Dims(n, 0));
  a.group = c.int_attr("group", 1);
  Dims wanted = c.ints_attr("output_shape");
  std::string mode = c.text_attr("auto_pad", "NOTSET");
  if (a.strides.size() != n || a.dilations.size() != n || a.output_padding.size() != n ||
      a.pads.size() != 2 * n) {
    throw Error("ConvTranspose: attributes need one entry per spatial dimension");
  }
  if (auto fault = window_fault(std::span(w).subspan(2), a.strides, a.dilations, wanted))
    throw Error(str("ConvTranspose: ", *fault));
  if (mode == "VALID") a.pads = Dims(2 * n, 0);
  if (wanted.size() > n) wanted.erase(wanted.begin(), wanted.end() - static_cast<int64_t>(n));
  for (size_t d = 0; d < n; ++d) {
    int64_t natural = (x[d + 2] - 1) * a.strides[d] + a.dilations[d] * (w[d + 2] - 1) + 1;
    if (wanted.size() == n) {
      fit_output(a, d, natural, wanted[d], mode == "SAME_UPPER");
    } else if (mode.starts_with("SAME")) {
      fit_output(a, d, natural, x[d + 2] * a.strides[d], mode == "SAME_UPPER");
    }
  }
  NodeId y = c.b.op("conv_transpose", {c.inputs[0], c.inputs[1]}, a);
  if (c.has(2)) y = c.b.op("add", {y, add_spatial_dims(c.b, c.inputs[2], n)});
  return std::vector{y};
}

std::vector<NodeId> conv_transpose_raise(OnnxWriter& w) {
  auto a = w.attrs.as<ConvTranspose>();
  Dims kernel(w.types[1].shape.begin() + 2, w.types[1].shape.end());
  return w.emit("ConvTranspose", w.args,
                {{"strides", a.strides},
                 {"dilations", a.dilations},
                 {"pads", a.pads},
                 {"output_padding", a.output_padding},
                 {"group", a.group},
                 {"kernel_shape", kernel}});
}

struct Fold {
  Dims image, block;  // spatial sizes of the image and of a block
  Dims strides, dilations, pads;
  EMEND_FIELDS(image, block, strides, dilations, pads)
};

constexpr int64_t kMaxPlaces = 2048;

// Blocks laid back where they were cut out, overlaps added: the transposed convolution whose
// kernel has one 1 for each place of a block.
NodeId fold_expand(GraphBuilder& b, const Fold& a, Args args) {
  const Dims x = b.shape(args[0]);
  size_t n = a.image.size();
  if (auto fault = window_fault(a.block, a.strides, a.dilations, a.pads)) throw Error(*fault);
  if (auto fault = window_fault(a.image, {}, {}, {})) throw Error(*fault);
  // One place of a block takes a row and a column of the weights.
  int64_t places = checked_count(a.block).value_or(0);
  if (places > kMaxPlaces) throw Error(str("blocks of ", shape_text(a.block)));
  if (x.size() != 3 || a.block.size() != n || a.strides.size() != n || a.dilations.size() != n ||
      a.pads.size() != 2 * n || places < 1 || x[1] % places != 0) {
    throw Error(str("columns ", shape_text(x), " do not fit blocks of ", shape_text(a.block)));
  }
  ConvTranspose t{a.strides, a.dilations, a.pads, Dims(n, 0), 1};
  Dims grid = {x[0] * (x[1] / places), places}, kernel = {places, 1}, image = {x[0], x[1] / places};
  for (size_t d = 0; d < n; ++d) {
    int64_t room = a.image[d] + a.pads[d] + a.pads[d + n] - a.dilations[d] * (a.block[d] - 1) - 1;
    if (room < 0) throw Error("a block does not fit the image");
    grid.push_back(room / a.strides[d] + 1);
    t.output_padding[d] = room % a.strides[d];
    kernel.push_back(a.block[d]);
    image.push_back(a.image[d]);
  }
  std::vector<double> ones(static_cast<size_t>(places * places), 0);
  for (int64_t i = 0; i < places; ++i) ones[static_cast<size_t>(i * places + i)] = 1;
  NodeId weights = b.constant(Tensor::of_reals(b.dtype(args[0]), kernel, ones));
  NodeId blocks = b.op("reshape", {args[0]}, Reshape{grid});
  return b.op("reshape", {b.op("conv_transpose", {blocks, weights}, t)}, Reshape{image});
}

Result<std::vector<NodeId>> fold_lower(OnnxCall& c) {
  auto image = c.ints(1), block = c.ints(2);
  if (!image) return Failure{image.error()};
  if (!block) return Failure{block.error()};
  size_t n = image->size();
  Fold a{*image, *block, c.ints_attr("strides", Dims(n, 1)), c.ints_attr("dilations", Dims(n, 1)),
         c.ints_attr("pads", Dims(2 * n, 0))};
  return std::vector{c.b.op("fold_blocks", {c.inputs[0]}, a)};
}

// --- the causal convolution ---

struct CausalConv {
  bool has_bias = false, has_state = false;
  std::string activation = "none";
  EMEND_FIELDS(has_bias, has_state, activation)
};

NodeId causal_conv_expand(GraphBuilder& b, const CausalConv& a, Args args) {
  NodeId x = args[0], w = args[1];
  const Dims shape = b.shape(x), kernel = b.shape(w);
  if (args.size() != 2u + a.has_bias + a.has_state) throw Error("bias or state is missing");
  if (shape.size() != 3 || kernel.size() != 3 || kernel[2] < 1)
    throw Error(str("needs x[n,c,l] and w[c,1,k], got ", shape_text(shape), shape_text(kernel)));
  int64_t carried = kernel[2] - 1;
  NodeId sequence = a.has_state ? b.op("concat", {args.back(), x}, Axis{2})
                                : b.op("pad", {x}, Pad{.pads = {0, 0, carried, 0, 0, 0}});
  NodeId y = b.op("conv", {sequence, w}, Conv{{1}, {1}, {0, 0}, shape[1]});
  if (a.has_bias) y = b.op("add", {y, add_spatial_dims(b, args[2], 1)});
  if (a.activation == "silu" || a.activation == "swish")
    y = Formula(b, y) / (exp(-Formula(b, y)) + 1.0);
  else if (a.activation != "none")
    throw Error(str("unknown activation ", a.activation));
  Slice last{
      .starts = {0, 0, shape[2]}, .sizes = {shape[0], shape[1], carried}, .steps = {1, 1, 1}};
  return b.op("tuple", {y, b.op("slice", {sequence}, last)});
}

Result<std::vector<NodeId>> causal_conv_lower(OnnxCall& c) {
  CausalConv a{c.has(2), c.has(3), c.text_attr("activation", "none")};
  std::vector<NodeId> args;
  for (NodeId n : c.inputs) {
    if (n.valid()) args.push_back(n);
  }
  return c.b.get_all(c.b.op("causal_conv", args, to_attrs(a)));
}

std::vector<NodeId> causal_conv_raise(OnnxWriter& w) {
  auto a = w.attrs.as<CausalConv>();
  std::vector<NodeId> in = {w.args[0], w.args[1], a.has_bias ? w.args[2] : NodeId(),
                            a.has_state ? w.args.back() : NodeId()};
  return w.emit("CausalConvWithState", in, {{"activation", a.activation}}, 2);
}

}  // namespace

std::vector<OpDef> conv_transpose_ops() {
  return {
      define<ConvTranspose>({.name = "conv_transpose",
                             .min_args = 2,
                             .max_args = 2,
                             .traits = multilinear,
                             .expand = conv_transpose_expand,
                             .onnx = {{.type = "ConvTranspose",
                                       .lower = conv_transpose_lower,
                                       .raise = conv_transpose_raise}},
                             .doc = "transposed convolution: a plain one for every phase of the "
                                    "stride, with flipped weights, interleaved"}),
      // Read as conv_transpose and add; formed last, since ONNX has one node for both.
      define<ConvTranspose>(
          {.name = "conv_transpose_bias",
           .min_args = 3,
           .max_args = 3,
           .expand =
               [](GraphBuilder& b, const ConvTranspose& a, Args args) {
                 if (b.type(args[2]).rank() != 1) throw Error("the bias is no vector");
                 NodeId y = b.op("conv_transpose", {args[0], args[1]}, a);
                 return b.op("add", {y, add_spatial_dims(b, args[2], a.strides.size())});
               },
           .onnx = {{.type = "ConvTranspose", .raise = conv_transpose_raise}},
           .doc = "transposed convolution plus one number per filter"}),
      define<Fold>({.name = "fold_blocks",
                    .traits = multilinear,
                    .expand = fold_expand,
                    .onnx = {{.type = "Col2Im",
                              .since = 18,
                              .lower = fold_lower,
                              .raise =
                                  [](OnnxWriter& w) {
                                    auto a = w.attrs.as<Fold>();
                                    return w.emit("Col2Im",
                                                  {w.args[0], w.ints(a.image), w.ints(a.block)},
                                                  {{"strides", a.strides},
                                                   {"dilations", a.dilations},
                                                   {"pads", a.pads}});
                                  }}},
                    .doc = "columns of blocks laid back into an image, overlaps added"}),
      define<CausalConv>({.name = "causal_conv",
                          .min_args = 2,
                          .max_args = 4,
                          .expand = causal_conv_expand,
                          .onnx = {{.type = "CausalConvWithState",
                                    .since = 27,
                                    .lower = causal_conv_lower,
                                    .raise = causal_conv_raise}},
                          .doc = "depthwise convolution over present and past positions; the last "
                                 "ones are carried to the next call"}),
  };
}

}  // namespace emend
