// Recurrent layers as loops over a cell. Everything that does not wait for the previous step (the
// products with the inputs, the biases) is computed for all steps at once before the loop.
//
// Operands as in ONNX: x, w, r, then those of bias, sequence_lens, initial_h, initial_c and
// peepholes that `present` names. The result is the tuple (y, y_h) or, for lstm, (y, y_h, y_c).
#include <algorithm>

#include "ops/control.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/onnx_lower.h"
#include "ops/table.h"

namespace emend {
namespace {

struct Recurrent {
  std::vector<std::string> activations;  // ONNX names, all directions one after the other
  std::vector<double> activation_alpha, activation_beta;  // for those that take one, in order
  double clip = 0;                                        // bound of the gates' inputs; 0: none
  std::string direction = "forward";
  int64_t layout = 0;  // 0: time before batch, 1: batch first
  bool input_forget = false, linear_before_reset = false;
  Dims present;  // per optional operand 0 or 1
  EMEND_FIELDS(activations, activation_alpha, activation_beta, clip, direction, layout,
               input_forget, linear_before_reset, present)
};

// Optional operands, in ONNX's order.
enum Optional { kBias, kLengths, kInitialH, kInitialC, kPeepholes, kOptionals };

struct CellKind {
  const char* onnx;
  int gates, states;
  std::vector<std::string> activations;
};

// Activations are what ONNX's operators of that name mean today.
constexpr int64_t kNewest = INT_MAX - 1;

struct Activation {
  std::string name;
  double alpha = 1, beta = 0;
};

// Alphas and betas are dealt out to the activations that take them; the rest have the defaults of
// the ONNX operators of the same name.
std::vector<Activation> activations_of(const Recurrent& a) {
  size_t alphas = 0, betas = 0;
  std::vector<Activation> all;
  for (const std::string& name : a.activations) {
    bool affine = name == "Affine", scaled = name == "ScaledTanh";
    Activation f{name, 1, scaled ? 1.0 : 0.0};
    bool takes_alpha = affine || scaled, takes_beta = takes_alpha;
    if (!takes_alpha) {
      OnnxEntry entry = find_onnx("", name, kNewest);
      if (!entry.op.valid()) throw Error(str("activation ", name, " is not known"));
      for (const AttrSpec& spec : op_def(entry.op).attrs) {
        (spec.name == "alpha" ? takes_alpha : takes_beta) = true;
        (spec.name == "alpha" ? f.alpha : f.beta) = *spec.fallback.as<double>();
      }
    }
    if (takes_alpha && alphas < a.activation_alpha.size()) f.alpha = a.activation_alpha[alphas++];
    if (takes_beta && betas < a.activation_beta.size()) f.beta = a.activation_beta[betas++];
    all.push_back(f);
  }
  return all;
}

NodeId onnx_unary(GraphBuilder& b, const Activation& f, NodeId x) {
  OpId op = find_onnx("", f.name, kNewest).op;
  std::vector<Attrs::Entry> attrs;
  for (const AttrSpec& spec : op_def(op).attrs)
    attrs.emplace_back(spec.name, spec.name == "alpha" ? f.alpha : f.beta);
  return b.try_op(op, Args(&x, 1), Attrs(std::move(attrs))).value_or_throw();
}

NodeId activate(GraphBuilder& b, const Activation& f, double clip, NodeId x) {
  DType t = b.dtype(x);
  if (clip > 0) x = b.op("min", {b.op("max", {x, b.scalar(-clip, t)}), b.scalar(clip, t)});
  auto scaled = [&](double by, NodeId n) { return b.op("mul", {b.scalar(by, t), n}); };
  if (f.name == "Affine") return b.op("add", {scaled(f.alpha, x), b.scalar(f.beta, t)});
  if (f.name == "ScaledTanh")
    return scaled(f.alpha, onnx_unary(b, {.name = "Tanh"}, scaled(f.beta, x)));
  return onnx_unary(b, f, x);
}

NodeId reshape(GraphBuilder& b, NodeId x, Dims shape) {
  return b.op("reshape", {x}, Reshape{std::move(shape)});
}

// Positions [start, start + size) of one axis.
NodeId part(GraphBuilder& b, NodeId x, size_t axis, int64_t start, int64_t size) {
  if (axis >= b.shape(x).size()) throw Error(str("an operand of shape ", shape_text(b.shape(x))));
  Slice s{Dims(b.shape(x).size(), 0), b.shape(x), Dims(b.shape(x).size(), 1)};
  s.starts[axis] = start;
  s.sizes[axis] = size;
  return b.op("slice", {x}, s);
}

// Entry `index` of an axis, which goes away.
NodeId entry(GraphBuilder& b, NodeId x, size_t axis, int64_t index) {
  Dims shape = b.shape(x);
  if (axis >= shape.size()) throw Error(str("an operand of shape ", shape_text(shape)));
  shape.erase(shape.begin() + static_cast<int64_t>(axis));
  return reshape(b, part(b, x, axis, index, 1), shape);
}

NodeId transposed(GraphBuilder& b, NodeId matrix) {
  return b.op("transpose", {matrix}, Transpose{{1, 0}});
}

// What a cell sees in one step: x holds the gates' shares of the input and the biases.
struct Step {
  GraphBuilder& b;
  const Recurrent& a;
  std::span<const Activation> f;
  int64_t hidden;
  NodeId x, h, c;            // c: the cell state of an lstm
  NodeId r;                  // [hidden, gates * hidden]
  NodeId peepholes, bias_h;  // where there are such

