// The matrix product with a scaled addend, as BLAS has it.
#include "ops/compose.h"
#include "ops/composite.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

NodeId gemm_expand(GraphBuilder& b, const Gemm& a, Args args) {
  Formula x(b, args[0]), y(b, args[1]);
  if (x.rank() != 2 || y.rank() != 2) {
    throw Error(
        str("needs two matrices, got ", shape_text(x.shape()), " and ", shape_text(y.shape())));
  }
  Formula product =
      matmul(a.trans_a ? transpose(x, {1, 0}) : x, a.trans_b ? transpose(y, {1, 0}) : y);
  if (a.alpha != 1) product = product * a.alpha;
  if (args.size() < 3) return product;
  Formula addend(b, args[2]);
  auto both = broadcast_shapes(product.shape(), addend.shape());
  if (!both || *both != product.shape()) {
    throw Error(str("the addend ", shape_text(addend.shape()), " does not broadcast to ",
                    shape_text(product.shape())));
  }
  return product + (a.beta != 1 ? addend * a.beta : addend);
}

// Before opset 7 an attribute said whether the addend may broadcast; where it must not, it has the
// full shape anyway.
Result<std::vector<NodeId>> gemm_lower(OnnxCall& c) {
  Gemm a{.alpha = c.real_attr("alpha", 1),
         .beta = c.real_attr("beta", 1),
         .trans_a = c.int_attr("transA", 0) != 0,
         .trans_b = c.int_attr("transB", 0) != 0};
  std::vector<NodeId> args = {c.inputs.at(0), c.inputs.at(1)};
  if (c.has(2)) args.push_back(c.inputs[2]);
  return std::vector{c.b.op("gemm", args, to_attrs(a))};
}

std::vector<NodeId> gemm_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Gemm>();
  std::vector<NodeId> inputs = w.args;
  // Before opset 11 the addend is not optional.
  if (inputs.size() < 3 && w.opset < 11) inputs.push_back(w.b.scalar(0, w.type.dtype));
  std::vector<Attrs::Entry> attributes = {{"alpha", a.alpha},
                                          {"beta", a.beta},
                                          {"transA", int64_t{a.trans_a}},
                                          {"transB", int64_t{a.trans_b}}};
  if (w.opset < 7) attributes.emplace_back("broadcast", 1);
  return w.emit("Gemm", inputs, attributes);
}

}  // namespace

std::vector<OpDef> linear_ops() {
  return {define<Gemm>({.name = "gemm",
                        .min_args = 2,
                        .max_args = 3,
                        .expand = gemm_expand,
                        .onnx = {{.type = "Gemm", .lower = gemm_lower, .raise = gemm_raise}},
                        .doc = "alpha * a b + beta * c of matrices, each of a and b transposed if "
                               "asked; c broadcasts"})};
}

}  // namespace emend
