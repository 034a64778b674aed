// NASNet-A (Zoph et al. 2017): the mobile network (4 cells a stage, 1056 channels at the end) with
// TensorFlow's "same" borders, and the simplified one that TASO and TENSAT run, which has other
// cells, a plain stem and no batch norm.
#include <algorithm>

#include "base/text.h"
#include "ops/movement.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

// Borders such that ceil(size / stride) outputs come out; the odd one goes behind (TensorFlow) or
// before (TASO).
enum class OddBorder { behind, before };

WindowStyle same(const Net& n, NodeId x, int64_t kernel, int64_t stride,
                 OddBorder odd = OddBorder::behind) {
  Dims before, behind;
  for (size_t d = 2; d < n.shape(x).size(); ++d) {
    int64_t size = n.shape(x)[d], out = (size + stride - 1) / stride;
    int64_t total = std::max<int64_t>(0, (out - 1) * stride + kernel - size);
    before.push_back(odd == OddBorder::before ? (total + 1) / 2 : total / 2);
    behind.push_back(total - before.back());
  }
  before.insert(before.end(), behind.begin(), behind.end());
  return {.kernel = {kernel}, .stride = {stride}, .pad = before};
}

// --- The mobile network ---

constexpr double kEpsilon = 1e-3;
// Every block of a cell adds two values: the squeeze before the next cell takes that back.
constexpr double kSqueezeGain = 0.7;

class Mobile {
 public:
  Mobile(Net& net, const ZooOptions& options) : n(net), o(options) {}

  void run() {
    const int64_t filters = 44;
    NodeId x = n.input("x", {o.batch, 3, o.size, o.size});
    x = n.conv("conv0.conv", x, 32, {.kernel = {3}, .stride = {2}});
    x = n.batch_norm("conv0.bn", x, kEpsilon);
    NodeId first = reduction_cell("cell_stem_0", NodeId(), x, filters / 4);
    NodeId second = reduction_cell("cell_stem_1", x, first, filters / 2);
    NodeId previous = first, current = second;
    int64_t cell = 0;
    for (int64_t stage = 0; stage < 3; ++stage) {
      int64_t width = filters << stage;
      for (int64_t i = 0; i < 4; ++i) {
        NodeId next = normal_cell(str("cell_", cell++), previous, current, width);
        previous = current;
        current = next;
      }
      if (stage == 2) break;
      NodeId next = reduction_cell(str("reduction_cell_", stage), previous, current, 2 * width);
      previous = current;
      current = next;
    }
    x = n.global_average_pool("avg_pool", n.relu("relu", current));
    n.output("logits", n.linear("last_linear", n.flatten("flatten", x), 1000));
  }

 private:
  // Relu, then twice a depthwise and a pointwise convolution with batch norm.
  NodeId separable(const std::string& at, NodeId x, int64_t channels, int64_t kernel,
                   int64_t stride) {
    x = depthwise_pointwise(at + ".separable_1", n.relu(at + ".relu", x), channels, kernel, stride);
    x = n.batch_norm(at + ".bn_sep_1", x, kEpsilon);
    x = depthwise_pointwise(at + ".separable_2", n.relu(at + ".relu1", x), channels, kernel, 1);
    return n.batch_norm(at + ".bn_sep_2", x, kEpsilon);
  }

  NodeId depthwise_pointwise(const std::string& at, NodeId x, int64_t channels, int64_t kernel,
                             int64_t stride) {
    int64_t in = n.channels(x);
    x = n.conv(at + ".depthwise_conv2d", x, in, same(n, x, kernel, stride),
               {.groups = in, .gain = 1});
    return n.conv(at + ".pointwise_conv2d", x, channels, {.kernel = {1}});
  }

  NodeId squeeze(const std::string& at, NodeId x, int64_t channels) {
    x = n.conv(at + ".conv", n.relu(at + ".relu", x), channels, {.kernel = {1}});
    return n.batch_norm(at + ".bn", x, kEpsilon, kSqueezeGain);
  }