  NodeId gate(NodeId all, int64_t k) const { return part(b, all, 1, k * hidden, hidden); }
  NodeId add(NodeId p, NodeId q) const { return b.op("add", {p, q}); }
  NodeId mul(NodeId p, NodeId q) const { return b.op("mul", {p, q}); }
  NodeId activated(size_t k, NodeId v) const { return activate(b, f[k], a.clip, v); }
  NodeId one_minus(NodeId v) const { return b.op("sub", {b.scalar(1, b.dtype(v)), v}); }
  NodeId matmul(NodeId p, NodeId q) const { return b.op("matmul", {p, q}); }
};

// The new states; the first one is the output.
std::vector<NodeId> rnn_step(const Step& s) {
  return {s.activated(0, s.add(s.x, s.matmul(s.h, s.r)))};
}

// Gates in the order update z, reset r, hidden h.
std::vector<NodeId> gru_step(const Step& s) {
  // All gates at once where the hidden one does not wait for the reset gate.
  bool linear = s.a.linear_before_reset;
  NodeId all = s.matmul(s.h, linear ? s.r : part(s.b, s.r, 1, 0, 2 * s.hidden));
  NodeId zr = s.add(part(s.b, s.x, 1, 0, 2 * s.hidden), part(s.b, all, 1, 0, 2 * s.hidden));
  NodeId z = s.activated(0, s.gate(zr, 0)), r = s.activated(0, s.gate(zr, 1));
  NodeId recurrent;
  if (linear) {
    recurrent = s.gate(all, 2);
    if (s.bias_h.valid()) recurrent = s.add(recurrent, s.bias_h);
    recurrent = s.mul(r, recurrent);
  } else {
    recurrent = s.matmul(s.mul(r, s.h), s.gate(s.r, 2));
  }
  NodeId h = s.activated(1, s.add(s.gate(s.x, 2), recurrent));
  return {s.add(s.mul(s.one_minus(z), h), s.mul(z, s.h))};
}

// Gates in the order input i, output o, forget f, cell c; peepholes i, o, f.
std::vector<NodeId> lstm_step(const Step& s) {
  NodeId all = s.add(s.x, s.matmul(s.h, s.r));
  auto gate = [&](int64_t k, NodeId cell) {
    NodeId g = s.gate(all, k);
    if (!s.peepholes.valid()) return g;
    return s.add(g, s.mul(part(s.b, s.peepholes, 0, k * s.hidden, s.hidden), cell));
  };
  NodeId i = s.activated(0, gate(0, s.c));
  NodeId f = s.a.input_forget ? s.one_minus(i) : s.activated(0, gate(2, s.c));
  NodeId c = s.add(s.mul(f, s.c), s.mul(i, s.activated(1, s.gate(all, 3))));
  NodeId o = s.activated(0, gate(1, c));
  // The gates are bounded, the cell state is not: onnxruntime's reading of `clip`.
  return {s.mul(o, activate(s.b, s.f[2], 0, c)), c};
}

using CellStep = std::vector<NodeId> (*)(const Step&);

// One recurrent layer being expanded.
class Expansion {
 public:
  Expansion(GraphBuilder& b, const Recurrent& a, Args args, const CellKind& kind, CellStep step)
      : b_(b), a_(a), kind_(kind), step_(step), activations_(activations_of(a)) {
    x_ = args[0], w_ = args[1], r_ = args[2];
    size_t next = 3;
    for (size_t i = 0; i < kOptionals && i < a.present.size(); ++i)
      if (a.present[i]) optional_[i] = args[next++];
    if (next != args.size()) throw Error("`present` does not tell what the operands are");
    batch_first_ = a.layout != 0;
    directions_ = a.direction == "bidirectional" ? 2 : 1;
    check_shapes();
  }

