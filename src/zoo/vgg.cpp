// Plain stacks of 3x3 convolutions: VGG-19 (Simonyan and Zisserman 2014), CSRNet (Li et al. 2018),
// which puts dilated ones behind the front of VGG-16, and the part of it that PET runs.
#include "base/text.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

constexpr int64_t kPool = 0;  // in a list of channel counts

// Convolutions with relu and poolings, numbered as nn.Sequential numbers them.
NodeId stack(Net& n, const std::string& at, NodeId x, const Dims& plan, int64_t dilation = 1,
             bool bias = true) {
  int64_t index = 0;
  auto next = [&] { return at.empty() ? str(index++) : str(at, ".", index++); };
  for (int64_t channels : plan) {
    if (channels == kPool) {
      x = n.max_pool(next(), x, {.kernel = {2}, .stride = {2}});
      continue;
    }
    WindowStyle w{.kernel = {3}, .pad = {dilation}, .dilation = {dilation}};
    x = n.conv(next(), x, channels, w, {.bias = bias});
    x = n.relu(next(), x);
  }
  return x;
}

void vgg19(Net& n, const ZooOptions& o) {
  NodeId x = n.input("x", {o.batch, 3, o.size, o.size});
  x = stack(n, "features", x, {64,  64,  kPool, 128, 128,   kPool, 256, 256, 256, 256,  kPool,
                               512, 512, 512,   512, kPool, 512,   512, 512, 512, kPool});
  x = n.flatten("flatten", x);
  for (int64_t layer : {0, 3}) {
    x = n.linear(str("classifier.", layer), x, 4096, true, 1.4142135623730951);
    x = n.relu(str("classifier.", layer + 1), x);
  }
  n.output("logits", n.linear("classifier.6", x, 1000));
}

const Dims kDilatedBackEnd = {512, 512, 512, 256, 128, 64};

void csrnet(Net& n, const ZooOptions& o) {
  NodeId x = n.input("x", {o.batch, 3, o.size, o.size});
  x = stack(n, "frontend", x,
            {64, 64, kPool, 128, 128, kPool, 256, 256, 256, kPool, 512, 512, 512});
  x = stack(n, "backend", x, kDilatedBackEnd, 2);
  n.output("density", n.conv("output_layer", x, 1, {.kernel = {1}}, {.bias = true, .gain = 1}));
}

void csrnet_pet(Net& n, const ZooOptions& o) {
  NodeId x = n.input("x", {o.batch, 512, o.size, o.size});
  n.output("y", stack(n, "", x, kDilatedBackEnd, 2, false));
}

}  // namespace

std::vector<ZooEntry> vgg_models() {
  return {
      {"vgg19", "VGG-19, images of 224", {.size = 224}, vgg19},
      {"csrnet", "CSRNet for crowd density, images of 224", {.size = 224}, csrnet},
      {"csrnet_pet",
       "CSRNet as PET runs it: the dilated back end alone, on 512x14x14",
       {.size = 14},
       csrnet_pet},
  };
}

}  // namespace emend
