// Inception-v3 (Szegedy et al. 2015) as torchvision has it, without the auxiliary classifier.
// PET runs it on images of 330.
#include "base/text.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

NodeId basic(Net& n, const std::string& at, NodeId x, int64_t channels, const WindowStyle& w) {
  x = n.conv(at + ".conv", x, channels, w);
  return n.relu(at + ".relu", n.batch_norm(at + ".bn", x, 1e-3));
}

NodeId smooth(Net& n, const std::string& at, NodeId x) {
  return n.average_pool(at + ".avg_pool2d", x, {.kernel = {3}, .pad = {1}}, true);
}

NodeId shrink(Net& n, const std::string& at, NodeId x) {
  return n.max_pool(at + ".max_pool2d", x, {.kernel = {3}, .stride = {2}});
}

const WindowStyle kOne{.kernel = {1}}, kThree{.kernel = {3}, .pad = {1}},
    kFive{.kernel = {5}, .pad = {2}}, kHalf{.kernel = {3}, .stride = {2}},
    kRow3{.kernel = {1, 3}, .pad = {0, 1}}, kColumn3{.kernel = {3, 1}, .pad = {1, 0}},
    kRow7{.kernel = {1, 7}, .pad = {0, 3}}, kColumn7{.kernel = {7, 1}, .pad = {3, 0}};

NodeId block_a(Net& n, const std::string& at, NodeId x, int64_t pool_channels) {
  NodeId one = basic(n, at + ".branch1x1", x, 64, kOne);
  NodeId five = basic(n, at + ".branch5x5_1", x, 48, kOne);
  five = basic(n, at + ".branch5x5_2", five, 64, kFive);
  NodeId three = basic(n, at + ".branch3x3dbl_1", x, 64, kOne);
  three = basic(n, at + ".branch3x3dbl_2", three, 96, kThree);
  three = basic(n, at + ".branch3x3dbl_3", three, 96, kThree);
  NodeId pool = basic(n, at + ".branch_pool", smooth(n, at, x), pool_channels, kOne);
  return n.concat(at + ".cat", {one, five, three, pool}, 1);
}

NodeId block_b(Net& n, const std::string& at, NodeId x) {
  NodeId three = basic(n, at + ".branch3x3", x, 384, kHalf);
  NodeId twice = basic(n, at + ".branch3x3dbl_1", x, 64, kOne);
  twice = basic(n, at + ".branch3x3dbl_2", twice, 96, kThree);
  twice = basic(n, at + ".branch3x3dbl_3", twice, 96, kHalf);
  return n.concat(at + ".cat", {three, twice, shrink(n, at, x)}, 1);
}

NodeId block_c(Net& n, const std::string& at, NodeId x, int64_t c) {
  NodeId one = basic(n, at + ".branch1x1", x, 192, kOne);
  NodeId seven = basic(n, at + ".branch7x7_1", x, c, kOne);
  seven = basic(n, at + ".branch7x7_2", seven, c, kRow7);
  seven = basic(n, at + ".branch7x7_3", seven, 192, kColumn7);
  NodeId twice = basic(n, at + ".branch7x7dbl_1", x, c, kOne);
  twice = basic(n, at + ".branch7x7dbl_2", twice, c, kColumn7);
  twice = basic(n, at + ".branch7x7dbl_3", twice, c, kRow7);
  twice = basic(n, at + ".branch7x7dbl_4", twice, c, kColumn7);
  twice = basic(n, at + ".branch7x7dbl_5", twice, 192, kRow7);
  NodeId pool = basic(n, at + ".branch_pool", smooth(n, at, x), 192, kOne);
  return n.concat(at + ".cat", {one, seven, twice, pool}, 1);
}

NodeId block_d(Net& n, const std::string& at, NodeId x) {
  NodeId three = basic(n, at + ".branch3x3_1", x, 192, kOne);
  three = basic(n, at + ".branch3x3_2", three, 320, kHalf);
  NodeId seven = basic(n, at + ".branch7x7x3_1", x, 192, kOne);
  seven = basic(n, at + ".branch7x7x3_2", seven, 192, kRow7);
  seven = basic(n, at + ".branch7x7x3_3", seven, 192, kColumn7);
  seven = basic(n, at + ".branch7x7x3_4", seven, 192, kHalf);
  return n.concat(at + ".cat", {three, seven, shrink(n, at, x)}, 1);
}

NodeId block_e(Net& n, const std::string& at, NodeId x) {
  auto fork = [&](const std::string& branch, NodeId y) {
    NodeId row = basic(n, at + branch + "a", y, 384, kRow3);
    NodeId column = basic(n, at + branch + "b", y, 384, kColumn3);
    return n.concat(at + ".cat", {row, column}, 1);
  };
  NodeId one = basic(n, at + ".branch1x1", x, 320, kOne);
  NodeId three = fork(".branch3x3_2", basic(n, at + ".branch3x3_1", x, 384, kOne));
  NodeId twice = basic(n, at + ".branch3x3dbl_1", x, 448, kOne);
  twice = fork(".branch3x3dbl_3", basic(n, at + ".branch3x3dbl_2", twice, 384, kThree));
  NodeId pool = basic(n, at + ".branch_pool", smooth(n, at, x), 192, kOne);
  return n.concat(at + ".cat", {one, three, twice, pool}, 1);
}

void inception_v3(Net& n, const ZooOptions& o) {
  NodeId x = n.input("x", {o.batch, 3, o.size, o.size});
  x = basic(n, "Conv2d_1a_3x3", x, 32, kHalf);
  x = basic(n, "Conv2d_2a_3x3", x, 32, {.kernel = {3}});
  x = basic(n, "Conv2d_2b_3x3", x, 64, kThree);
  x = n.max_pool("maxpool1", x, {.kernel = {3}, .stride = {2}});
  x = basic(n, "Conv2d_3b_1x1", x, 80, kOne);
  x = basic(n, "Conv2d_4a_3x3", x, 192, {.kernel = {3}});
  x = n.max_pool("maxpool2", x, {.kernel = {3}, .stride = {2}});
  x = block_a(n, "Mixed_5b", x, 32);
  x = block_a(n, "Mixed_5c", x, 64);
  x = block_a(n, "Mixed_5d", x, 64);
  x = block_b(n, "Mixed_6a", x);
  x = block_c(n, "Mixed_6b", x, 128);
  x = block_c(n, "Mixed_6c", x, 160);
  x = block_c(n, "Mixed_6d", x, 160);
  x = block_c(n, "Mixed_6e", x, 192);
  x = block_d(n, "Mixed_7a", x);
  x = block_e(n, "Mixed_7b", x);
  x = block_e(n, "Mixed_7c", x);
  x = n.flatten("flatten", n.global_average_pool("avgpool", x));
  n.output("logits", n.linear("fc", x, 1000));
}

}  // namespace

std::vector<ZooEntry> inception_models() {
  return {{"inception_v3",
           "Inception-v3, images of 299 (PET: --size 330)",
           {.size = 299},
           inception_v3}};
}

}  // namespace emend
