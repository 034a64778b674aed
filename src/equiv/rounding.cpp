#include "equiv/rounding.h"

#include <algorithm>
#include <cmath>

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

// A comparison of the position, as concat makes it, not of a value.
bool is_position(const Scalar& s, const Instr& compares) {
  return compares.fn == Fn::lt && s.code[static_cast<size_t>(compares.a)].fn == Fn::iter &&
         s.code[static_cast<size_t>(compares.b)].fn == Fn::constant;
}

bool is_float_tensor(const Type& t) {
  return t.is_tensor() && is_float(t.dtype);
}

bool is_composite(const OpDef& def) {
  return def.expand && !def.means && def.body.empty();
}

// Sums and products, and quotients by what does not vary.
bool is_polynomial(const Scalar& s, bool may_divide) {
  return std::all_of(s.code.begin(), s.code.end(), [&](const Instr& in) {
    return info(in.fn).arity == 0 || is_position(s, in) || in.fn == Fn::add || in.fn == Fn::sub ||
           in.fn == Fn::mul || in.fn == Fn::neg || (in.fn == Fn::div && may_divide) ||
           (in.fn == Fn::select && is_position(s, s.code[static_cast<size_t>(in.a)]));
  });
}

bool only_moves(const Scalar& s) {
  return std::all_of(s.code.begin(), s.code.end(), [&](const Instr& in) {
    return info(in.fn).arity == 0 || is_position(s, in) ||
           (in.fn == Fn::select && is_position(s, s.code[static_cast<size_t>(in.a)]));
  });
}

// The body over magnitudes: differences become sums.
Scalar over_magnitudes(Scalar s) {
  std::vector<bool> is_bound(s.code.size(), false);
  for (const Instr& in : s.code)
    if (is_position(s, in)) is_bound[static_cast<size_t>(in.b)] = true;
  for (size_t i = 0; i < s.code.size(); ++i) {
    Instr& in = s.code[i];
    if (in.fn == Fn::sub) in.fn = Fn::add;
    if (in.fn == Fn::neg) in.fn = Fn::abs;
    if (in.fn == Fn::constant && !is_bound[i]) in.value = std::abs(in.value);
  }
  return s;
}

Tensor absolute(const Tensor& t) {
  if (t.dtype() != DType::f64) return t;
  return Tensor::make(DType::f64, t.shape(), [&](std::byte* out) {
    for (int64_t i = 0; i < t.count(); ++i)
      store_real(DType::f64, out, static_cast<size_t>(i), std::abs(t.real(i)));
  });
}

Tensor scaled(const Tensor& t, double by) {
  return Tensor::make(DType::f64, t.shape(), [&](std::byte* out) {
    for (int64_t i = 0; i < t.count(); ++i)
      store_real(DType::f64, out, static_cast<size_t>(i), by * t.real(i));
  });
}

// A value and its magnitude, which is the value itself where it is no float.
struct Both {
  Value value, magnitude;
};

class Follower {
 public:
  Follower(const Graph& g, std::span<const Both> inputs) : g_(g), known_(g.size()) {
    for (size_t i = 0; i < g.size() && followed_; ++i) {
      NodeId id{i};
      const Node& n = g.nodes[id];
      if (n.op == kInputOp) {
        known_[id] = inputs[static_cast<size_t>(n.attrs.get<int64_t>("index"))];
      } else if (n.op == kConstantOp) {
        Tensor t = converted(g.constant(id), Arithmetic::real64);
        known_[id] = {t, absolute(t)};
      } else {
        follow(id);
      }
    }
  }
  bool followed() const { return followed_; }
  const Both& output(size_t k) const { return known_[g_.outputs[k].node]; }

