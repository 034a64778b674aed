// Attention without softmax: a state matrix per key head is carried along the sequence.
#include <cmath>
#include <utility>

#include "ops/composite.h"
#include "ops/control.h"
#include "ops/families.h"
#include "ops/heads.h"
#include "ops/table.h"

namespace emend {
namespace {

// [batch, sequence, heads * size] with the sequence in front: what a loop scans.
Formula by_step(const Formula& x, int64_t heads) {
  Dims s = x.shape();
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0)
    throw Error(str(shape_text(s), " does not hold ", heads, " heads"));
  return transpose(reshape(x, {s[0], s[1], heads, s[2] / heads}), {1, 0, 2, 3});
}

Formula as_column(const Formula& x) {
  Dims s = x.shape();
  return reshape(x, {s[0], s[1], s[2], 1});
}
Formula as_row(const Formula& x) {
  Dims s = x.shape();
  return reshape(x, {s[0], s[1], 1, s[2]});
}

// One token: the state decays, what it already holds for this key is taken off the value, the
// outer product of key and value is written, the query reads.
LoopResults one_token(GraphBuilder& b, const LinearAttention& a, const LoopStep& s, DType out) {
  Formula state(b, s.states[0]);
  std::vector<Formula> in;
  for (NodeId n : s.slices) in.push_back(cast(Formula(b, n), state.dtype()));
  size_t next = 3;
  Formula key = as_column(in[1]), value = as_row(in[2]);
  if (a.gated) state = state * exp(as_column(in[next++]));
  if (a.delta) {
    Formula held = matmul(transpose(key, {0, 1, 3, 2}), state);
    value = as_row(in[next++]) * (value - held);
  }
  state = state + matmul(key, value);
  Formula read = matmul(as_row(in[0]), repeat_heads(state, a.q_heads)) * a.scale;
  Dims shape = read.shape();
  return {.states = {state}, .outputs = {cast(reshape(read, {shape[0], shape[1], shape[3]}), out)}};
}

// The state is kept in f32 whatever the operands are; it is handed out as it came in.
NodeId linear_attention_expand(GraphBuilder& b, const LinearAttention& a, Args args) {
  auto in = formulas(b, args);
  if (a.kv_heads < 1 || a.q_heads < 1 || a.q_heads % a.kv_heads != 0)
    throw Error(str(a.q_heads, " query heads do not share ", a.kv_heads, " key heads evenly"));
  size_t expected = size_t{3} + a.past + a.gated + a.delta;
  if (in.size() != expected) throw Error(str("needs ", expected, " operands, got ", in.size()));
  Formula q = by_step(in[0], a.q_heads), k = by_step(in[1], a.kv_heads),
          v = by_step(in[2], a.kv_heads);
  int64_t batch = in[0].dim(0), steps = in[0].dim(1);
  size_t next = 3;
  Dims state_shape = {batch, a.kv_heads, k.dim(3), v.dim(3)};
  DType state_dtype = a.past ? in[3].dtype() : q.dtype();
  Formula state = a.past ? cast(in[next++], DType::f32)
                         : broadcast(Formula(b, b.scalar(0, DType::f32)), state_shape);
  if (state.shape() != state_shape)
    throw Error(
        str("the past state is ", shape_text(state.shape()), ", not ", shape_text(state_shape)));
  LoopOperands loop{.trips = steps, .states = {state}, .scanned = {{q}, {k}, {v}}};
  // Decay is per key dimension or per head, beta per head or for all.
  if (a.gated) loop.scanned.push_back({by_step(in[next++], a.kv_heads)});
  if (a.delta) {
    const Formula& beta = in[next++];
    loop.scanned.push_back({by_step(beta, beta.shape().back())});
  }
  DType out = q.dtype();
  auto result = add_loop(
      b, loop, [&](GraphBuilder& body, const LoopStep& s) { return one_token(body, a, s, out); });
  Formula tokens(b, result.outputs[0]);  // [sequence, batch, heads, size]
  Formula y = reshape(transpose(tokens, {1, 0, 2, 3}), {batch, steps, a.q_heads * v.dim(3)});
  return b.op("tuple", {y, cast(Formula(b, result.states[0]), state_dtype)});
}

Result<std::vector<NodeId>> linear_attention_lower(OnnxCall& c) {
  std::string rule = c.text_attr("update_rule", "gated_delta");
  LinearAttention a{.q_heads = c.int_attr("q_num_heads", 0),
                    .kv_heads = c.int_attr("kv_num_heads", 0),
                    .scale = c.real_attr("scale", 0),
                    .gated = rule == "gated" || rule == "gated_delta",
                    .delta = rule == "delta" || rule == "gated_delta",
                    .past = c.has(3)};
  if (rule != "linear" && !a.gated && !a.delta)
    throw Error(str("LinearAttention: no update rule is called ", rule));
  if (a.gated != c.has(4) || a.delta != c.has(5))
    throw Error(str("LinearAttention: the rule ", rule, " does not fit the inputs given"));
  if (c.type(0).rank() != 3 || a.q_heads < 1)
    throw Error("LinearAttention needs a query of rank 3 and q_num_heads");
  if (a.scale == 0) a.scale = 1.0F / std::sqrt(static_cast<float>(c.type(0).shape[2] / a.q_heads));
  std::vector<NodeId> args;
  for (NodeId i : c.inputs) {
    if (i.valid()) args.push_back(i);
  }
  return c.b.get_all(c.b.op("linear_attention", args, to_attrs(a)));
}

std::vector<NodeId> linear_attention_raise(OnnxWriter& w) {
  auto a = w.attrs.as<LinearAttention>();
  std::vector<NodeId> inputs(6);
  size_t next = 0;
  for (size_t i = 0; i < 3; ++i) inputs[i] = w.args[next++];
  if (a.past) inputs[3] = w.args[next++];
  if (a.gated) inputs[4] = w.args[next++];
  if (a.delta) inputs[5] = w.args[next++];
  std::string rule = a.gated ? (a.delta ? "gated_delta" : "gated") : (a.delta ? "delta" : "linear");
  return w.emit("LinearAttention", inputs,
                {{"q_num_heads", a.q_heads},
                 {"kv_num_heads", a.kv_heads},
                 {"scale", a.scale},
                 {"update_rule", rule}},
                2);
}

// x [batch, sequence, heads, size]; the caches hold cosines and sines per position and half.
NodeId rotary_embedding_expand(GraphBuilder& b, const RotaryEmbedding& a, Args args) {
  auto in = formulas(b, args);
  bool apart = in[0].rank() == 4;
  Formula x = split_heads(in[0], a.heads);  // [batch, heads, sequence, size]
  Dims s = x.shape();
  int64_t rotated = a.rotated > 0 ? a.rotated : s[3], half = rotated / 2;
  if (rotated % 2 != 0 || rotated > s[3])
    throw Error(str(rotated, " of a head of ", s[3], " cannot be rotated in pairs"));
  auto angles = [&](const Formula& cache) {
    Formula rows = in.size() > 3 ? apply("gather", {cache, in[3]}, Attrs({{"axis", 0}})) : cache;
    if (rows.rank() != 3 || rows.shape().back() != half)
      throw Error(
          str("the cache gives ", shape_text(rows.shape()), ", not [batch, sequence, ", half, "]"));
    return reshape(rows, {rows.dim(0), 1, rows.dim(1), half});
  };
  Formula cosine = angles(in[1]), sine = angles(in[2]);
  // Partners stand side by side or half a head apart: one of two along an axis of their own.
  Dims pairs = {s[0], s[1], s[2], half, 2};
  size_t partner = a.interleaved ? 4 : 3;
  if (!a.interleaved) std::swap(pairs[3], pairs[4]);
  Formula head = reshape(slice(x, 3, 0, rotated), pairs);
  auto one = [&](int64_t i) {
    return reshape(slice(head, partner, i, 1), {s[0], s[1], s[2], half});
  };
  Formula p = one(0), q = one(1);
  Dims single = pairs;
  single[partner] = 1;
  Formula real = cosine * p - sine * q, imaginary = sine * p + cosine * q;
  Formula turned =
      concat({reshape(real, single), reshape(imaginary, single)}, static_cast<int64_t>(partner));
  Formula y = reshape(turned, {s[0], s[1], s[2], rotated});
  if (rotated < s[3]) y = concat({y, slice(x, 3, rotated, s[3] - rotated)}, 3);
  return apart ? y : merge_heads(y);
}

}  // namespace

std::vector<OpDef> linear_attention_ops() {
  return {
      define<LinearAttention>(
          {.name = "linear_attention",
           .min_args = 3,
           .max_args = 6,
           .expand = linear_attention_expand,
           .onnx = {{.type = "LinearAttention",
                     .since = 27,
                     .lower = linear_attention_lower,
                     .raise = linear_attention_raise}},
           .doc = "a recurrence over the sequence: state = decay * state + key (beta (value - "
                  "held)), read by the query; (y, present state)"}),
      define<RotaryEmbedding>(
          {.name = "rotary_embedding",
           .min_args = 3,
           .max_args = 4,
           .expand = rotary_embedding_expand,
           .onnx = {{.type = "RotaryEmbedding",
                     .since = 23,
                     .rename = {{"heads", "num_heads"}, {"rotated", "rotary_embedding_dim"}}}},
           .doc = "pairs of each head's elements rotated by the angles of their positions"}),
  };
}

}  // namespace emend
