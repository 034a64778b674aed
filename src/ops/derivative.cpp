#include "ops/derivative.h"

#include <algorithm>
#include <map>

#include "ops/control.h"
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

bool has_gradient(const Type& t) {
  return t.is_tensor() && is_float(t.dtype);
}

NodeId or_zeros(GraphBuilder& b, NodeId grad, const Type& type) {
  if (grad.valid()) return grad;
  Broadcast to{type.shape};
  return b.op("broadcast", {b.scalar(0, type.dtype)}, to);
}

// Backpropagation through time. The loop runs once more to record the states that its steps begin
// with; then the steps are walked backwards, each through the derivatives of the body. What flows
// from step to step are the gradients of the states and the sums of those of captured values.
class LoopBackwards {
 public:
  LoopBackwards(GraphBuilder& b, const Node& node, Args grads)
      : b_(b),
        a_(node.attrs.as<Loop>()),
        args_(node.args.begin(), node.args.end()),
        grads_(grads.begin(), grads.end()),
        states_(static_cast<size_t>(a_.states)),
        captured_(states_ + a_.scan_axes.size()) {
    for (NodeId n : args_) types_.push_back(b.type(n));
  }

  std::vector<NodeId> run() {
    std::vector<NodeId> states = recorded_states();
    LoopOperands back{.trips = a_.trips};
    for (NodeId n : states) back.scanned.push_back({n, 0, true});
    for (size_t i = states_; i < captured_; ++i) {
      size_t k = i - states_;
      back.scanned.push_back({args_[i], a_.scan_axes[k], !a_.scan_reverse[k]});
      if (!has_gradient(types_[i])) continue;
      back.output_axes.push_back(a_.scan_axes[k]);
      back.output_reverse.push_back(!a_.scan_reverse[k]);
    }
    for (size_t k = 0; k < a_.output_axes.size(); ++k) {
      if (grads_[states_ + k].valid())
        back.scanned.push_back({grads_[states_ + k], a_.output_axes[k], !a_.output_reverse[k]});
    }
    for (size_t i = 0; i < args_.size(); ++i) {
      bool is_state = i < states_, is_captured = i >= captured_;
      if (is_captured) back.captured.push_back(args_[i]);
      if ((is_state || is_captured) && has_gradient(types_[i]))
        back.states.push_back(or_zeros(b_, is_state ? grads_[i] : NodeId(), types_[i]));
    }
    LoopResults done = add_loop(b_, back, [this](GraphBuilder& body, const LoopStep& s) {
      return step_backwards(body, s);
    });
    std::vector<NodeId> results(args_.size());
    size_t next_state = 0, next_output = 0;
    for (size_t i = 0; i < args_.size(); ++i) {
      if (!has_gradient(types_[i])) continue;
      bool is_scanned = i >= states_ && i < captured_;
      results[i] = is_scanned ? done.outputs[next_output++] : done.states[next_state++];
    }
    return results;
  }

 private:
  std::vector<NodeId> recorded_states() {
    LoopOperands again{.trips = a_.trips};
    for (size_t i = 0; i < args_.size(); ++i) {
      if (i < states_)
        again.states.push_back(args_[i]);
      else if (i < captured_)
        again.scanned.push_back(
            {args_[i], a_.scan_axes[i - states_], a_.scan_reverse[i - states_] != 0});
      else
        again.captured.push_back(args_[i]);
    }
    return add_loop(b_, again,
                    [this](GraphBuilder& body, const LoopStep& s) -> LoopResults {
                      std::vector<NodeId> in = {s.iteration};
                      for (const auto* part : {&s.states, &s.slices, &s.captured})
                        in.insert(in.end(), part->begin(), part->end());
                      auto out = splice(body, *a_.body, in);
                      out.resize(states_);
                      return {.states = out, .outputs = s.states};
                    })
        .outputs;
  }

  // Slices: the states the step began with, its own slices, gradients of its outputs.
  LoopResults step_backwards(GraphBuilder& body, const LoopStep& s) {
    NodeId last = body.constant(Tensor::of_int(a_.trips - 1));
    std::vector<NodeId> in = {body.op("sub", {last, s.iteration})};
    in.insert(in.end(), s.slices.begin(), s.slices.begin() + static_cast<int64_t>(captured_));
    in.insert(in.end(), s.captured.begin(), s.captured.end());
    std::vector<NodeId> out = splice(body, *a_.body, in), of, seeds;
    size_t next_state = 0, next_slice = captured_;
    for (size_t i = 0; i < out.size(); ++i) {
      bool known = i < states_ ? has_gradient(types_[i]) : grads_[i].valid();
      if (!known) continue;
      of.push_back(out[i]);
      seeds.push_back(i < states_ ? s.states[next_state++] : s.slices[next_slice++]);
    }
    std::vector<NodeId> by(in.begin() + 1, in.end());
    std::vector<NodeId> grads = gradients(body, of, seeds, by);
    LoopResults results;
    for (size_t i = 0; i < by.size(); ++i) {
      Type type = body.type(by[i]);
      if (!has_gradient(type)) continue;
      if (i < states_) {
        results.states.push_back(or_zeros(body, grads[i], type));
      } else if (i < captured_) {
        results.outputs.push_back(or_zeros(body, grads[i], type));
      } else {
        NodeId sum = s.states[next_state++];
        results.states.push_back(grads[i].valid() ? body.op("add", {sum, grads[i]}) : sum);
      }
    }
    return results;
  }

  GraphBuilder& b_;
  Loop a_;
  std::vector<NodeId> args_, grads_;
  std::vector<Type> types_;
  size_t states_, captured_;  // operands before captured_ are states, then scanned ones
};

}  // namespace

std::vector<NodeId> vjp(GraphBuilder& b, Node node, Args grads) {
  const OpDef& def = op_def(node);
  std::vector<NodeId> results(node.args.size());
  auto differentiable = [&](NodeId n) { return has_gradient(b.type(n)); };
  if (std::none_of(node.args.begin(), node.args.end(), differentiable)) return results;
  if (node.op == op_named("loop")) return LoopBackwards(b, node, grads).run();
  bool meaning = def.means || !def.body.empty();
  if (!meaning && def.expand) return composite_vjp(b, def, node, grads);
  if (!meaning) throw Error(str("the derivative of ", def.name, " is not known"));
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (!differentiable(node.args[i])) continue;
    results[i] = def.means ? meaning_vjp(b, def, node, i, grads[0])
                           : elementwise_vjp(b, def, node, i, grads[0]);
  }
  return results;
}

std::vector<NodeId> gradients(GraphBuilder& b, Args of, Args seeds, Args by) {
  return sweep(b, 0, of, seeds, by);
}

}  // namespace emend
