// BERT (Devlin et al. 2018): the real encoder with embeddings, mask, softmax, layer norm, gelu and
// pooler, and the two skeletons of it that TENSAT and PET run.
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "ops/movement.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

struct Bert {
  int64_t width, heads, inner;
  int64_t words = 30522, positions = 512, kinds = 2;
};
constexpr double kEpsilon = 1e-12;

// [batch, tokens, width] to [batch, heads, tokens, width / heads].
NodeId to_heads(Net& n, const std::string& at, NodeId x, int64_t heads) {
  Dims s = n.shape(x);
  x = n.reshape(at + ".view", x, {s[0], s[1], heads, s[2] / heads});
  return n.transpose(at + ".permute", x, {0, 2, 1, 3});
}

NodeId from_heads(Net& n, const std::string& at, NodeId x) {
  Dims s = n.shape(x);
  x = n.transpose(at + ".permute", x, {0, 2, 1, 3});
  return n.reshape(at + ".view", x, {s[0], s[2], s[1] * s[3]});
}

// 0 where the mask is 1, the lowest number where it is 0; added to the scores.
NodeId additive_mask(Net& n, NodeId mask) {
  Dims s = n.shape(mask);
  const std::string at = "mask";
  NodeId m = n.reshape(at + ".unsqueeze", mask, {s[0], 1, 1, s[1]});
  m = n.op(at + ".to", "cast", {m}, Attrs({{"to", DType::f32}}));
  m = n.op(at + ".rsub", "sub", {n.number(1), m});
  const double lowest = -3.4028234663852886e38;
  return n.op(at + ".mul", "mul", {m, n.number(lowest)});
}

NodeId attention(Net& n, const std::string& at, NodeId x, NodeId mask, const Bert& c) {
  const std::string self = at + ".self";
  NodeId q = to_heads(n, self + ".query", n.linear(self + ".query", x, c.width), c.heads);
  NodeId k = to_heads(n, self + ".key", n.linear(self + ".key", x, c.width), c.heads);
  NodeId v = to_heads(n, self + ".value", n.linear(self + ".value", x, c.width), c.heads);
  NodeId scores = n.matmul(self + ".scores", q, n.transpose(self + ".key.t", k, {0, 1, 3, 2}));
  double scale = std::sqrt(static_cast<double>(c.width / c.heads));
  scores = n.op(self + ".div", "div", {scores, n.number(scale)});
  scores = n.softmax(self + ".softmax", n.add(self + ".mask", scores, mask), -1);
  NodeId y = from_heads(n, self, n.matmul(self + ".context", scores, v));
  y = n.linear(at + ".output.dense", y, c.width);
  return n.layer_norm(at + ".output.LayerNorm", n.add(at + ".output.add", y, x), kEpsilon);
}

NodeId layer(Net& n, const std::string& at, NodeId x, NodeId mask, const Bert& c) {
  x = attention(n, at + ".attention", x, mask, c);
  NodeId y = n.linear(at + ".intermediate.dense", x, c.inner);
  y = n.op(at + ".intermediate.gelu", "gelu", {y});
  y = n.linear(at + ".output.dense", y, c.width);
  return n.layer_norm(at + ".output.LayerNorm", n.add(at + ".output.add", y, x), kEpsilon);
}

void bert(Net& n, const ZooOptions& o, const Bert& c) {
  if (o.seq > c.positions) {
    throw Error(str("BERT knows ", c.positions, " positions, not ", o.seq, " (--seq)"));
  }
  Dims tokens = {o.batch, o.seq};
  NodeId ids = n.input("input_ids", tokens, DType::i64);
  NodeId mask = n.input("attention_mask", tokens, DType::i64);
  NodeId kinds = n.input("token_type_ids", tokens, DType::i64);
  Dims places(static_cast<size_t>(o.seq));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  NodeId positions = n.constant("embeddings.position_ids", Tensor::of_ints(places));
  const std::string at = "embeddings";
  NodeId x = n.embedding(at + ".word_embeddings", ids, c.words, c.width, 1);
  x = n.add(at + ".add", x,
            n.embedding(at + ".token_type_embeddings", kinds, c.kinds, c.width, .5));
  x = n.add(at + ".add", x,
            n.embedding(at + ".position_embeddings", positions, c.positions, c.width, .5));
  x = n.layer_norm(at + ".LayerNorm", x, kEpsilon);
  NodeId additive = additive_mask(n, mask);
  for (int64_t i = 0; i < o.layers; ++i) {
    x = layer(n, str("encoder.layer.", i), x, additive, c);
  }
  n.output("last_hidden_state", x);
  NodeId first = n.slice("pooler.select", x, 1, 0, 1);
  first = n.reshape("pooler.select", first, {o.batch, c.width});
  n.output("pooler_output",
           n.op("pooler.tanh", "tanh", {n.linear("pooler.dense", first, c.width)}));
}

