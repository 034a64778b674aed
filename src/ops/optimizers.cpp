// One step of an optimizer, as in ai.onnx.preview.training: operands are the learning rate R, the
// update count T, then several tensors X, their gradients G and their running statistics, group
// after group; results are the new tensors and the new statistics, group after group.
#include "ops/compose.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr const char* kTraining = "ai.onnx.preview.training";

struct Adagrad {
  double decay_factor = 0, epsilon = 1e-6, norm_coefficient = 0;
  EMEND_FIELDS(decay_factor, epsilon, norm_coefficient)
};
struct Adam {
  double alpha = 0.9, beta = 0.999, epsilon = 1e-6, norm_coefficient = 0, norm_coefficient_post = 0;
  EMEND_FIELDS(alpha, beta, epsilon, norm_coefficient, norm_coefficient_post)
};
struct Momentum {
  double alpha = 0.9, beta = 1;
  std::string mode = "standard";
  double norm_coefficient = 0;
  EMEND_FIELDS(alpha, beta, mode, norm_coefficient)
};

// The operands: R and T as scalars of the tensors' dtype, then the groups.
struct Groups {
  size_t tensors;
  std::vector<Formula> all;

  Groups(GraphBuilder& b, const char* op, Args args, size_t groups)
      : tensors((args.size() - 2) / groups), all(formulas(b, args)) {
    if (args.size() < 2 + groups || (args.size() - 2) % groups != 0)
      throw Error(str(op, ": ", args.size() - 2, " tensors do not make ", groups, " equal groups"));
  }
  const Formula& at(size_t group, size_t tensor) const { return all[2 + group * tensors + tensor]; }
  Formula rate(DType t) const { return cast(reshape(all[0], {}), t); }
  Formula updates(DType t) const { return cast(reshape(all[1], {}), t); }
};

// `step` gives the new tensor and its new statistics; the results are put group after group.
template <class Step>
NodeId for_each_tensor(GraphBuilder& b, const Groups& g, size_t results, const Step& step) {
  std::vector<NodeId> all(results * g.tensors);
  for (size_t i = 0; i < g.tensors; ++i) {
    std::vector<Formula> made = step(i);
    for (size_t r = 0; r < results; ++r) all[r * g.tensors + i] = made[r];
  }
  return b.op("tuple", all);
}

NodeId adagrad(GraphBuilder& b, const Adagrad& a, Args args) {
  Groups g(b, "adagrad", args, 3);
  return for_each_tensor(b, g, 2, [&](size_t i) -> std::vector<Formula> {
    Formula x = g.at(0, i), h = g.at(2, i);
    Formula rate = g.rate(x.dtype()) / (g.updates(x.dtype()) * a.decay_factor + 1);
    Formula gradient = x * a.norm_coefficient + g.at(1, i);
    Formula h_new = h + gradient * gradient;
    return {x - rate * gradient / (sqrt(h_new) + a.epsilon), h_new};
  });
}

NodeId adam(GraphBuilder& b, const Adam& a, Args args) {
  Groups g(b, "adam", args, 4);
  return for_each_tensor(b, g, 3, [&](size_t i) -> std::vector<Formula> {
    Formula x = g.at(0, i), v = g.at(2, i), h = g.at(3, i);
    Formula rate = g.rate(x.dtype()), t = g.updates(x.dtype()), one = x.number(1);
    Formula gradient = x * a.norm_coefficient + g.at(1, i);
    Formula v_new = v * a.alpha + gradient * (1 - a.alpha);
    Formula h_new = h * a.beta + gradient * gradient * (1 - a.beta);
    auto power = [&](double base) { return apply("pow", {x.number(base), t}); };
    Formula adjusted = rate * sqrt(one - power(a.beta)) / (one - power(a.alpha));
    Formula used = where(less(x.number(0), t), adjusted, rate);
    Formula x_new = x - used * v_new / (sqrt(h_new) + a.epsilon);
    return {x_new * (1 - a.norm_coefficient_post), v_new, h_new};
  });
}

NodeId momentum(GraphBuilder& b, const Momentum& a, Args args) {
  if (a.mode != "standard" && a.mode != "nesterov")
    throw Error(str("momentum: mode is standard or nesterov, not ", a.mode));
  Groups g(b, "momentum", args, 3);
  return for_each_tensor(b, g, 2, [&](size_t i) -> std::vector<Formula> {
    Formula x = g.at(0, i), v = g.at(2, i), rate = g.rate(x.dtype());
    Formula gradient = x * a.norm_coefficient + g.at(1, i);
    // The first update takes the whole gradient.
    Formula beta = where(less(x.number(0), g.updates(x.dtype())), x.number(a.beta), x.number(1));
    Formula v_new = v * a.alpha + beta * gradient;
    Formula direction = a.mode == "nesterov" ? gradient + v_new * a.alpha : v_new;
    return {x - rate * direction, v_new};
  });
}

}  // namespace

std::vector<OpDef> optimizer_ops() {
  return {
      define<Adagrad>({.name = "adagrad",
                       .min_args = 5,
                       .max_args = -1,
                       .expand = adagrad,
                       .onnx = {{.type = "Adagrad", .domain = kTraining}},
                       .doc = "a step of Adagrad: R, T, tensors, gradients, squared gradients"}),
      define<Adam>({.name = "adam",
                    .min_args = 6,
                    .max_args = -1,
                    .expand = adam,
                    .onnx = {{.type = "Adam", .domain = kTraining}},
                    .doc = "a step of Adam: R, T, tensors, gradients, their averages, averages of "
                           "their squares"}),
      define<Momentum>({.name = "momentum",
                        .min_args = 5,
                        .max_args = -1,
                        .expand = momentum,
                        .onnx = {{.type = "Momentum", .domain = kTraining}},
                        .doc = "a step of gradient descent with momentum: R, T, tensors, "
                               "gradients, momenta"}),
  };
}

}  // namespace emend
