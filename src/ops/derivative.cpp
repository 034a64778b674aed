#include "ops/derivative.h"

#include <algorithm>
#include <map>

#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"
#include "ops/transposed.h"

namespace emend {
namespace {

// The operator whose body is just this function of its operands, in order.
OpId plain_operator(Fn fn) {
  static const std::map<Fn, OpId> kPlain = [] {
    std::map<Fn, OpId> plain;
    for (size_t i = 0; i < all_ops().size(); ++i) {
      const auto& code = all_ops()[i].body.code;
      if (code.empty() || static_cast<int>(code.size()) != info(code.back().fn).arity + 1) continue;
      bool in_order = true;
      for (int32_t k = 0; k + 1 < static_cast<int32_t>(code.size()); ++k) {
        const Instr& operand = code[static_cast<size_t>(k)];
        in_order = in_order && operand.fn == Fn::arg && operand.a == k;
      }
      if (in_order) plain.emplace(code.back().fn, OpId(i));
    }
    return plain;
  }();
  auto it = kPlain.find(fn);
  EMEND_ASSERT(it != kPlain.end(), "no elementwise operator is just ", info(fn).name);
  return it->second;
}

// Writes a scalar function as a graph of plain elementwise operators.
class ScalarGraph {
 public:
  ScalarGraph(GraphBuilder& b, Args args, DType dtype) : b_(b), args_(args), dtype_(dtype) {}

  NodeId write(const Scalar& s) {
    std::vector<NodeId> value;
    for (const Instr& in : s.code) value.push_back(write(in, value));
    return number(value.back());
  }

 private:
  NodeId write(const Instr& in, const std::vector<NodeId>& value) {
    if (in.fn == Fn::constant) return b_.scalar(in.value, dtype_);
    if (in.fn == Fn::arg) return args_[static_cast<size_t>(in.a)];
    bool logic = in.fn == Fn::logical_not || in.fn == Fn::logical_and || in.fn == Fn::logical_or ||
                 in.fn == Fn::logical_xor;
    std::vector<NodeId> operands;
    for (int32_t at : {in.a, in.b, in.c}) {
      if (at < 0) continue;
      bool condition = logic || (in.fn == Fn::select && operands.empty());
      NodeId v = value[static_cast<size_t>(at)];
      operands.push_back(condition ? truth(v) : number(v));
    }
    return b_.try_op(plain_operator(in.fn), operands).value_or_throw();
  }

  // Comparisons give bools in a graph, 0 or 1 in a scalar program.
  NodeId truth(NodeId n) {
    if (b_.dtype(n) == DType::boolean) return n;
    NodeId zero = b_.try_op(plain_operator(Fn::eq), std::vector{n, b_.scalar(0, b_.dtype(n))})
                      .value_or_throw();
    return b_.try_op(plain_operator(Fn::logical_not), Args(&zero, 1)).value_or_throw();
  }
  NodeId number(NodeId n) {
    if (b_.dtype(n) == dtype_) return n;
    if (b_.dtype(n) != DType::boolean) return b_.op("cast", {n}, Attrs({{"to", dtype_}}));
    std::vector<NodeId> operands = {n, b_.scalar(1, dtype_), b_.scalar(0, dtype_)};
    return b_.try_op(plain_operator(Fn::select), operands).value_or_throw();
  }

