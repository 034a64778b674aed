// One decoder block of Llama (Touvron et al. 2023) in the size of the 1B model of version 3.2:
// RMS norm, rotary positions, grouped heads under a causal mask, gated inner layer.
#include <cmath>
#include <limits>

#include "base/text.h"
#include "ops/movement.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

constexpr int64_t kWidth = 2048, kHeads = 32, kKeyHeads = 8, kEach = kWidth / kHeads, kInner = 8192;
constexpr double kBase = 500000, kEpsilon = 1e-5;

// cos or sin of position times frequency, [tokens, each]: the frequencies twice, one after the
// other.
Tensor rotation(int64_t tokens, double (*fn)(double)) {
  std::vector<double> values;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < kEach; ++i) {
      double exponent = 2.0 * static_cast<double>(i % (kEach / 2)) / kEach;
      values.push_back(fn(static_cast<double>(t) * std::pow(kBase, -exponent)));
    }
  }
  return Tensor::of_reals(DType::f32, {tokens, kEach}, values);
}

Tensor causal_mask(int64_t tokens) {
  std::vector<double> values;
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = 0; j < tokens; ++j) {
      values.push_back(j <= i ? 0 : std::numeric_limits<float>::lowest());
    }
  }
  return Tensor::of_reals(DType::f32, {tokens, tokens}, values);
}

// Each pair (x[i], x[i + each/2]) turned by its angle.
NodeId rotate(Net& n, const std::string& at, NodeId x, NodeId cosine, NodeId sine) {
  NodeId low = n.slice(at + ".low", x, 3, 0, kEach / 2);
  NodeId high = n.slice(at + ".high", x, 3, kEach / 2, kEach / 2);
  NodeId turned = n.concat(at + ".cat", {n.op(at + ".neg", "neg", {high}), low}, 3);
  return n.add(at + ".add", n.op(at + ".mul", "mul", {x, cosine}),
               n.op(at + ".mul", "mul", {turned, sine}));
}

// [batch, key heads, tokens, each] with every head standing for a group of query heads.
NodeId repeat_heads(Net& n, const std::string& at, NodeId x) {
  Dims s = n.shape(x);
  x = n.reshape(at + ".unsqueeze", x, {s[0], kKeyHeads, 1, s[2], kEach});
  Dims repeated = {s[0], kKeyHeads, kHeads / kKeyHeads, s[2], kEach};
  x = n.op(at + ".expand", "broadcast", {x}, Broadcast{repeated});
  return n.reshape(at + ".reshape", x, {s[0], kHeads, s[2], kEach});
}

NodeId self_attention(Net& n, const std::string& at, NodeId x) {
  Dims s = n.shape(x);
  auto heads = [&](const std::string& name, int64_t count) {
    NodeId y = n.linear(at + name, x, count * kEach, false);
    y = n.reshape(at + name + ".view", y, {s[0], s[1], count, kEach});
    return n.transpose(at + name + ".permute", y, {0, 2, 1, 3});
  };
  NodeId cosine = n.constant("rotary_emb.cos", rotation(s[1], std::cos));
  NodeId sine = n.constant("rotary_emb.sin", rotation(s[1], std::sin));
  NodeId q = rotate(n, at + ".q_rotary", heads(".q_proj", kHeads), cosine, sine);
  NodeId k = rotate(n, at + ".k_rotary", heads(".k_proj", kKeyHeads), cosine, sine);
  k = repeat_heads(n, at + ".k_repeat", k);
  NodeId v = repeat_heads(n, at + ".v_repeat", heads(".v_proj", kKeyHeads));
  NodeId scores = n.matmul(at + ".scores", q, n.transpose(at + ".k.t", k, {0, 1, 3, 2}));
  double scale = 1 / std::sqrt(static_cast<double>(kEach));
  scores = n.op(at + ".mul", "mul", {scores, n.number(scale)});
  scores = n.add(at + ".mask", scores, n.constant("causal_mask", causal_mask(s[1])));
  NodeId y = n.matmul(at + ".context", n.softmax(at + ".softmax", scores, -1), v);
  y = n.reshape(at + ".view", n.transpose(at + ".permute", y, {0, 2, 1, 3}), s);
  return n.linear(at + ".o_proj", y, kWidth, false);
}

NodeId gated(Net& n, const std::string& at, NodeId x) {
  NodeId gate = n.linear(at + ".gate_proj", x, kInner, false);
  gate = n.op(at + ".act_fn.mul", "mul", {gate, n.op(at + ".act_fn.sigmoid", "sigmoid", {gate})});
  NodeId up = n.linear(at + ".up_proj", x, kInner, false);
  return n.linear(at + ".down_proj", n.op(at + ".mul", "mul", {gate, up}), kWidth, false);
}

void llama_block(Net& n, const ZooOptions& o) {
  NodeId x = n.input("hidden_states", {o.batch, o.seq, kWidth});
  NodeId y = self_attention(n, "self_attn", n.rms_norm("input_layernorm", x, kEpsilon));
  x = n.add("add", x, y);
  y = gated(n, "mlp", n.rms_norm("post_attention_layernorm", x, kEpsilon));
  n.output("y", n.add("add", x, y));
}

}  // namespace

std::vector<ZooEntry> llama_models() {
  return {{"llama_block",
           "one decoder block of Llama, as wide as the 1B model of version 3.2, 128 tokens",
           {.seq = 128},
           llama_block}};
}

}  // namespace emend