// Eight layers in which query, key, value and the next layer's input are products of one input; no
// scale, softmax, bias, norm or inner layer, and keys are not transposed (64 tokens of 64 numbers
// a head). Weights are multiplied as they are. TENSAT has no batch: there is one only if asked for.
void bert_tensat(Net& n, const ZooOptions& o) {
  const int64_t tokens = 64, width = 1024, heads = 16, each = width / heads;
  Dims split = {tokens, heads, each}, swap = {1, 0, 2};
  if (o.batch > 1) {
    split = {o.batch, tokens, heads, each};
    swap = {0, 2, 1, 3};
  }
  NodeId x = n.relu("relu", n.input("x", {o.batch * tokens, width}));
  for (int64_t i = 0; i < o.layers; ++i) {
    std::string at = str("layer.", i);
    auto product = [&](const std::string& name, double gain) {
      NodeId w = n.parameter(str(at, ".", name, ".weight"), {width, width},
                             gain / std::sqrt(static_cast<double>(width)));
      return n.matmul(str(at, ".", name), x, w);
    };
    auto heads_of = [&](const std::string& name, double gain) {
      NodeId y = n.reshape(str(at, ".", name, ".view"), product(name, gain), split);
      return n.transpose(str(at, ".", name, ".permute"), y, swap);
    };
    // Nothing tames the sums of 64 terms that follow: queries and values are smaller by 8.
    const double small = 1.0 / 8;
    NodeId q = heads_of("query", small), k = heads_of("key", 1), v = heads_of("value", small);
    NodeId y = n.matmul(at + ".context", n.matmul(at + ".scores", q, k), v);
    y = n.transpose(at + ".permute", y, swap);
    n.output(str("attention_", i), n.reshape(at + ".view", y, {o.batch * tokens, width}));
    x = product("linear", 1);
  }
  n.output("y", x);
}

// Twelve layers without layer norm or scale; the inner layers are as wide as the outer ones and
// followed by relu, and one sum goes around the whole layer.
void bert_pet(Net& n, const ZooOptions& o) {
  const int64_t width = 768, heads = 12;
  // Scores are not divided by 8 = sqrt(64): queries and keys start smaller instead.
  const double score_gain = 1 / std::sqrt(8.0);
  // No norm holds the sums: each layer adds little.
  const double branch_gain = 0.5;
  NodeId x = n.input("x", {o.batch, o.seq, width});
  for (int64_t i = 0; i < o.layers; ++i) {
    std::string at = str("layers.", i);
    NodeId q = to_heads(n, at + ".q", n.linear(at + ".q", x, width, false, score_gain), heads);
    NodeId k = n.linear(at + ".k", x, width, false, score_gain);
    k = n.reshape(at + ".k.view", k, {o.batch, o.seq, heads, width / heads});
    k = n.transpose(at + ".k.permute", k, {0, 2, 3, 1});
    NodeId scores = n.softmax(at + ".softmax", n.matmul(at + ".scores", q, k), 3);
    NodeId v = to_heads(n, at + ".v", n.linear(at + ".v", x, width, false), heads);
    NodeId y = from_heads(n, at, n.matmul(at + ".context", scores, v));
    y = n.relu(at + ".relu", n.linear(at + ".ff1", y, width));
    y = n.relu(at + ".relu", n.linear(at + ".ff2", y, width, true, branch_gain));
    x = n.add(at + ".add", x, y);
  }
  n.output("y", x);
}

}  // namespace

std::vector<ZooEntry> bert_models() {
  auto entry = [](std::string name, std::string doc, int64_t layers, Bert c) {
    return ZooEntry{std::move(name),
                    std::move(doc),
                    {.seq = 128, .layers = layers},
                    [c](Net& n, const ZooOptions& o) { bert(n, o, c); }};
  };
  return {
      entry("bert_base", "BERT base with pooler, 128 tokens", 12, {768, 12, 3072}),
      entry("bert_large", "BERT large with pooler, 128 tokens", 24, {1024, 16, 4096}),
      {"bert_tensat",
       "BERT as TENSAT runs it: products alone, 64 tokens",
       {.layers = 8},
       bert_tensat},
      {"bert_pet",
       "BERT as PET runs it: no layer norm or gelu, 512 tokens",
       {.seq = 512, .layers = 12},
       bert_pet},
  };
}

}  // namespace emend
