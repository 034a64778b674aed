// Layers as PyTorch's modules have them, over a GraphBuilder. A layer called at "layer1.0.conv1"
// makes the parameters "layer1.0.conv1.weight" and ".bias", and its nodes carry that path.
//
// Weights are uniform with a given deviation; each element depends only on (seed, parameter's name,
// position), so that a model has the same weights at every batch size and in every build order.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "ops/build.h"

namespace emend {

// Of a convolution or pooling. One number stands for all spatial dimensions; pads are symmetric,
// or twice as many numbers: begins, then ends.
struct WindowStyle {
  Dims kernel;
  Dims stride = {1}, pad = {0}, dilation = {1};
};

struct ConvStyle {
  int64_t groups = 1;
  bool bias = false;
  double gain = 1.4142135623730951;  // deviation times sqrt(fan-in): He's, for a relu that follows
};

class Net {
 public:
  Net(uint64_t seed, bool weights) : seed_(seed), weights_(weights) {}

  NodeId input(const std::string& name, Dims shape, DType dtype = DType::f32);
  void output(const std::string& name, NodeId n) { b_.output(name, n); }
  NodeId parameter(const std::string& name, Dims shape, double deviation, double mean = 0);
  NodeId constant(const std::string& name, Tensor value);
  NodeId number(double v) { return constant("", Tensor::of_real(v, DType::f32)); }

  // One operator under the module path `at`.
  NodeId op(const std::string& at, std::string_view name, std::initializer_list<NodeId> args,
            Attrs attrs = {});
  template <class Struct>
  requires requires { Struct::kFieldNames; }
  NodeId op(const std::string& at, std::string_view name, std::initializer_list<NodeId> args,
            const Struct& attrs) {
    return op(at, name, args, to_attrs(attrs));
  }
  NodeId relu(const std::string& at, NodeId x) { return op(at, "relu", {x}); }
  NodeId add(const std::string& at, NodeId x, NodeId y) { return op(at, "add", {x, y}); }
  NodeId reshape(const std::string& at, NodeId x, Dims shape);
  NodeId transpose(const std::string& at, NodeId x, Dims perm);
  NodeId slice(const std::string& at, NodeId x, int64_t axis, int64_t start, int64_t size);
  NodeId concat(const std::string& at, const std::vector<NodeId>& parts, int64_t axis);
  NodeId flatten(const std::string& at, NodeId x);  // all but the first dimension become one
  NodeId softmax(const std::string& at, NodeId x, int64_t axis);

  NodeId conv(const std::string& at, NodeId x, int64_t filters, const WindowStyle& w,
              const ConvStyle& style = {});
  // x by the transposed weight [out, in], as nn.Linear does.
  NodeId linear(const std::string& at, NodeId x, int64_t out, bool bias = true, double gain = 1);
  NodeId matmul(const std::string& at, NodeId x, NodeId y) { return op(at, "matmul", {x, y}); }
  // Statistics lie around (0, 1) with a spread, the scale around `gain`.
  NodeId batch_norm(const std::string& at, NodeId x, double epsilon = 1e-5, double gain = 1);
  NodeId layer_norm(const std::string& at, NodeId x, double epsilon);
  NodeId rms_norm(const std::string& at, NodeId x, double epsilon);
  NodeId embedding(const std::string& at, NodeId ids, int64_t rows, int64_t width,
                   double deviation);
  NodeId max_pool(const std::string& at, NodeId x, const WindowStyle& w, bool ceil = false);
  // Borders are left out of the mean unless `count_pads`.
  NodeId average_pool(const std::string& at, NodeId x, const WindowStyle& w, bool count_pads);
  NodeId global_average_pool(const std::string& at, NodeId x);

  const Dims& shape(NodeId n) const { return b_.shape(n); }
  int64_t channels(NodeId n) const { return b_.shape(n).at(1); }
  Graph build() && { return std::move(b_).build(); }

 private:
  // Nodes made from now on are named after `at`; a path used again gets a number.
  void enter(const std::string& at);

  GraphBuilder b_;
  uint64_t seed_;
  bool weights_;
  std::map<std::string, int> uses_;
};

}  // namespace emend