  GraphBuilder& b_;
  Args args_;
  DType dtype_;
};

// Adds up what was broadcast.
NodeId sum_to(GraphBuilder& b, NodeId n, Dims shape) {
  const Dims from = b.shape(n);
  if (from == shape) return n;
  Dims axes;
  size_t extra = from.size() - shape.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if (d < extra || (shape[d - extra] == 1 && from[d] != 1))
      axes.push_back(static_cast<int64_t>(d));
  }
  if (!axes.empty()) n = b.op("reduce_sum", {n}, Attrs({{"axes", axes}}));
  return b.shape(n) == shape ? n : b.op("reshape", {n}, Reshape{shape});
}

NodeId elementwise_vjp(GraphBuilder& b, const OpDef& def, const Node& node, size_t operand,
                       NodeId grad) {
  Scalar by = derivative(bind(def.body, node.attrs), static_cast<int>(operand));
  if (is_zero(by)) return NodeId();
  NodeId arg = node.args[operand];
  DType dtype = b.dtype(arg);
  if (!(by == Scalar(1))) grad = b.op("mul", {grad, ScalarGraph(b, node.args, dtype).write(by)});
  // A derivative that mentions no operand does not have the broadcast shape by itself; grad has.
  return sum_to(b, grad, b.shape(arg));
}

NodeId meaning_vjp(GraphBuilder& b, const OpDef& def, const Node& node, size_t operand,
                   NodeId grad) {
  std::vector<Type> types;
  for (NodeId a : node.args) types.push_back(b.type(a));
  Transposed t{def.name, node.attrs, static_cast<int64_t>(operand), Type::tuple(types)};
  auto wanted = wanted_operands(t);
  if (!wanted) return NodeId();
  std::vector<NodeId> args = {grad};
  for (int i : *wanted) args.push_back(node.args[static_cast<size_t>(i)]);
  return b.op(transposed_meaning(t) ? "transposed" : "scattered", args, to_attrs(t));
}

// Gradients flow back through the nodes from `first` on; earlier ones are leaves.
std::vector<NodeId> sweep(GraphBuilder& b, size_t first, Args of, Args seeds, Args by) {
  std::map<NodeId, std::vector<NodeId>> adjoints;  // one per item of a tuple
  size_t end = first;
  auto add = [&](NodeId n, size_t item, NodeId grad) {
    if (!grad.valid()) return;
    size_t items = b.type(n).kind == Type::Kind::tuple ? b.type(n).items.size() : 1;
    auto& all = adjoints[n];
    all.resize(items);
    all[item] = all[item].valid() ? b.op("add", {all[item], grad}) : grad;
  };
  for (size_t i = 0; i < of.size(); ++i) {
    add(of[i], 0, seeds[i]);
    end = std::max<size_t>(end, of[i].value + 1);
  }
  for (size_t i = end; i-- > first;) {
    NodeId id{i};
    Node node = b.graph().nodes[id];  // a copy: the graph grows meanwhile
    if (!adjoints.contains(id) || node.op == kInputOp || node.op == kConstantOp) continue;
    std::vector<NodeId> grads = adjoints[id];
    if (node.op == kGetOp) {
      add(node.args[0], static_cast<size_t>(node.attrs.get<int64_t>("index")), grads[0]);
    } else if (op_def(node).kind == Kind::structure) {  // a tuple
      for (size_t k = 0; k < node.args.size(); ++k) add(node.args[k], 0, grads[k]);
    } else {
      auto operands = vjp(b, node, grads);
      for (size_t k = 0; k < operands.size(); ++k) add(node.args[k], 0, operands[k]);
    }
  }
  std::vector<NodeId> results;
  for (NodeId n : by) results.push_back(adjoints.contains(n) ? adjoints[n][0] : NodeId());
  return results;
}

// The expansion is built anew beside the node; equal nodes are merged by later stages.
std::vector<NodeId> composite_vjp(GraphBuilder& b, const OpDef& def, const Node& node, Args grads) {
  size_t first = b.graph().size();
  std::vector<NodeId> items = b.get_all(def.expand(b, node.attrs, node.args));
  std::vector<NodeId> of, seeds;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!grads[i].valid()) continue;
    of.push_back(items[i]);
    seeds.push_back(grads[i]);
  }
  // An operand used twice is asked for once, so that it is not counted twice.
  std::vector<NodeId> by(node.args.begin(), node.args.end());
  auto results = sweep(b, first, of, seeds, by);
  for (size_t i = 0; i < by.size(); ++i) {
    if (std::find(by.begin(), by.begin() + static_cast<int64_t>(i), by[i]) !=
        by.begin() + static_cast<int64_t>(i)) {
      results[i] = NodeId();
    }
  }
  return results;
}

}  // namespace

std::vector<NodeId> vjp(GraphBuilder& b, Node node, Args grads) {
  const OpDef& def = op_def(node);
  auto has_gradient = [&](NodeId n) { return b.type(n).is_tensor() && is_float(b.type(n).dtype); };
  std::vector<NodeId> results(node.args.size());
  if (std::none_of(node.args.begin(), node.args.end(), has_gradient)) return results;
  bool meaning = def.means || !def.body.empty();
  if (!meaning && def.expand) return composite_vjp(b, def, node, grads);
  if (!meaning) throw Error(str("the derivative of ", def.name, " is not known"));
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (!has_gradient(node.args[i])) continue;
    results[i] = def.means ? meaning_vjp(b, def, node, i, grads[0])
                           : elementwise_vjp(b, def, node, i, grads[0]);
  }
  return results;
}

std::vector<NodeId> gradients(GraphBuilder& b, Args of, Args seeds, Args by) {
  return sweep(b, 0, of, seeds, by);
}

}  // namespace emend
