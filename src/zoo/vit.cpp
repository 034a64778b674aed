// The vision transformer ViT-B/16 (Dosovitskiy et al. 2020) as torchvision has it.
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "ops/movement.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

constexpr int64_t kWidth = 768, kHeads = 12, kInner = 3072, kPatch = 16;
constexpr double kEpsilon = 1e-6;

// nn.MultiheadAttention: one projection for query, key and value.
NodeId self_attention(Net& n, const std::string& at, NodeId x) {
  Dims s = n.shape(x);
  NodeId w = n.parameter(at + ".in_proj_weight", {3 * kWidth, kWidth},
                         1 / std::sqrt(static_cast<double>(kWidth)));
  NodeId bias = n.parameter(at + ".in_proj_bias", {3 * kWidth}, 0.1);
  NodeId all = n.matmul(at + ".in_proj", x, n.transpose(at + ".in_proj.t", w, {1, 0}));
  all = n.add(at + ".in_proj", all, bias);
  auto heads = [&](int64_t part, const std::string& name) {
    NodeId y = n.slice(at + name, all, 2, part * kWidth, kWidth);
    y = n.reshape(at + name + ".view", y, {s[0], s[1], kHeads, kWidth / kHeads});
    return n.transpose(at + name + ".permute", y, {0, 2, 1, 3});
  };
  NodeId q = heads(0, ".query"), k = heads(1, ".key"), v = heads(2, ".value");
  double scale = 1 / std::sqrt(static_cast<double>(kWidth / kHeads));
  q = n.op(at + ".mul", "mul", {q, n.number(scale)});
  NodeId scores = n.matmul(at + ".scores", q, n.transpose(at + ".key.t", k, {0, 1, 3, 2}));
  NodeId y = n.matmul(at + ".context", n.softmax(at + ".softmax", scores, -1), v);
  y = n.reshape(at + ".view", n.transpose(at + ".permute", y, {0, 2, 1, 3}), s);
  return n.linear(at + ".out_proj", y, kWidth);
}

NodeId encoder_layer(Net& n, const std::string& at, NodeId x) {
  NodeId y = self_attention(n, at + ".self_attention", n.layer_norm(at + ".ln_1", x, kEpsilon));
  x = n.add(at + ".add", y, x);
  y = n.linear(at + ".mlp.0", n.layer_norm(at + ".ln_2", x, kEpsilon), kInner);
  y = n.linear(at + ".mlp.3", n.op(at + ".mlp.1", "gelu", {y}), kWidth);
  return n.add(at + ".add", x, y);
}

void vit_b16(Net& n, const ZooOptions& o) {
  if (o.size % kPatch != 0) throw Error(str("ViT-B/16 needs --size divisible by ", kPatch));
  int64_t patches = (o.size / kPatch) * (o.size / kPatch);
  NodeId x = n.input("x", {o.batch, 3, o.size, o.size});
  x = n.conv("conv_proj", x, kWidth, {.kernel = {kPatch}, .stride = {kPatch}},
             {.bias = true, .gain = 1});
  x = n.reshape("conv_proj.view", x, {o.batch, kWidth, patches});
  x = n.transpose("conv_proj.permute", x, {0, 2, 1});
  NodeId token = n.parameter("class_token", {1, 1, kWidth}, 0.5);
  token = n.op("class_token.expand", "broadcast", {token}, Broadcast{{o.batch, 1, kWidth}});
  x = n.concat("cat", {token, x}, 1);
  x = n.add("encoder.add", x, n.parameter("encoder.pos_embedding", {1, patches + 1, kWidth}, 0.5));
  for (int64_t i = 0; i < o.layers; ++i) {
    x = encoder_layer(n, str("encoder.layers.encoder_layer_", i), x);
  }
  x = n.layer_norm("encoder.ln", x, kEpsilon);
  x = n.reshape("select", n.slice("select", x, 1, 0, 1), {o.batch, kWidth});
  n.output("logits", n.linear("heads.head", x, 1000));
}

}  // namespace

std::vector<ZooEntry> vit_models() {
  return {{"vit_b16", "ViT-B/16, images of 224", {.size = 224, .layers = 12}, vit_b16}};
}

}  // namespace emend