  // Halves the size without losing the odd positions: two strided reads, one shifted by a pixel.
  NodeId factorized_reduction(const std::string& at, NodeId x, int64_t channels) {
    x = n.relu(at + ".relu", x);
    WindowStyle skip{.kernel = {1}, .stride = {2}};
    NodeId even = n.average_pool(at + ".path_1.avgpool", x, skip, false);
    even = n.conv(at + ".path_1.conv", even, channels / 2, {.kernel = {1}});
    NodeId odd = n.op(at + ".path_2.pad", "pad", {x}, Pad{.pads = {0, 0, 0, 0, 0, 0, 1, 1}});
    odd = n.op(at + ".path_2.crop", "slice", {odd},
               Slice{.starts = {0, 0, 1, 1}, .sizes = n.shape(x), .steps = {1, 1, 1, 1}});
    odd = n.average_pool(at + ".path_2.avgpool", odd, skip, false);
    odd = n.conv(at + ".path_2.conv", odd, channels - channels / 2, {.kernel = {1}});
    x = n.concat(at + ".cat", {even, odd}, 1);
    return n.batch_norm(at + ".final_path_bn", x, kEpsilon, kSqueezeGain);
  }

  // The output of the cell before the last, brought to the size and width of the current one.
  NodeId fit(const std::string& at, NodeId previous, NodeId current, int64_t channels) {
    if (n.shape(previous)[2] != n.shape(current)[2]) {
      return factorized_reduction(at, previous, channels);
    }
    return squeeze(at + ".conv_prev_1x1", previous, channels);
  }

  NodeId average(const std::string& at, NodeId x, int64_t stride) {
    return n.average_pool(at, x, same(n, x, 3, stride), false);
  }
  NodeId largest(const std::string& at, NodeId x) { return n.max_pool(at, x, same(n, x, 3, 2)); }

  NodeId normal_cell(const std::string& at, NodeId previous, NodeId current, int64_t width) {
    NodeId p = fit(at, previous, current, width);
    NodeId c = squeeze(at + ".conv_1x1", current, width);
    auto sep = [&](const std::string& name, NodeId x, int64_t kernel) {
      return separable(at + name, x, width, kernel, 1);
    };
    auto add = [&](int i, NodeId x, NodeId y) { return n.add(str(at, ".comb_iter_", i), x, y); };
    NodeId y0 = add(0, sep(".comb_iter_0_left", c, 5), sep(".comb_iter_0_right", p, 3));
    NodeId y1 = add(1, sep(".comb_iter_1_left", p, 5), sep(".comb_iter_1_right", p, 3));
    NodeId y2 = add(2, average(at + ".comb_iter_2_left", c, 1), p);
    NodeId y3 =
        add(3, average(at + ".comb_iter_3_left", p, 1), average(at + ".comb_iter_3_right", p, 1));
    NodeId y4 = add(4, sep(".comb_iter_4_left", c, 3), c);
    return n.concat(at + ".cat", {p, y0, y1, y2, y3, y4}, 1);
  }

  // Without a previous cell (the first of the stem) the input itself stands for it.
  NodeId reduction_cell(const std::string& at, NodeId previous, NodeId current, int64_t width) {
    NodeId p = previous.valid() ? fit(at, previous, current, width) : current;
    NodeId c = squeeze(at + ".conv_1x1", current, width);
    auto sep = [&](const std::string& name, NodeId x, int64_t kernel, int64_t stride) {
      return separable(at + name, x, width, kernel, stride);
    };
    auto add = [&](int i, NodeId x, NodeId y) { return n.add(str(at, ".comb_iter_", i), x, y); };
    NodeId y0 = add(0, sep(".comb_iter_0_left", c, 5, 2), sep(".comb_iter_0_right", p, 7, 2));
    NodeId y1 = add(1, largest(at + ".comb_iter_1_left", c), sep(".comb_iter_1_right", p, 7, 2));
    NodeId y2 = add(2, average(at + ".comb_iter_2_left", c, 2), sep(".comb_iter_2_right", p, 5, 2));
    NodeId y3 = add(3, average(at + ".comb_iter_3_right", y0, 1), y1);
    NodeId y4 = add(4, sep(".comb_iter_4_left", y0, 3, 1), largest(at + ".comb_iter_4_right", c));
    return n.concat(at + ".cat", {y1, y2, y3, y4}, 1);
  }

  Net& n;
  const ZooOptions& o;
};

// --- TENSAT's ---

class Tensat {
 public:
  Tensat(Net& net, const ZooOptions& options) : n(net), o(options) {}