  NodeId run() {
    std::vector<std::vector<NodeId>> results(1 + static_cast<size_t>(kind_.states));
    for (int64_t d = 0; d < directions_; ++d) {
      LoopResults r = one_direction(d, a_.direction == "reverse" || d == 1);
      results[0].push_back(with_direction(r.outputs[0], batch_first_ ? 2 : 1));
      for (size_t s = 0; s < r.states.size(); ++s)
        results[s + 1].push_back(with_direction(r.states[s], batch_first_ ? 1 : 0));
    }
    std::vector<NodeId> parts;
    for (size_t i = 0; i < results.size(); ++i) {
      int64_t axis = i == 0 ? (batch_first_ ? 2 : 1) : (batch_first_ ? 1 : 0);
      parts.push_back(directions_ == 1 ? results[i][0]
                                       : b_.op("concat", results[i], to_attrs(Axis{axis})));
    }
    return b_.op("tuple", parts);
  }

 private:
  void check_shapes() {
    const Dims &x = b_.shape(x_), &w = b_.shape(w_), &r = b_.shape(r_);
    if (x.size() != 3 || w.size() != 3 || r.size() != 3) {
      throw Error(str(kind_.onnx, ": x, w and r have rank 3, not ", shape_text(x), ", ",
                      shape_text(w), ", ", shape_text(r)));
    }
    hidden_ = r[2];
    batch_ = x[batch_first_ ? 0 : 1];
    steps_ = x[batch_first_ ? 1 : 0];
    Dims wanted_w = {directions_, kind_.gates * hidden_, x[2]};
    Dims wanted_r = {directions_, kind_.gates * hidden_, hidden_};
    if (w != wanted_w || r != wanted_r) {
      throw Error(str(kind_.onnx, " (", a_.direction, "): weights ", shape_text(w), " and ",
                      shape_text(r), " should be ", shape_text(wanted_w), " and ",
                      shape_text(wanted_r)));
    }
    if (activations_.size() != kind_.activations.size() * static_cast<size_t>(directions_))
      throw Error(str(kind_.onnx, ": ", activations_.size(), " activations for ", a_.direction));
  }

  NodeId with_direction(NodeId n, size_t axis) {
    Dims shape = b_.shape(n);
    shape.insert(shape.begin() + static_cast<int64_t>(axis), 1);
    return reshape(b_, n, shape);
  }

  NodeId initial_state(Optional which, int64_t direction) {
    if (optional_[which].valid())
      return entry(b_, optional_[which], batch_first_ ? 1 : 0, direction);
    NodeId zero = b_.scalar(0, b_.dtype(x_));
    return b_.op("broadcast", {zero}, Broadcast{{batch_, hidden_}});
  }

