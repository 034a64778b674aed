// Softmax attention: ONNX's Attention with its caches, masks and grouped heads, and FlexAttention
// with modifications given as programs.
#include <cmath>
#include <limits>
#include <optional>

#include "ops/composite.h"
#include "ops/families.h"
#include "ops/heads.h"
#include "ops/movement.h"
#include "ops/onnx_lower.h"
#include "ops/table.h"

namespace emend {

Formula split_heads(const Formula& x, int64_t heads) {
  Dims s = x.shape();
  if (s.size() == 4) return x;
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0)
    throw Error(str(shape_text(s), " does not hold ", heads, " heads"));
  return transpose(reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

Formula merge_heads(const Formula& x) {
  Dims s = x.shape();
  if (s.size() != 4) throw Error(str(shape_text(s), " is not [batch, heads, length, size]"));
  return reshape(transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

Formula repeat_heads(const Formula& x, int64_t heads) {
  Dims s = x.shape();
  if (s.size() != 4) throw Error(str(shape_text(s), " is not [batch, heads, length, size]"));
  if (s[1] == heads) return x;
  if (s[1] < 1 || heads % s[1] != 0)
    throw Error(str(heads, " query heads do not share ", s[1], " key heads evenly"));
  Formula apart = reshape(x, {s[0], s[1], 1, s[2], s[3]});
  return reshape(broadcast(apart, {s[0], s[1], heads / s[1], s[2], s[3]}),
                 {s[0], heads, s[2], s[3]});
}

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// `yes` where the condition holds, otherwise `no`: 0 and minus infinity in some order.
Formula bias_where(const Formula& condition, DType dtype, double yes, double no) {
  GraphBuilder& b = condition.builder();
  return where(condition, {b, b.scalar(yes, dtype)}, {b, b.scalar(no, dtype)});
}

// What a mask adds to scores; keys beyond a mask that is too short are masked out.
Formula mask_bias(const Formula& mask, DType dtype, int64_t keys) {
  bool seen = mask.dtype() == DType::boolean;
  Formula bias = seen ? bias_where(mask, dtype, 0, kMinusInfinity) : cast(mask, dtype);
  int64_t missing = bias.rank() > 0 ? keys - bias.shape().back() : 0;
  if (missing <= 0) return bias;
  Pad pad{.pads = Dims(2 * bias.shape().size(), 0), .value = kMinusInfinity};
  pad.pads.back() = missing;
  return apply("pad", {bias}, to_attrs(pad));
}

// Query i sees the keys up to past + i.
Formula causal_bias(GraphBuilder& b, DType dtype, int64_t queries, int64_t keys, int64_t past) {
  Formula last_seen = counting(b, queries, DType::i64, 2, 0);
  if (past > 0) last_seen = last_seen + static_cast<double>(past);
  Formula key = counting(b, keys, DType::i64, 2, 1);
  return bias_where(less(last_seen, key), dtype, kMinusInfinity, 0);
}

// Sample i has lengths[i] keys.
Formula length_bias(const Formula& lengths, DType dtype, int64_t keys) {
  Formula key = counting(lengths.builder(), keys, lengths.dtype(), 4, 3);
  Formula length = reshape(lengths, {lengths.dim(0), 1, 1, 1});
  return bias_where(less(key, length), dtype, 0, kMinusInfinity);
}

// q k^T, each side scaled by the root so that narrow types do not overflow.
Formula scaled_product(const Formula& q, const Formula& k, double scale) {
  double root = std::sqrt(scale);
  return matmul(q * root, transpose(k, {0, 1, 3, 2}) * root);
}

Formula softmax_in(const Formula& scores, DType precision) {
  return apply("softmax", {cast(scores, precision)}, to_attrs(Softmax{3}));
}

NodeId attention_expand(GraphBuilder& b, const Attention& a, Args args) {
  auto in = formulas(b, args);
  size_t next = 3;
  auto take = [&](bool present) { return present ? std::optional(in.at(next++)) : std::nullopt; };
  auto mask = take(a.mask), past_key = take(a.past), past_value = take(a.past),
       lengths = take(a.lengths);
  Formula q = split_heads(in[0], a.q_heads);
  Formula present_key = split_heads(in[1], a.kv_heads),
          present_value = split_heads(in[2], a.kv_heads);
  if (past_key) present_key = concat({*past_key, present_key}, 2);
  if (past_value) present_value = concat({*past_value, present_value}, 2);
  DType dtype = q.dtype();
  int64_t heads = q.dim(1), queries = q.dim(2), keys = present_key.dim(2);

  std::optional<Formula> bias;
  auto add_bias = [&](const Formula& more) { bias = bias ? *bias + more : more; };
  if (mask) add_bias(mask_bias(*mask, dtype, keys));
  if (a.causal) add_bias(causal_bias(b, dtype, queries, keys, past_key ? past_key->dim(2) : 0));
  if (lengths) add_bias(length_bias(*lengths, dtype, keys));

  Formula raw = scaled_product(q, repeat_heads(present_key, heads), a.scale);
  Formula capped = a.softcap > 0 ? tanh(raw / a.softcap) * a.softcap : raw;
  Formula masked = bias ? capped + *bias : capped;
  if (masked.shape() != raw.shape())
    throw Error(str("a mask of ", shape_text(mask->shape()), " does not broadcast to scores ",
                    shape_text(raw.shape())));
  Formula probabilities = cast(softmax_in(masked, a.precision), dtype);
  Formula value = repeat_heads(present_value, heads);
  Formula y = cast(matmul(cast(probabilities, value.dtype()), value), dtype);
  if (in[0].rank() == 3) y = merge_heads(y);

  if (a.results == 1) return y;
  if (a.results == 3) return b.op("tuple", {y, present_key, present_value});
  const Formula stages[] = {raw, capped, masked, probabilities};
  if (a.results != 4 || a.stage < 0 || a.stage > 3)
    throw Error(str(a.results, " results, scores of stage ", a.stage));
  return b.op("tuple", {y, present_key, present_value, stages[a.stage]});
}

NodeId flex_attention_expand(GraphBuilder& b, const FlexAttention& a, Args args) {
  auto in = formulas(b, args);
  size_t next = 3;
  auto modified = [&](const Formula& x, const GraphRef& mod) {
    std::vector<NodeId> operands = {x};
    for (size_t i = 1; i < mod->inputs.size(); ++i) operands.push_back(in.at(next++));
    Formula y(b, splice(b, *mod, operands).at(0));
    if (y.shape() != x.shape() || y.dtype() != x.dtype())
      throw Error("a modification must keep shape and type");
    return y;
  };
  // Captured values come in the order of the attributes' names: prob_mod before score_mod.
  const Formula& q = in[0];
  int64_t heads = q.dim(1);
  Formula scores = cast(scaled_product(q, repeat_heads(in[1], heads), a.scale), a.precision);
  size_t of_prob = a.prob_mod->inputs.size() - 1;
  next = 3 + of_prob;
  Formula probabilities = softmax_in(modified(scores, a.score_mod), a.precision);
  next = 3;
  probabilities = modified(probabilities, a.prob_mod);
  Formula value = cast(repeat_heads(in[2], heads), a.precision);
  return cast(matmul(probabilities, value), q.dtype());
}

// --- ONNX ---

// The scale that is meant where none is given, computed in f32 as ONNX's function does.
double default_scale(int64_t head_size) {
  return 1.0F / std::sqrt(static_cast<float>(head_size));
}

DType precision_attr(const OnnxCall& c, DType otherwise) {
  if (!c.has_attr("softmax_precision")) return otherwise;
  auto t = dtype_from_onnx(static_cast<int>(c.int_attr("softmax_precision", 1)));
  if (!t || !is_float(*t)) throw Error("softmax_precision is not a float type");
  return *t;
}

Result<std::vector<NodeId>> attention_lower(OnnxCall& c) {
  const Dims& q = c.type(0).shape;
  Attention a{.softcap = c.real_attr("softcap", 0),
              .causal = c.int_attr("is_causal", 0) != 0,
              .precision = precision_attr(c, c.type(0).dtype),
              .mask = c.has(3),
              .past = c.has(4) && c.has(5),
              .lengths = c.has(6),
              .results = c.node.outputs == 1  ? 1
                         : c.node.outputs < 4 ? 3
                                              : 4,
              .stage = c.int_attr("qk_matmul_output_mode", 0)};
  if (c.has(4) != c.has(5)) throw Error("Attention: past_key and past_value belong together");
  if (q.size() == 3) {
    a.q_heads = c.int_attr("q_num_heads", 0);
    a.kv_heads = c.int_attr("kv_num_heads", 0);
    if (a.q_heads < 1 || a.kv_heads < 1)
      throw Error("Attention: rank 3 operands need q_num_heads and kv_num_heads");
  }
  int64_t head_size = q.empty() ? 1 : q.back() / std::max<int64_t>(a.q_heads, 1);
  a.scale = c.real_attr("scale", default_scale(head_size));
  if (a.scale < 0) throw Error("Attention: a negative scale has no root");
  std::vector<NodeId> args;
  for (NodeId i : c.inputs) {
    if (i.valid()) args.push_back(i);
  }
  if (a.mask && c.version() < 24 && c.type(3).rank() > 0 && c.type(3).shape.back() == 1) {
    // Here a single column broadcasts; only later opsets pad masks that are too short.
    Dims shape = c.type(3).shape;
    const Dims &k = c.type(1).shape, &past = a.past ? c.type(4).shape : Dims{0, 0, 0, 0};
    shape.back() = k.at(k.size() - 2) + past.at(2);
    args[3] = broadcast(Formula(c.b, args[3]), shape);
  }
  return c.b.get_all(c.b.op("attention", args, to_attrs(a)));
}

std::vector<NodeId> attention_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Attention>();
  if (a.lengths && w.opset < 24) return {};
  std::vector<NodeId> inputs(7);
  size_t next = 0;
  for (size_t i = 0; i < 3; ++i) inputs[i] = w.args[next++];
  if (a.mask) inputs[3] = w.args[next++];
  if (a.past) inputs[4] = w.args[next++];
  if (a.past) inputs[5] = w.args[next++];
  if (a.lengths) inputs[6] = w.args[next++];
  std::vector<Attrs::Entry> attributes = {{"scale", a.scale},
                                          {"softcap", a.softcap},
                                          {"is_causal", int64_t{a.causal}},
                                          {"softmax_precision", int64_t{info(a.precision).onnx}},
                                          {"qk_matmul_output_mode", a.stage}};
  if (a.q_heads > 0) {
    attributes.emplace_back("q_num_heads", a.q_heads);
    attributes.emplace_back("kv_num_heads", a.kv_heads);
  }
  return w.emit("Attention", inputs, attributes, static_cast<int>(a.results));
}

// A modification as a program over scores of this type and the captured values.
Result<GraphRef> modification(OnnxCall& c, const std::string& name, const Type& scores,
                              std::span<const NodeId> captured) {
  GraphBuilder body;
  std::vector<NodeId> args = {body.input("scores", scores)};
  for (NodeId n : captured) args.push_back(body.input(str("captured", args.size()), c.b.type(n)));
  NodeId y = args[0];
  if (c.has_attr(name)) {
    const Graph& onnx = *c.node.attributes.get<GraphRef>(name);
    if (onnx.inputs.size() != args.size() || onnx.outputs.size() != 1)
      throw Error(str("FlexAttention: ", name, " must map one tensor to one"));
    y = lower_into(body, onnx, args).at(0);
  }
  if (body.type(y) != scores)
    return fail(name, " gives ", to_text(body.type(y)), " for ", to_text(scores));
  body.output("scores", y);
  return GraphRef(std::move(body).build());
}

Result<std::vector<NodeId>> flex_attention_lower(OnnxCall& c) {
  const Dims &q = c.type(0).shape, &k = c.type(1).shape;
  if (q.size() != 4 || k.size() != 4) throw Error("FlexAttention needs operands of rank 4");
  DType own = c.type(0).dtype;
  FlexAttention a{.scale = c.real_attr("scale", default_scale(q[3])),
                  .precision = precision_attr(c, own == DType::f64 ? own : DType::f32)};
  if (a.scale < 0) throw Error("FlexAttention: a negative scale has no root");
  Type scores = Type::tensor(a.precision, {q[0], q[1], q[2], k[2]});
  std::span<const NodeId> captured = c.captured;
  size_t subgraph = 0;
  for (auto [name, mod] : {std::pair{"prob_mod", &a.prob_mod}, {"score_mod", &a.score_mod}}) {
    size_t n = c.has_attr(name) ? static_cast<size_t>(c.node.captures.at(subgraph++)) : 0;
    auto made = modification(c, name, scores, captured.first(n));
    if (!made) return Failure{made.error()};
    *mod = *made;
    captured = captured.subspan(n);
  }
  std::vector<NodeId> args = c.inputs;
  args.insert(args.end(), c.captured.begin(), c.captured.end());
  return std::vector{c.b.op("flex_attention", args, to_attrs(a))};
}

}  // namespace

std::vector<OpDef> attention_ops() {
  return {
      define<Attention>({.name = "attention",
                         .min_args = 3,
                         .max_args = 7,
                         .expand = attention_expand,
                         .onnx = {{.type = "Attention",
                                   .since = 23,
                                   .lower = attention_lower,
                                   .raise = attention_raise}},
                         .doc = "softmax(scale q k^T + mask) v over heads; key heads may serve "
                                "groups of query heads, past keys and values stand in front"}),
      define<FlexAttention>({.name = "flex_attention",
                             .min_args = 3,
                             .max_args = -1,
                             .expand = flex_attention_expand,
                             .onnx = {{.type = "FlexAttention",
                                       .domain = "ai.onnx.preview",
                                       .lower = flex_attention_lower,
                                       .lower_only = true}},
                             .doc = "attention whose scores and probabilities pass through "
                                    "programs given as attributes"}),
  };
}

}  // namespace emend