 private:
  void follow(NodeId id) {
    const Node& n = g_.nodes[id];
    const OpDef& def = op_def(n);
    std::vector<Type> types;
    std::vector<Value> values, sizes;
    for (NodeId a : n.args) {
      types.push_back(g_.types[a]);
      values.push_back(known_[a].value);
      sizes.push_back(known_[a].magnitude);
    }
    const Type& type = g_.types[id];
    EvalContext c{Arithmetic::real64, &def, n.attrs, types, type, 0};
    bool floats = is_float_tensor(type) && std::any_of(types.begin(), types.end(), is_float_tensor);
    if (is_composite(def)) return follow_expansion(id, values, sizes, types);
    Both& known = known_[id];
    if (!type.is_tensor() || def.has(raw_moves) || def.kind == Kind::structure) {
      known = {evaluate_node(c, values), evaluate_node(c, sizes)};
      return;
    }
    known.value = evaluate_node(c, values);
    if (!floats) {
      known.magnitude = absolute(known.value.tensor);
      return;
    }
    if (!def.means && def.body.empty()) {
      followed_ = false;
      return;
    }
    Meaning m = meaning_of(def, n.attrs, types);
    bool sums = m.reduce == Reduce::none || m.reduce == Reduce::sum;
    if (sums && is_polynomial(m.body, true) && is_polynomial(m.finish, true)) {
      known.magnitude = of_meaning(m, values, sizes, types, type);
    } else {
      known.magnitude = scaled(absolute(known.value.tensor), amplification(values, sizes));
    }
  }

  static Tensor of_meaning(Meaning m, std::span<const Value> values, std::span<const Value> sizes,
                           Types types, const Type& type) {
    // What divides does so by what it is.
    bool divides = std::any_of(m.body.code.begin(), m.body.code.end(),
                               [](const Instr& in) { return in.fn == Fn::div; });
    m.body = over_magnitudes(m.body);
    m.finish = over_magnitudes(m.finish);
    for (Read& r : m.reads)
      if (r.outside) r.outside = std::abs(*r.outside);
    std::vector<Tensor> operands;
    for (size_t i = 0; i < sizes.size(); ++i)
      operands.push_back(divides && i > 0 ? absolute(values[i].tensor) : sizes[i].tensor);
    return evaluate_meaning(m, Arithmetic::real64, types, operands, type.dtype, type.shape);
  }

  // How much of an operand's magnitude had cancelled: that much more its rounding counts.
  static double amplification(std::span<const Value> values, std::span<const Value> sizes) {
    double most = 1;
    for (size_t k = 0; k < values.size(); ++k) {
      const Tensor &v = values[k].tensor, &s = sizes[k].tensor;
      for (int64_t i = 0; v.dtype() == DType::f64 && i < v.count(); ++i)
        if (v.real(i) != 0) most = std::max(most, s.real(i) / std::abs(v.real(i)));
    }
    return most;
  }

  void follow_expansion(NodeId id, const std::vector<Value>& values,
                        const std::vector<Value>& sizes, Types types) {
    const Node& n = g_.nodes[id];
    Graph inner = expansion(op_def(n), n.attrs, types);
    std::vector<Both> inputs;
    for (size_t i = 0; i < values.size(); ++i) inputs.push_back({values[i], sizes[i]});
    Follower f(inner, inputs);
    followed_ = f.followed();
    if (!followed_) return;
    if (g_.types[id].is_tensor()) {
      known_[id] = f.output(0);
      return;
    }
    std::vector<Value> value, magnitude;
    for (size_t k = 0; k < inner.outputs.size(); ++k) {
      value.push_back(f.output(k).value);
      magnitude.push_back(f.output(k).magnitude);
    }
    known_[id] = {Value::tuple(std::move(value)), Value::tuple(std::move(magnitude))};
  }

  const Graph& g_;
  IdVec<NodeId, Both> known_;
  bool followed_ = true;
};

// Nodes that depend on an input.
IdVec<NodeId, char> varying(const Graph& g) {
  IdVec<NodeId, char> varies(g.size(), 0);
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    varies[id] = g.nodes[id].op == kInputOp;
    for (NodeId a : g.nodes[id].args) varies[id] |= varies[a];
  }
  return varies;
}

}  // namespace