  void run() {
    NodeId x = n.input("x", {o.batch, 3, o.size, o.size});
    x = n.relu("stem.relu", n.conv("stem.conv", x, 64, border(x, 7, 2)));
    x = n.max_pool("stem.maxpool", x, border(x, 3, 2));
    int64_t channels = 128;
    for (int64_t stage = 0; stage < 3; ++stage) {
      NodeId previous = x, current = x;
      for (int64_t i = 0; i < 5; ++i) {
        NodeId next = normal_cell(str("stage.", stage, ".normal.", i), previous, current, channels);
        previous = current;
        current = next;
      }
      channels *= 2;
      x = reduction_cell(str("stage.", stage, ".reduction"), previous, current, channels);
    }
    n.output("y", x);
  }

 private:
  WindowStyle border(NodeId x, int64_t kernel, int64_t stride) {
    return same(n, x, kernel, stride, OddBorder::before);
  }
  NodeId squeeze(const std::string& at, NodeId x, int64_t channels) {
    return n.relu(at + ".relu", n.conv(at, x, channels, {.kernel = {1}}, {.gain = 1}));
  }
  NodeId separable(const std::string& at, NodeId x, int64_t channels, int64_t kernel,
                   int64_t stride) {
    x = n.conv(at + ".depthwise", x, channels, border(x, kernel, stride),
               {.groups = n.channels(x), .gain = 1});
    return n.conv(at + ".pointwise", x, channels, {.kernel = {1}}, {.gain = 1});
  }
  NodeId average(const std::string& at, NodeId x, int64_t stride) {
    return n.average_pool(at, x, border(x, 3, stride), false);
  }
  NodeId largest(const std::string& at, NodeId x) { return n.max_pool(at, x, border(x, 3, 2)); }

  NodeId normal_cell(const std::string& at, NodeId previous, NodeId current, int64_t width) {
    NodeId c = squeeze(at + ".current", current, width);
    NodeId p = squeeze(at + ".previous", previous, width);
    auto sep = [&](int i, NodeId x) {
      return separable(str(at, ".separable.", i), x, width, 3, 1);
    };
    auto add = [&](NodeId x, NodeId y) { return n.add(at + ".add", x, y); };
    NodeId y0 = add(sep(0, c), c);
    NodeId y1 = add(sep(1, p), sep(2, c));
    NodeId y2 = add(average(at + ".avgpool", c, 1), p);
    NodeId y3 = add(average(at + ".avgpool", p, 1), average(at + ".avgpool", p, 1));
    NodeId y4 = add(sep(3, p), sep(4, p));
    return n.concat(at + ".cat", {y0, y1, y2, y3, y4}, 1);
  }

  NodeId reduction_cell(const std::string& at, NodeId previous, NodeId current, int64_t width) {
    NodeId c = squeeze(at + ".current", current, width);
    NodeId p = squeeze(at + ".previous", previous, width);
    auto sep = [&](int i, NodeId x, int64_t kernel, int64_t stride) {
      return separable(str(at, ".separable.", i), x, width, kernel, stride);
    };
    auto add = [&](NodeId x, NodeId y) { return n.add(at + ".add", x, y); };
    NodeId y0 = add(sep(0, p, 7, 2), sep(1, c, 5, 2));
    NodeId y1 = add(largest(at + ".maxpool", c), sep(2, p, 7, 2));
    NodeId y2 = add(average(at + ".avgpool", c, 2), sep(3, p, 5, 2));
    NodeId y3 = add(largest(at + ".maxpool", c), sep(4, y0, 3, 1));
    NodeId y4 = add(average(at + ".avgpool", y0, 1), y1);
    return n.concat(at + ".cat", {y0, y1, y2, y3, y4}, 1);
  }

  Net& n;
  const ZooOptions& o;
};

}  // namespace

std::vector<ZooEntry> nasnet_models() {
  return {
      {"nasnet_a",
       "NASNet-A mobile (4 @ 1056), images of 224",
       {.size = 224},
       [](Net& n, const ZooOptions& o) { Mobile(n, o).run(); }},
      {"nasnet_a_tensat",
       "NASNet-A as TENSAT runs it: no batch norm, 128 to 1024 channels",
       {.size = 224},
       [](Net& n, const ZooOptions& o) { Tensat(n, o).run(); }},
  };
}

}  // namespace emend
