// ONNX's Gradient: the derivative of a part of the graph, which its attributes name. Here the part
// is a body graph f of the node's operands, and the node stands for f's derivative.
#include <map>

#include "ops/build.h"
#include "ops/derivative.h"
#include "ops/table.h"

namespace emend {
namespace {

struct Gradient {
  GraphRef body;   // one result, a function of all operands
  int64_t by = 0;  // derivatives are wanted by the first so many operands
  EMEND_FIELDS(body, by)
};

// The derivative is built on its own, so that it stops at the operands.
NodeId gradient_expand(GraphBuilder& b, const Gradient& a, Args args) {
  if (!a.body || a.body->inputs.size() != args.size() || a.body->outputs.size() != 1)
    throw Error(str("gradient: the body is no function of ", args.size(), " operands"));
  GraphBuilder own;
  std::vector<NodeId> inputs;
  for (NodeId n : args) inputs.push_back(own.input("", b.type(n)));
  NodeId y = splice(own, *a.body, inputs)[0];
  NodeId one = own.scalar(1, own.dtype(y));
  NodeId seed = own.op("broadcast", {one}, Attrs({{"shape", own.shape(y)}}));
  auto by = Args(inputs).first(static_cast<size_t>(a.by));
  auto found = gradients(own, Args(&y, 1), Args(&seed, 1), by);
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].valid())
      found[i] = own.constant(Tensor::zeros(own.dtype(by[i]), own.shape(by[i])));
    own.output(str("d", i), found[i]);
  }
  return b.op("tuple", splice(b, std::move(own).build(), args));
}

// Copies what `y` is made of into a body of its own; `variables` become its inputs, and so do the
// program's inputs that are no variables.
class Extraction {
 public:
  Extraction(const Graph& g, Args variables) : g_(g) {
    for (NodeId n : variables) made_[n] = b_.input("x", g.types[n]);
  }
  NodeId copy(NodeId n) {
    if (auto it = made_.find(n); it != made_.end()) return it->second;
    const Node& node = g_.nodes[n];
    if (node.op == kInputOp) {
      others.push_back(n);
      return made_[n] = b_.input("z", g_.types[n]);
    }
    if (node.op == kConstantOp) return made_[n] = b_.constant(g_.constant(n));
    std::vector<NodeId> operands;
    for (NodeId a : node.args) operands.push_back(copy(a));
    return made_[n] = b_.try_op(node.op, operands, node.attrs).value_or_throw();
  }
  Graph finish(NodeId y) {
    b_.output("y", copy(y));
    return std::move(b_).build();
  }
  std::vector<NodeId> others;

 private:
  const Graph& g_;
  GraphBuilder b_;
  std::map<NodeId, NodeId> made_;
};

// Captured are the values that the attributes name: xs.., zs.., y. The inputs are what is put in
// the place of xs and zs.
Result<std::vector<NodeId>> gradient_lower(OnnxCall& c) {
  auto xs = c.node.attributes.get_or<std::vector<std::string>>("xs", {});
  if (c.captured.size() != c.inputs.size() + 1 || xs.size() > c.inputs.size())
    throw Error("Gradient needs an input for each value that xs and zs name");
  Args captured = c.captured;
  Extraction part(c.b.graph(), captured.first(c.inputs.size()));
  Gradient a{.by = static_cast<int64_t>(xs.size())};
  a.body = GraphRef(part.finish(captured.back()));
  std::vector<NodeId> operands = c.inputs;
  operands.insert(operands.end(), part.others.begin(), part.others.end());
  return c.b.get_all(c.b.op("gradient", operands, to_attrs(a)));
}

}  // namespace

std::vector<OpDef> gradient_ops() {
  return {define<Gradient>({.name = "gradient",
                            .min_args = 1,
                            .max_args = -1,
                            .expand = gradient_expand,
                            .onnx = {{.type = "Gradient",
                                      .domain = "ai.onnx.preview.training",
                                      .lower = gradient_lower,
                                      .lower_only = true}},
                            .doc = "derivatives of a body graph's result (the sum of its elements) "
                                   "by the first operands"})};
}

}  // namespace emend