bool is_polynomial(const Graph& g) {
  auto varies = varying(g);
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    if (!varies[id] || n.op == kInputOp || n.op == kGetOp) continue;
    const OpDef& def = op_def(n);
    std::vector<Type> types;
    for (NodeId a : n.args) {
      if (!g.types[a].is_tensor()) return false;
      types.push_back(g.types[a]);
    }
    if (is_composite(def)) {
      // Which operands vary is not passed on: a composite counts as if all did.
      if (!is_polynomial(expansion(def, n.attrs, types))) return false;
      continue;
    }
    if (!def.means && def.body.empty()) {
      if (!def.has(raw_moves)) return false;
      continue;
    }
    Meaning m = meaning_of(def, n.attrs, types);
    if (!is_float_tensor(g.types[id])) {
      if (m.reduce != Reduce::none || !only_moves(m.body)) return false;
      continue;
    }
    if (m.reduce != Reduce::none && m.reduce != Reduce::sum) return false;
    bool divides_by_constant = n.args.size() == 2 && !varies[n.args[1]];
    if (!is_polynomial(m.body, divides_by_constant) || !is_polynomial(m.finish, true)) return false;
  }
  return true;
}

std::optional<Magnitudes> magnitudes(const Graph& g, std::span<const Value> inputs) {
  std::vector<Both> both;
  for (const Value& v : inputs) both.push_back({v, absolute(v.tensor)});
  Follower f(g, both);
  if (!f.followed()) return std::nullopt;
  return Magnitudes{f.output(0).value.tensor, f.output(0).magnitude.tensor};
}

int roundings_between(const Graph& a, const Graph& b) {
  int roundings = 2;
  for (const Graph* g : {&a, &b}) {
    auto varies = varying(*g);
    for (size_t i = 0; i < g->size(); ++i) {
      NodeId id{i};
      const Node& n = g->nodes[id];
      const OpDef& def = op_def(n);
      bool moves = def.kind == Kind::movement || def.kind == Kind::structure;
      if (!varies[id] && n.op != kConstantOp && !moves) roundings += is_composite(def) ? 4 : 1;
    }
  }
  return roundings;
}

double unit_of_constants(const Graph& a, const Graph& b) {
  double unit = 0x1p-52;
  for (const Graph* g : {&a, &b}) {
    for (const Tensor& t : g->constants) {
      if (t.dtype() == DType::f32) unit = std::max(unit, 0x1p-24);
      if (t.dtype() == DType::f16) unit = std::max(unit, 0x1p-11);
      if (t.dtype() == DType::bf16) unit = std::max(unit, 0x1p-8);
    }
  }
  return unit;
}

bool within_rounding(const Magnitudes& x, const Magnitudes& y, double tolerance) {
  constexpr double kOfDoubles = 1e-12;  // long sums of them, added in another order
  const Tensor &a = x.value, &b = y.value;
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (a.dtype() != DType::f64) return a == b;
  for (int64_t i = 0; i < a.count(); ++i) {
    double u = a.real(i), v = b.real(i);
    if (u == v || (std::isnan(u) && std::isnan(v))) continue;
    double terms = std::max(x.magnitude.real(i), y.magnitude.real(i));
    if (!(std::abs(u - v) <= (tolerance + kOfDoubles) * terms)) return false;
  }
  return true;
}

bool constants_within(const Graph& a, const Graph& b, double tolerance) {
  if (a.size() != b.size()) return true;
  for (size_t i = 0; i < a.size(); ++i) {
    NodeId id{i};
    if (a.types[id] != b.types[id]) return true;
    bool constant = a.is_constant(id);
    if (constant != b.is_constant(id)) return true;
    if (!constant && a.nodes[id] != b.nodes[id]) return true;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    NodeId id{i};
    if (!a.is_constant(id)) continue;
    const Tensor &s = a.constant(id), &t = b.constant(id);
    if (s == t) continue;
    if (!is_float(s.dtype())) return false;
    for (int64_t k = 0; k < s.count(); ++k) {
      double u = s.real(k), v = t.real(k);
      if (u == v || (std::isnan(u) && std::isnan(v))) continue;
      if (!(std::abs(u - v) <= tolerance * std::max(std::abs(u), std::abs(v)))) return false;
    }
  }
  return true;
}

}  // namespace emend
