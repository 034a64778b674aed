// Normalisations: subtract a mean, divide by a deviation, scale and shift. Variances are means of
// squared deviations (two passes), which loses less than E[x^2] - E[x]^2 and is never negative.
#include <algorithm>
#include <numeric>

#include "ops/compose.h"
#include "ops/composite.h"
#include "ops/contraction.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

// The axes first, first+1, .. of a rank.
Dims axes_from(int64_t first, int64_t rank) {
  Dims axes(static_cast<size_t>(std::max<int64_t>(rank - first, 0)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

struct Standardised {
  Formula y, mean, deviation;
};

Standardised standardise(const Formula& x, const Dims& axes, double epsilon) {
  Formula m = mean(x, axes);
  Formula centred = x - m;
  Formula deviation = sqrt(mean(centred * centred, axes) + epsilon);
  return {centred / deviation, m, deviation};
}

void need_rank(const Formula& x, int64_t least) {
  if (x.rank() < least)
    throw Error(str("needs rank ", least, " or more, got ", shape_text(x.shape())));
}

// A parameter of one entry per channel (dimension 1 of x), shaped so that it broadcasts against x.
Formula per_channel(const Formula& parameter, const Formula& x) {
  if (parameter.shape() != Dims{x.dim(1)}) {
    throw Error(str("a parameter is ", shape_text(parameter.shape()), " for ", x.dim(1),
                    " channels of ", shape_text(x.shape())));
  }
  return {x.builder(), add_spatial_dims(x.builder(), parameter, x.shape().size() - 2)};
}

// --- batch normalisation ---

// Operands of several float types (statistics wider than data) are computed in the widest.
std::vector<Formula> widened(GraphBuilder& b, Args args) {
  auto all = formulas(b, args);
  auto wider = [](const Formula& p, const Formula& q) {
    return info(p.dtype()).bits < info(q.dtype()).bits;
  };
  DType wide = std::max_element(all.begin(), all.end(), wider)->dtype();
  for (Formula& e : all) e = cast(e, wide);
  return all;
}

NodeId batch_norm_expand(GraphBuilder& b, const Epsilon& a, Args args) {
  auto in = widened(b, args);
  const Formula& x = in[0];
  need_rank(x, 2);
  Formula deviation = sqrt(per_channel(in[4], x) + a.epsilon);
  Formula y =
      (x - per_channel(in[3], x)) / deviation * per_channel(in[1], x) + per_channel(in[2], x);
  return cast(y, b.dtype(args[0]));
}

// The axes over which a channel's statistics are taken.
Dims all_but_channel(const Formula& x) {
  Dims axes = axes_from(1, x.rank());
  axes[0] = 0;
  return axes;
}

NodeId batch_norm_training_expand(GraphBuilder& b, const BatchNormTraining& a, Args args) {
  auto in = widened(b, args);
  const Formula& x = in[0];
  need_rank(x, 2);
  Dims channels = {x.dim(1)};
  Formula m = mean(x, all_but_channel(x));
  Formula centred = x - m;
  Formula variance = mean(centred * centred, all_but_channel(x));
  Formula y = centred / sqrt(variance + a.epsilon) * per_channel(in[1], x) + per_channel(in[2], x);
  auto running = [&](const Formula& before, const Formula& now, NodeId like) {
    Formula next = before * a.momentum + reshape(now, channels) * (1 - a.momentum);
    return cast(next, b.dtype(like));
  };
  return b.op("tuple", {cast(y, b.dtype(args[0])), running(in[3], m, args[3]),
                        running(in[4], variance, args[4])});
}

// Opsets before 9 know statistics per activation: the same over a flattened operand.
NodeId batch_norm_lower_plain(OnnxCall& c, double epsilon) {
  std::vector<NodeId> args = c.inputs;
  Dims shape = c.type(0).shape;
  bool flat = c.version() < 9 && c.int_attr("spatial", 1) == 0;
  if (flat) {
    int64_t each = count(std::span(shape).subspan(1));
    args[0] = reshape(Formula(c.b, args[0]), {shape.at(0), each});
    for (size_t i = 1; i < 5; ++i) args[i] = reshape(Formula(c.b, args[i]), {each});
  }
  NodeId y = c.b.op("batch_norm", args, to_attrs(Epsilon{epsilon}));
  return reshape(Formula(c.b, y), shape);
}

Result<std::vector<NodeId>> batch_norm_lower(OnnxCall& c) {
  double epsilon = c.real_attr("epsilon", 1e-5);
  // How training was asked for: by is_test, by the number of outputs, by training_mode.
  bool training = c.version() < 7    ? c.int_attr("is_test", 0) == 0
                  : c.version() < 14 ? c.node.outputs > 1
                                     : c.int_attr("training_mode", 0) != 0;
  if (c.inputs.size() != 5) throw Error("BatchNormalization needs five inputs");
  if (!training) return std::vector{batch_norm_lower_plain(c, epsilon)};
  if (c.version() < 9 && c.int_attr("spatial", 1) == 0)
    return fail("training with statistics per activation (spatial = 0) is not supported");
  auto results =
      c.b.get_all(c.b.op("batch_norm_training", c.inputs,
                         to_attrs(BatchNormTraining{epsilon, c.real_attr("momentum", 0.9)})));
  if (c.version() < 14) {  // the batch's own statistics, too
    Formula x(c.b, c.inputs[0]);
    Formula m = mean(x, all_but_channel(x)), centred = x - m;
    results.push_back(reshape(m, {x.dim(1)}));
    results.push_back(reshape(mean(centred * centred, all_but_channel(x)), {x.dim(1)}));
  }
  return results;
}

// --- normalisations of the operand by itself ---

NodeId instance_norm_expand(GraphBuilder& b, const Epsilon& a, Args args) {
  auto in = formulas(b, args);
  const Formula& x = in[0];
  need_rank(x, 3);
  Formula y = standardise(x, axes_from(2, x.rank()), a.epsilon).y;
  return y * per_channel(in[1], x) + per_channel(in[2], x);
}

NodeId layer_norm_expand(GraphBuilder& b, const LayerNorm& a, Args args) {
  auto in = formulas(b, args);
  const Formula& x = in[0];
  Dims axes = axes_from(normal_axis(a.axis, x.rank()).value_or_throw(), x.rank());
  Standardised s = standardise(cast(x, a.stash), axes, a.epsilon);
  Formula y = cast(s.y, x.dtype()) * in[1];
  if (in.size() > 2) y = y + in[2];
  if (y.shape() != x.shape()) throw Error("scale and bias must broadcast to the operand");
  if (!a.stats) return y;
  return b.op("tuple", {y, s.mean, apply("reciprocal", {s.deviation})});
}

NodeId group_norm_expand(GraphBuilder& b, const GroupNorm& a, Args args) {
  auto in = formulas(b, args);
  const Formula& x = in[0];
  need_rank(x, 3);
  Dims shape = x.shape();
  if (a.groups < 1 || shape[1] % a.groups != 0)
    throw Error(str(shape[1], " channels do not make ", a.groups, " groups"));
  int64_t each = shape[1] / a.groups * count(std::span(shape).subspan(2));
  Formula grouped = reshape(cast(x, a.stash), {shape[0], a.groups, each});
  Formula y = cast(reshape(standardise(grouped, {2}, a.epsilon).y, shape), x.dtype());
  return y * per_channel(in[1], x) + per_channel(in[2], x);
}

// The result has the scale's dtype.
NodeId rms_norm_expand(GraphBuilder& b, const RmsNorm& a, Args args) {
  auto in = formulas(b, args);
  Formula x = cast(in[0], a.stash);
  Dims axes = axes_from(normal_axis(a.axis, x.rank()).value_or_throw(), x.rank());
  Formula y = x / sqrt(mean(x * x, axes) + a.epsilon);
  return cast(y, in[1].dtype()) * in[1];
}

// Where the norm is 0 every element is, and so is the result.
NodeId lp_norm_expand(GraphBuilder& b, const LpNorm& a, Args args) {
  const DType own = b.dtype(args[0]);
  Formula x = cast(Formula(b, args[0]), roomy(own));
  Dims axis = {normal_axis(a.axis, x.rank()).value_or_throw()};
  if (a.p != 1 && a.p != 2) throw Error(str("the norm of order ", a.p, " is not defined"));
  Formula norm = a.p == 1 ? sum(abs(x), axis) : sqrt(sum(x * x, axis));
  return cast(x / where(equal(norm, norm.number(0)), norm.number(1), norm), own);
}

NodeId mean_variance_norm_expand(GraphBuilder& b, const MeanVarianceNorm& a, Args args) {
  const DType own = b.dtype(args[0]);
  Formula x = cast(Formula(b, args[0]), roomy(own));
  Dims axes = normal_axes(a.axes, x.rank()).value_or_throw();
  if (axes.empty()) axes = axes_from(0, x.rank());
  Formula centred = x - mean(x, axes);
  return cast(centred / (sqrt(mean(centred * centred, axes)) + 1e-9), own);
}

// --- ONNX ---

DType stash_dtype(const OnnxCall& c) {
  auto t = dtype_from_onnx(static_cast<int>(c.int_attr("stash_type", 1)));
  if (!t || !is_float(*t)) throw Error(str(c.node.type, ": stash_type is not a float type"));
  return *t;
}

int64_t onnx_code(DType t) {
  return info(t).onnx;
}

std::vector<NodeId> present_inputs(const OnnxCall& c) {
  std::vector<NodeId> all;
  for (NodeId i : c.inputs) {
    if (i.valid()) all.push_back(i);
  }
  return all;
}

Result<std::vector<NodeId>> layer_norm_lower(OnnxCall& c) {
  LayerNorm a{c.int_attr("axis", -1), c.real_attr("epsilon", 1e-5), stash_dtype(c),
              c.node.outputs > 1};
  return c.b.get_all(c.b.op("layer_norm", present_inputs(c), to_attrs(a)));
}

std::vector<NodeId> layer_norm_raise(OnnxWriter& w) {
  auto a = w.attrs.as<LayerNorm>();
  return w.emit("LayerNormalization", w.args,
                {{"axis", a.axis}, {"epsilon", a.epsilon}, {"stash_type", onnx_code(a.stash)}},
                a.stats ? 3 : 1);
}

// The mean over axes from one on.
NodeId mean_spelled(OnnxWriter& w, NodeId x, int64_t axis) {
  Dims axes;
  for (int64_t a = axis < 0 ? axis : axis - w.types[0].rank(); a < 0; ++a) axes.push_back(a);
  if (w.opset >= 18) return w.emit("ReduceMean", {x, w.ints(axes)})[0];
  return w.emit("ReduceMean", {x}, {{"axes", axes}})[0];
}

// x / sqrt(mean(of^2) + epsilon) * scale; runtimes look for a power.
NodeId scaled_by_spread(OnnxWriter& w, NodeId x, int64_t axis, double epsilon) {
  NodeId mean = mean_spelled(w, w.emit("Pow", {x, w.number(2)})[0], axis);
  NodeId spread = w.emit("Sqrt", w.emit("Add", {mean, w.number(epsilon)}))[0];
  return w.emit("Mul", {w.emit("Div", {x, spread})[0], w.args[1]})[0];
}

bool of_one_type(const OnnxWriter& w, DType stash) {
  return std::ranges::all_of(w.types, [&](const Type& t) { return t.dtype == stash; });
}

std::vector<NodeId> layer_norm_spell(OnnxWriter& w) {
  auto a = w.attrs.as<LayerNorm>();
  if (a.stats || !of_one_type(w, a.stash)) return {};
  NodeId centred = w.emit("Sub", {w.args[0], mean_spelled(w, w.args[0], a.axis)})[0];
  NodeId y = scaled_by_spread(w, centred, a.axis, a.epsilon);
  return w.args.size() == 2 ? std::vector{y} : w.emit("Add", {y, w.args[2]});
}

std::vector<NodeId> rms_norm_spell(OnnxWriter& w) {
  auto a = w.attrs.as<RmsNorm>();
  if (!of_one_type(w, a.stash)) return {};
  return {scaled_by_spread(w, w.args[0], a.axis, a.epsilon)};
}

// Opset 18 has parameters per group and computes in the operand's own type.
Result<std::vector<NodeId>> group_norm_lower(OnnxCall& c) {
  GroupNorm a{c.int_attr("num_groups", 1), c.real_attr("epsilon", 1e-5), stash_dtype(c)};
  std::vector<NodeId> args = present_inputs(c);
  if (c.version() < 21) {
    a.stash = c.type(0).dtype;
    int64_t channels = c.type(0).shape.at(1);
    if (a.groups < 1 || channels % a.groups != 0)
      throw Error(str(channels, " channels do not make ", a.groups, " groups"));
    for (size_t i = 1; i < args.size(); ++i) {
      Formula each =
          broadcast(reshape(Formula(c.b, args[i]), {a.groups, 1}), {a.groups, channels / a.groups});
      args[i] = reshape(each, {channels});
    }
  }
  return std::vector{c.b.op("group_norm", args, to_attrs(a))};
}

std::vector<NodeId> group_norm_raise(OnnxWriter& w) {
  auto a = w.attrs.as<GroupNorm>();
  return w.emit(
      "GroupNormalization", w.args,
      {{"num_groups", a.groups}, {"epsilon", a.epsilon}, {"stash_type", onnx_code(a.stash)}});
}

Result<std::vector<NodeId>> rms_norm_lower(OnnxCall& c) {
  RmsNorm a{c.int_attr("axis", -1), c.real_attr("epsilon", 1e-5), stash_dtype(c)};
  return std::vector{c.b.op("rms_norm", c.inputs, to_attrs(a))};
}

std::vector<NodeId> rms_norm_raise(OnnxWriter& w) {
  auto a = w.attrs.as<RmsNorm>();
  return w.emit("RMSNormalization", w.args,
                {{"axis", a.axis}, {"epsilon", a.epsilon}, {"stash_type", onnx_code(a.stash)}});
}

// Types of their own for parameters came with opset 15.
std::vector<NodeId> batch_norm_raise(OnnxWriter& w) {
  bool mixed = std::any_of(w.types.begin(), w.types.end(),
                           [&](const Type& t) { return t.dtype != w.types[0].dtype; });
  if (mixed && w.opset < 15) return {};
  std::vector<Attrs::Entry> attributes = {{"epsilon", w.attrs.as<Epsilon>().epsilon}};
  if (w.opset < 7) attributes.emplace_back("is_test", 1);
  return w.emit("BatchNormalization", w.args, attributes);
}

std::vector<NodeId> batch_norm_training_raise(OnnxWriter& w) {
  auto a = w.attrs.as<BatchNormTraining>();
  return w.emit("BatchNormalization", w.args,
                {{"epsilon", a.epsilon}, {"momentum", a.momentum}, {"training_mode", 1}}, 3);
}

OpDef batch_norm_op() {
  return define<Epsilon>(
      {.name = "batch_norm",
       .min_args = 5,
       .max_args = 5,
       .expand = batch_norm_expand,
       .onnx = {{.type = "BatchNormalization",
                 .lower = batch_norm_lower,
                 .raise = batch_norm_raise}},
       .doc = "(x - mean) / sqrt(variance + epsilon) * scale + bias, per channel; operands x, "
              "scale, bias, mean, variance"});
}

OpDef batch_norm_training_op() {
  return define<BatchNormTraining>(
      {.name = "batch_norm_training",
       .min_args = 5,
       .max_args = 5,
       .expand = batch_norm_training_expand,
       .onnx = {{.type = "BatchNormalization", .since = 15, .raise = batch_norm_training_raise}},
       .doc = "batch norm by the batch's own statistics: (y, running mean, running variance)"});
}

}  // namespace

std::vector<OpDef> norm_ops() {
  return {
      batch_norm_op(),
      batch_norm_training_op(),
      define<Epsilon>({.name = "instance_norm",
                       .min_args = 3,
                       .max_args = 3,
                       .expand = instance_norm_expand,
                       .onnx = {{.type = "InstanceNormalization", .since = 6}},
                       .doc = "each channel of each sample standardised, times scale plus bias"}),
      define<LayerNorm>({.name = "layer_norm",
                         .min_args = 2,
                         .max_args = 3,
                         .expand = layer_norm_expand,
                         .onnx = {{.type = "LayerNormalization",
                                   .since = 17,
                                   .lower = layer_norm_lower,
                                   .raise = layer_norm_raise,
                                   .spell = layer_norm_spell}},
                         .doc = "standardised over the axes from `axis` on, times scale plus bias; "
                                "with stats: (y, mean, 1 / deviation)"}),
      define<GroupNorm>({.name = "group_norm",
                         .min_args = 3,
                         .max_args = 3,
                         .expand = group_norm_expand,
                         .onnx = {{.type = "GroupNormalization",
                                   .since = 21,
                                   .lower = group_norm_lower,
                                   .raise = group_norm_raise},
                                  {.type = "GroupNormalization",
                                   .since = 18,
                                   .before = 21,
                                   .lower = group_norm_lower,
                                   .lower_only = true}},
                         .doc = "each group of channels of each sample standardised, times scale "
                                "plus bias per channel"}),
      define<RmsNorm>(
          {.name = "rms_norm",
           .min_args = 2,
           .max_args = 2,
           .expand = rms_norm_expand,
           .onnx = {{.type = "RMSNormalization",
                     .since = 23,
                     .lower = rms_norm_lower,
                     .raise = rms_norm_raise,
                     .spell = rms_norm_spell}},
           .doc = "x / sqrt(mean of x^2 + epsilon) * scale over the axes from `axis` on"}),
      define<LpNorm>({.name = "lp_norm",
                      .expand = lp_norm_expand,
                      .onnx = {{.type = "LpNormalization"}},
                      .doc = "divided by the norm of order p along an axis"}),
      define<MeanVarianceNorm>({.name = "mean_variance_norm",
                                .expand = mean_variance_norm_expand,
                                .onnx = {{.type = "MeanVarianceNormalization", .since = 9}},
                                .doc = "(x - mean) / (deviation + 1e-9) over the axes"}),
  };
}

}  // namespace emend
