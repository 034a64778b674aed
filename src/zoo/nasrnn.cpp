// The recurrent cell found by architecture search (Zoph and Le 2016), unrolled, as TENSAT and TASO
// run it: every step has weights of its own, and the first state is a weight.
#include <cmath>

#include "base/text.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

constexpr int64_t kHidden = 512;

NodeId cell(Net& n, const std::string& at, NodeId x, NodeId h) {
  auto fn = [&](std::string_view op, NodeId a) { return n.op(str(at, ".", op), op, {a}); };
  auto fn2 = [&](std::string_view op, NodeId a, NodeId b) {
    return n.op(str(at, ".", op), op, {a, b});
  };
  const double deviation = 1 / std::sqrt(static_cast<double>(kHidden));
  std::vector<NodeId> t;
  for (int64_t i = 0; i < 8; ++i) {
    NodeId w = n.parameter(str(at, ".w.", i), {kHidden, kHidden}, deviation);
    NodeId v = n.parameter(str(at, ".v.", i), {kHidden, kHidden}, deviation);
    t.push_back(fn2("add", fn2("matmul", x, w), fn2("matmul", h, v)));
  }
  NodeId a = fn2("add", fn("relu", t[0]), fn("sigmoid", t[3]));
  NodeId b = fn2("add", fn("sigmoid", t[1]), fn("tanh", t[2]));
  NodeId c = fn2("mul", fn("sigmoid", t[4]), fn("tanh", t[5]));
  NodeId d = fn2("mul", fn("sigmoid", t[6]), fn("relu", t[7]));
  NodeId e = fn2("add", fn("sigmoid", b), fn("tanh", c));
  NodeId f = fn2("mul", fn("tanh", a), fn("tanh", d));
  return fn("tanh", fn2("mul", fn("tanh", e), fn("tanh", f)));
}

void nasrnn(Net& n, const ZooOptions& o) {
  std::vector<NodeId> xs;
  for (int64_t i = 0; i < o.steps; ++i) xs.push_back(n.input(str("x", i), {o.batch, kHidden}));
  // One row that every sequence of the batch begins with.
  NodeId h = n.parameter("state", {1, kHidden}, 0.5);
  for (int64_t i = 0; i < o.steps; ++i) {
    h = cell(n, str("step.", i), xs[static_cast<size_t>(i)], h);
  }
  n.output("h", h);
}

}  // namespace

std::vector<ZooEntry> nasrnn_models() {
  return {{"nasrnn", "NasRNN as TENSAT runs it: 5 steps of width 512", {.steps = 5}, nasrnn}};
}

}  // namespace emend
