// SqueezeNet 1.1 (Iandola et al. 2016) as torchvision has it.
#include "base/text.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

NodeId fire(Net& n, const std::string& at, NodeId x, int64_t squeeze, int64_t expand) {
  x = n.conv(at + ".squeeze", x, squeeze, {.kernel = {1}}, {.bias = true});
  x = n.relu(at + ".squeeze_activation", x);
  NodeId narrow = n.conv(at + ".expand1x1", x, expand, {.kernel = {1}}, {.bias = true});
  narrow = n.relu(at + ".expand1x1_activation", narrow);
  NodeId wide = n.conv(at + ".expand3x3", x, expand, {.kernel = {3}, .pad = {1}}, {.bias = true});
  wide = n.relu(at + ".expand3x3_activation", wide);
  return n.concat(at + ".cat", {narrow, wide}, 1);
}

void squeezenet(Net& n, const ZooOptions& o) {
  NodeId x = n.input("x", {o.batch, 3, o.size, o.size});
  x = n.conv("features.0", x, 64, {.kernel = {3}, .stride = {2}}, {.bias = true});
  x = n.relu("features.1", x);
  WindowStyle pool{.kernel = {3}, .stride = {2}};
  int64_t squeeze = 16;
  for (int64_t index = 2; index <= 12; ++index) {
    std::string at = str("features.", index);
    if (index == 2 || index == 5 || index == 8) {
      x = n.max_pool(at, x, pool, true);
      continue;
    }
    x = fire(n, at, x, squeeze, squeeze * 4);
    // 16 16 32 32 48 48 64 64
    if (index == 4 || index == 7 || index == 10) squeeze += 16;
  }
  x = n.conv("classifier.1", x, 1000, {.kernel = {1}}, {.bias = true});
  x = n.relu("classifier.2", x);
  n.output("logits", n.flatten("flatten", n.global_average_pool("classifier.3", x)));
}

}  // namespace

std::vector<ZooEntry> squeezenet_models() {
  return {{"squeezenet", "SqueezeNet 1.1, images of 224", {.size = 224}, squeezenet}};
}

}  // namespace emend
