// MobileNet-V2 (Sandler et al. 2018) as torchvision has it.
#include "base/text.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

// Convolution, batch norm and relu6: the parts 0, 1 and 2 of the sequence `at`.
NodeId conv_bn_relu6(Net& n, const std::string& at, NodeId x, int64_t channels,
                     const WindowStyle& w, int64_t groups = 1) {
  x = n.batch_norm(at + ".1", n.conv(at + ".0", x, channels, w, {.groups = groups}));
  return n.op(at + ".2", "clip", {x}, Attrs({{"min", 0.0}, {"max", 6.0}}));
}

NodeId inverted_residual(Net& n, const std::string& at, NodeId x, int64_t channels, int64_t stride,
                         int64_t expansion) {
  int64_t hidden = n.channels(x) * expansion, index = 0;
  auto next = [&] { return str(at, ".conv.", index++); };
  NodeId y = x;
  if (expansion != 1) y = conv_bn_relu6(n, next(), y, hidden, {.kernel = {1}});
  y = conv_bn_relu6(n, next(), y, hidden, {.kernel = {3}, .stride = {stride}, .pad = {1}}, hidden);
  y = n.conv(next(), y, channels, {.kernel = {1}}, {.gain = 1});
  bool residual = stride == 1 && n.channels(x) == channels;
  y = n.batch_norm(next(), y, 1e-5, residual ? 0.5 : 1);
  return residual ? n.add(at + ".add", x, y) : y;
}

void mobilenet_v2(Net& n, const ZooOptions& o) {
  struct Stage {
    int64_t expansion, channels, count, stride;
  };
  const std::vector<Stage> stages = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                     {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  NodeId x = n.input("x", {o.batch, 3, o.size, o.size});
  x = conv_bn_relu6(n, "features.0", x, 32, {.kernel = {3}, .stride = {2}, .pad = {1}});
  int64_t index = 1;
  for (const Stage& s : stages) {
    for (int64_t i = 0; i < s.count; ++i) {
      x = inverted_residual(n, str("features.", index++), x, s.channels, i == 0 ? s.stride : 1,
                            s.expansion);
    }
  }
  x = conv_bn_relu6(n, str("features.", index), x, 1280, {.kernel = {1}});
  x = n.flatten("flatten", n.global_average_pool("avgpool", x));
  n.output("logits", n.linear("classifier.1", x, 1000));
}

}  // namespace

std::vector<ZooEntry> mobilenet_models() {
  return {{"mobilenet_v2", "MobileNet-V2, images of 224", {.size = 224}, mobilenet_v2}};
}

}  // namespace emend