  // x w^T plus every bias that does not wait for the previous step.
  NodeId input_shares(int64_t direction, NodeId* bias_h) {
    NodeId shares = b_.op("matmul", {x_, transposed(b_, entry(b_, w_, 0, direction))});
    if (!optional_[kBias].valid()) return shares;
    int64_t all = kind_.gates * hidden_;
    NodeId bias = entry(b_, optional_[kBias], 0, direction);
    NodeId input = part(b_, bias, 0, 0, all), recurrent = part(b_, bias, 0, all, all);
    if (!a_.linear_before_reset) {
      return b_.op("add", {shares, b_.op("add", {input, recurrent})});
    }
    // The hidden gate's own recurrent bias is scaled by the reset gate, inside the loop.
    *bias_h = part(b_, recurrent, 0, all - hidden_, hidden_);
    NodeId outer = b_.op("pad", {part(b_, recurrent, 0, 0, all - hidden_)}, Pad{{0, hidden_}, 0});
    return b_.op("add", {shares, b_.op("add", {input, outer})});
  }

  LoopResults one_direction(int64_t direction, bool reverse) {
    LoopOperands loop{.trips = steps_};
    NodeId bias_h;
    loop.scanned = {{input_shares(direction, &bias_h), batch_first_ ? 1 : 0, reverse}};
    loop.states = {initial_state(kInitialH, direction)};
    if (kind_.states == 2) loop.states.push_back(initial_state(kInitialC, direction));
    loop.captured = {transposed(b_, entry(b_, r_, 0, direction))};
    NodeId peepholes = optional_[kPeepholes], lengths = optional_[kLengths];
    if (peepholes.valid()) loop.captured.push_back(entry(b_, peepholes, 0, direction));
    if (bias_h.valid()) loop.captured.push_back(bias_h);
    if (lengths.valid()) {
      NodeId wide = b_.op("cast", {lengths}, Attrs({{"to", DType::i64}}));
      loop.captured.push_back(reshape(b_, wide, {batch_, 1}));
    }
    loop.output_axes = {batch_first_ ? 1 : 0};
    loop.output_reverse = {reverse ? 1 : 0};
    size_t per_direction = kind_.activations.size();
    auto f = std::span(activations_)
                 .subspan(static_cast<size_t>(direction) * per_direction, per_direction);
    return add_loop(b_, loop, [&](GraphBuilder& body, const LoopStep& s) -> LoopResults {
      Step step{body, a_, f, hidden_, s.slices[0], s.states[0], {}, s.captured[0], {}, {}};
      if (kind_.states == 2) step.c = s.states[1];
      size_t next = 1;
      if (peepholes.valid()) step.peepholes = s.captured[next++];
      if (bias_h.valid()) step.bias_h = s.captured[next++];
      std::vector<NodeId> states = step_(step);
      NodeId y = states[0];
      if (lengths.valid()) {
        NodeId time = s.iteration;
        if (reverse) time = body.op("sub", {body.constant(Tensor::of_int(steps_ - 1)), time});
        NodeId live = body.op("less", {time, s.captured[next]});
        for (size_t i = 0; i < states.size(); ++i)
          states[i] = body.op("where", {live, states[i], s.states[i]});
        y = body.op("where", {live, y, body.scalar(0, body.dtype(y))});
      }
      return {.states = states, .outputs = {y}};
    });
  }

