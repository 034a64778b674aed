// Residual networks: ResNet-18 and -50 (He et al. 2015, with the stride on the 3x3 convolution),
// ResNeXt-50 32x4d (Xie et al. 2016) and ResNet3D-18 (Tran et al. 2017), as torchvision has them.
#include "base/text.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

// The last scale of a residual branch: small, so that the sums of many blocks stay of order one.
constexpr double kBranchGain = 0.4;

struct ResNet {
  std::vector<int64_t> blocks;
  bool bottleneck = false;
  int64_t groups = 1, width_per_group = 64;
};

NodeId shortcut(Net& n, const std::string& at, NodeId x, int64_t channels, int64_t stride) {
  if (stride == 1 && n.channels(x) == channels) return x;
  NodeId y =
      n.conv(at + ".downsample.0", x, channels, {.kernel = {1}, .stride = {stride}}, {.gain = 1});
  return n.batch_norm(at + ".downsample.1", y);
}

NodeId basic_block(Net& n, const std::string& at, NodeId x, int64_t channels, int64_t stride) {
  NodeId y = n.conv(at + ".conv1", x, channels, {.kernel = {3}, .stride = {stride}, .pad = {1}});
  y = n.relu(at + ".relu", n.batch_norm(at + ".bn1", y));
  y = n.conv(at + ".conv2", y, channels, {.kernel = {3}, .pad = {1}});
  y = n.batch_norm(at + ".bn2", y, 1e-5, kBranchGain);
  y = n.add(at + ".add", y, shortcut(n, at, x, channels, stride));
  return n.relu(at + ".relu", y);
}

NodeId bottleneck(Net& n, const std::string& at, NodeId x, const ResNet& r, int64_t planes,
                  int64_t stride) {
  int64_t width = planes * r.width_per_group / 64 * r.groups, channels = planes * 4;
  NodeId y = n.conv(at + ".conv1", x, width, {.kernel = {1}});
  y = n.relu(at + ".relu", n.batch_norm(at + ".bn1", y));
  y = n.conv(at + ".conv2", y, width, {.kernel = {3}, .stride = {stride}, .pad = {1}},
             {.groups = r.groups});
  y = n.relu(at + ".relu", n.batch_norm(at + ".bn2", y));
  y = n.conv(at + ".conv3", y, channels, {.kernel = {1}});
  y = n.batch_norm(at + ".bn3", y, 1e-5, kBranchGain);
  y = n.add(at + ".add", y, shortcut(n, at, x, channels, stride));
  return n.relu(at + ".relu", y);
}

void classify(Net& n, NodeId x, int64_t classes) {
  x = n.flatten("flatten", n.global_average_pool("avgpool", x));
  n.output("logits", n.linear("fc", x, classes));
}

void resnet(Net& n, const ZooOptions& o, const ResNet& r) {
  NodeId x = n.input("x", {o.batch, 3, o.size, o.size});
  x = n.conv("conv1", x, 64, {.kernel = {7}, .stride = {2}, .pad = {3}});
  x = n.relu("relu", n.batch_norm("bn1", x));
  x = n.max_pool("maxpool", x, {.kernel = {3}, .stride = {2}, .pad = {1}});
  for (size_t stage = 0; stage < r.blocks.size(); ++stage) {
    int64_t planes = int64_t{64} << stage;
    for (int64_t i = 0; i < r.blocks[stage]; ++i) {
      std::string at = str("layer", stage + 1, ".", i);
      int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      x = r.bottleneck ? bottleneck(n, at, x, r, planes, stride)
                       : basic_block(n, at, x, planes, stride);
    }
  }
  classify(n, x, 1000);
}

// Video: the basic block in three dimensions, its layers inside sequences.
NodeId block3d(Net& n, const std::string& at, NodeId x, int64_t channels, int64_t stride) {
  WindowStyle w{.kernel = {3}, .stride = {stride}, .pad = {1}};
  NodeId y = n.batch_norm(at + ".conv1.1", n.conv(at + ".conv1.0", x, channels, w));
  y = n.relu(at + ".conv1.2", y);
  w.stride = {1};
  y = n.batch_norm(at + ".conv2.1", n.conv(at + ".conv2.0", y, channels, w), 1e-5, kBranchGain);
  y = n.add(at + ".add", y, shortcut(n, at, x, channels, stride));
  return n.relu(at + ".relu", y);
}

void resnet3d18(Net& n, const ZooOptions& o) {
  NodeId x = n.input("x", {o.batch, 3, o.steps, o.size, o.size});
  x = n.conv("stem.0", x, 64, {.kernel = {3, 7, 7}, .stride = {1, 2, 2}, .pad = {1, 3, 3}});
  x = n.relu("stem.2", n.batch_norm("stem.1", x));
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t i = 0; i < 2; ++i) {
      int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      x = block3d(n, str("layer", stage + 1, ".", i), x, int64_t{64} << stage, stride);
    }
  }
  classify(n, x, 400);
}

}  // namespace

std::vector<ZooEntry> resnet_models() {
  auto entry = [](std::string name, std::string doc, ResNet r) {
    return ZooEntry{
        std::move(name), std::move(doc), {.size = 224}, [r](Net& n, const ZooOptions& o) {
          resnet(n, o, r);
        }};
  };
  return {
      entry("resnet18", "ResNet-18, images of 224", {.blocks = {2, 2, 2, 2}}),
      entry("resnet50", "ResNet-50, images of 224", {.blocks = {3, 4, 6, 3}, .bottleneck = true}),
      entry("resnext50", "ResNeXt-50 32x4d, images of 224",
            {.blocks = {3, 4, 6, 3}, .bottleneck = true, .groups = 32, .width_per_group = 4}),
      {"resnet3d18",
       "ResNet3D-18, clips of 16 frames of 112",
       {.size = 112, .steps = 16},
       resnet3d18},
  };
}

}  // namespace emend