  GraphBuilder& b_;
  const Recurrent& a_;
  const CellKind& kind_;
  CellStep step_;
  std::vector<Activation> activations_;
  NodeId x_, w_, r_, optional_[kOptionals];
  bool batch_first_ = false;
  int64_t directions_ = 1, hidden_ = 0, batch_ = 0, steps_ = 0;
};

// --- ONNX ---

// A bias or a state of zeros is what stands for one that is not there.
bool are_zeros(const std::optional<Tensor>& value) {
  if (!value || !is_float(value->dtype())) return false;
  return std::ranges::all_of(value->reals(), [](double v) { return v == 0; });
}

Result<std::vector<NodeId>> recurrent_lower(OnnxCall& c, const std::string& op,
                                            const CellKind& kind) {
  Recurrent a;
  a.direction = c.text_attr("direction", "forward");
  a.activations = c.node.attributes.get_or<std::vector<std::string>>("activations", {});
  if (a.activations.empty()) {
    for (int d = 0; d < (a.direction == "bidirectional" ? 2 : 1); ++d)
      a.activations.insert(a.activations.end(), kind.activations.begin(), kind.activations.end());
  }
  a.activation_alpha = c.node.attributes.get_or<std::vector<double>>("activation_alpha", {});
  a.activation_beta = c.node.attributes.get_or<std::vector<double>>("activation_beta", {});
  a.clip = c.real_attr("clip", 0);
  a.layout = c.int_attr("layout", 0);
  a.input_forget = c.int_attr("input_forget", 0) != 0;
  a.linear_before_reset = c.int_attr("linear_before_reset", 0) != 0;
  std::vector<NodeId> args = {c.inputs.at(0), c.inputs.at(1), c.inputs.at(2)};
  for (size_t i = 0; i < kOptionals; ++i) {
    bool given = c.has(3 + i) && (i == kLengths || !are_zeros(value_of_data(c, 3 + i)));
    a.present.push_back(given);
    if (given) args.push_back(c.inputs[3 + i]);
  }
  return c.b.get_all(c.b.op(op, args, to_attrs(a)));
}

std::vector<NodeId> recurrent_raise(OnnxWriter& w, const CellKind& kind) {
  auto a = w.attrs.as<Recurrent>();
  if (a.layout != 0 && w.opset < 14) return {};
  std::vector<NodeId> inputs(w.args.begin(), w.args.begin() + 3);
  size_t next = 3;
  for (int64_t present : a.present) inputs.push_back(present ? w.args[next++] : NodeId());
  std::vector<Attrs::Entry> attributes = {{"activations", a.activations},
                                          {"direction", a.direction},
                                          {"hidden_size", w.types[2].shape[2]}};
  auto give = [&](bool when, const char* name, AttrValue value) {
    if (when) attributes.emplace_back(name, std::move(value));
  };
  give(!a.activation_alpha.empty(), "activation_alpha", a.activation_alpha);
  give(!a.activation_beta.empty(), "activation_beta", a.activation_beta);
  give(a.clip > 0, "clip", a.clip);
  give(a.layout != 0, "layout", a.layout);
  give(a.input_forget, "input_forget", 1);
  give(a.linear_before_reset, "linear_before_reset", 1);
  return w.emit(kind.onnx, inputs, attributes, 1 + kind.states);
}

OpDef recurrent(const std::string& name, CellKind kind, CellStep step, const std::string& doc) {
  return define<Recurrent>(
      {.name = name,
       .min_args = 3,
       .max_args = 3 + kOptionals,
       .expand = [kind, step](GraphBuilder& b, const Recurrent& a,
                              Args args) { return Expansion(b, a, args, kind, step).run(); },
       .onnx = {{.type = kind.onnx,
                 .lower = [name, kind](OnnxCall& c) { return recurrent_lower(c, name, kind); },
                 .raise = [kind](OnnxWriter& w) { return recurrent_raise(w, kind); }}},
       .doc = doc});
}

}  // namespace

std::vector<OpDef> recurrent_ops() {
  return {
      recurrent("rnn", {"RNN", 1, 1, {"Tanh"}}, rnn_step,
                "a loop over h = f(x w + h r + bias); results (y, y_h)"),
      recurrent("gru", {"GRU", 3, 1, {"Sigmoid", "Tanh"}}, gru_step,
                "a loop over gated recurrent units, gates z, r, h; results (y, y_h)"),
      recurrent(
          "lstm", {"LSTM", 4, 2, {"Sigmoid", "Tanh", "Tanh"}}, lstm_step,
          "a loop over long short-term memory cells, gates i, o, f, c; results (y, y_h, y_c)"),
  };
}

}  // namespace emend
