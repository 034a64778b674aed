#include "equiv/region.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/rng.h"
#include "ops/families.h"
#include "ops/symbol.h"
#include "ops/table.h"

namespace emend {

std::optional<Region> region_of(const Graph& g, NodeId root,
                                const std::function<int(NodeId)>& leaf_of) {
  std::set<NodeId> reached = {root};
  std::map<NodeId, int> leaf;
  std::vector<NodeId> queue = {root};
  for (size_t i = 0; i < queue.size(); ++i) {
    NodeId n = queue[i];
    int which = leaf_of(n);
    if (which >= 0) {
      leaf[n] = which;
      continue;
    }
    if (g.nodes[n].op == kInputOp) return std::nullopt;
    for (NodeId a : g.nodes[n].args) {
      if (reached.insert(a).second) queue.push_back(a);
    }
  }
  Region r;
  GraphBuilder b;
  std::map<NodeId, NodeId> made;
  std::map<int, NodeId> inputs;
  for (auto& [n, which] : leaf) {
    auto [it, fresh] = inputs.emplace(which, NodeId());
    if (fresh) {
      it->second = b.input(str("leaf", which), g.types[n]);
      r.leaves.push_back(which);
    }
    made[n] = it->second;
  }
  for (NodeId n : reached) {  // ids ascend: operands come before users
    if (made.contains(n)) continue;
    const Node& node = g.nodes[n];
    if (node.op == kConstantOp) {
      made[n] = b.constant(g.constant(n));
      continue;
    }
    std::vector<NodeId> args;
    for (NodeId a : node.args) args.push_back(made.at(a));
    made[n] = b.try_op(node.op, args, node.attrs).value_or_throw();
  }
  b.output("root", made.at(root));
  r.graph = std::move(b).build();
  return r;
}

double operation_count(const Graph& g) {
  double total = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    const OpDef& def = op_def(n);
    std::vector<Type> types;
    bool tensors = true;
    for (NodeId a : n.args) {
      types.push_back(g.types[a]);
      tensors &= g.types[a].is_tensor();
    }
    if (!tensors || n.op == kInputOp || n.op == kConstantOp) continue;
    if (def.means || !def.body.empty()) {
      total += operation_count(meaning_of(def, n.attrs, types));
    } else if (def.expand) {
      total += operation_count(expansion(def, n.attrs, types));
    } else if (def.kind == Kind::scan) {
      // A loop runs its body `trips` times; of two branches both count, since either may be taken.
      auto trips = static_cast<double>(n.attrs.get_or<int64_t>("trips", 1));
      for (const auto& [name, value] : n.attrs.entries())
        if (auto* body = value.as<GraphRef>()) total += trips * operation_count(**body);
    } else if (g.types[id].is_tensor()) {
      total += static_cast<double>(count(g.types[id].shape));
    }
  }
  return total;
}

namespace {

// How leaves are drawn: floats within +-reach (or that deviation), integers in [0, integers).
struct Draw {
  uint64_t seed;
  double reach = 1;
  int64_t integers = 1000;
};

// A leaf's value, stored as the arithmetic wants it.
Tensor leaf_value(const Type& t, Arithmetic a, const Draw& draw, uint64_t stream) {
  DType stored = stored_dtype(a, t.dtype);
  return Tensor::make(stored, t.shape, [&](std::byte* out) {
    for (int64_t i = 0; i < count(t.shape); ++i) {
      auto at = static_cast<size_t>(i);
      auto counter = static_cast<uint64_t>(i);
      uint64_t bits = random_bits(draw.seed, stream, counter);
      if (stored == DType::c128 && a == Arithmetic::symbol) {
        Symbol s = t.dtype == DType::boolean ? Symbol::of(static_cast<int64_t>(bits & 1))
                                             : Symbol::hashed(bits, draw.seed, stream, counter);
        std::memcpy(out + at * sizeof s, &s, sizeof s);
      } else if (!is_float(t.dtype)) {
        store_int(stored, out, at,
                  static_cast<int64_t>(bits % static_cast<uint64_t>(draw.integers)));
      } else if (a == Arithmetic::integer) {
        auto reach = static_cast<int64_t>(draw.reach);
        store_int(stored, out, at,
                  static_cast<int64_t>(bits % static_cast<uint64_t>(2 * reach + 1)) - reach);
      } else {
        store_real(stored, out, at, draw.reach * random_normal(draw.seed, stream, counter));
      }
    }
  });
}

std::vector<Value> leaf_values(const Region& r, Arithmetic a, const Draw& draw) {
  std::vector<Value> values;
  for (size_t i = 0; i < r.leaves.size(); ++i) {
    values.emplace_back(leaf_value(r.graph.types[r.graph.inputs[i].node], a, draw,
                                   static_cast<uint64_t>(r.leaves[i])));
  }
  return values;
}

bool agree_exactly(Arithmetic a, const Tensor& x, const Tensor& y) {
  if (a != Arithmetic::symbol || x.dtype() != DType::c128) return x == y;
  if (x.shape() != y.shape() || y.dtype() != DType::c128) return false;
  for (int64_t i = 0; i < x.count(); ++i) {
    Symbol s, t;
    std::memcpy(&s, x.data() + static_cast<size_t>(i) * sizeof s, sizeof s);
    std::memcpy(&t, y.data() + static_cast<size_t>(i) * sizeof t, sizeof t);
    if (!(s == t)) return false;
  }
  return true;
}

bool agree_in_doubles(const Tensor& x, const Tensor& y, double tolerance) {
  if (x.shape() != y.shape() || x.dtype() != y.dtype()) return false;
  if (x.dtype() != DType::f64) return x == y;
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    double a = x.real(i), b = y.real(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) largest = std::max(largest, std::abs(a));
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) return false;
    largest = std::max(largest, std::abs(a));
    worst = std::max(worst, std::abs(a - b));
  }
  return worst <= tolerance * largest;
}

// Do both sides agree on values drawn in one arithmetic? nullopt when it has no meaning there.
std::optional<bool> agree(const Region& a, const Region& b, Arithmetic how, Draw draw,
                          double tolerance) {
  // Integers that turn out to be indices must fit their tables: the widest range that does.
  for (int64_t integers : {1000, 100, 30, 10, 5, 3, 2, 1}) {
    draw.integers = integers;
    try {
      auto run = [&](const Region& r) {
        return evaluate(r.graph, leaf_values(r, how, draw), {.arithmetic = how})[0];
      };
      Value x = run(a), y = run(b);
      if (!x.is_tensor() || !y.is_tensor()) return std::nullopt;
      if (is_exact(how)) return agree_exactly(how, x.tensor, y.tensor);
      return agree_in_doubles(x.tensor, y.tensor, tolerance);
    } catch (const Inexact&) {
      return std::nullopt;
    } catch (const Error&) {
    }
  }
  return std::nullopt;
}

// A comparison of the position, as concat makes it, not of a value.
bool is_position(const Scalar& s, const Instr& compares) {
  return compares.fn == Fn::lt && s.code[static_cast<size_t>(compares.a)].fn == Fn::iter &&
         s.code[static_cast<size_t>(compares.b)].fn == Fn::constant;
}

// Does the root depend on the leaves by sums and products alone? Only then does a difference in a
// constant reach the root in proportion: tanh or a clip would squash it below any tolerance.
bool is_polynomial(const Graph& g) {
  IdVec<NodeId, char> varies(g.size(), 0);
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    varies[id] = n.op == kInputOp;
    for (NodeId a : n.args) varies[id] |= varies[a];
    if (!varies[id] || n.op == kInputOp || n.op == kGetOp) continue;
    const OpDef& def = op_def(n);
    std::vector<Type> types;
    for (NodeId a : n.args) {
      if (!g.types[a].is_tensor()) return false;
      types.push_back(g.types[a]);
    }
    if (def.expand && !def.means && def.body.empty()) {
      // Which operands vary is not passed on: a composite counts as if all did.
      if (!is_polynomial(expansion(def, n.attrs, types))) return false;
      continue;
    }
    if (!def.means && def.body.empty()) {
      if (!def.has(raw_moves)) return false;
      continue;
    }
    Meaning m = meaning_of(def, n.attrs, types);
    if (m.reduce != Reduce::none && m.reduce != Reduce::sum) return false;
    bool divides_by_constant = n.args.size() == 2 && !varies[n.args[1]];
    for (const Scalar* s : {&m.body, &m.finish}) {
      for (const Instr& in : s->code) {
        bool fine = info(in.fn).arity == 0 ||
                    (in.fn == Fn::lt && s == &m.body && is_position(*s, in)) || in.fn == Fn::add ||
                    in.fn == Fn::sub || in.fn == Fn::mul || in.fn == Fn::neg ||
                    (in.fn == Fn::div && (divides_by_constant || s == &m.finish)) ||
                    (in.fn == Fn::select && is_position(*s, s->code[static_cast<size_t>(in.a)]));
        if (!fine) return false;
      }
    }
  }
  return true;
}

// Tables that only one side has are not exercised row by row by random indices.
bool looks_up_own_table(const Graph& g) {
  for (const Node& n : g.nodes) {
    if (op_def(n).kind != Kind::index) continue;
    for (NodeId arg : n.args) {
      if (g.is_constant(arg) && g.constant(arg).count() > 16) return true;
    }
  }
  return false;
}

// Magnitudes to draw from: around one, and beyond every threshold that a small constant may be.
std::vector<double> reaches(const Graph& a, const Graph& b) {
  std::vector<double> all = {1, 3, 10, 100, 1000};
  double largest = 0;
  for (const Graph* g : {&a, &b}) {
    for (const Tensor& t : g->constants) {
      if (!is_float(t.dtype()) || t.count() > 4096) continue;
      for (int64_t i = 0; i < t.count(); ++i) {
        if (std::abs(t.real(i)) < 1e9) largest = std::max(largest, std::abs(t.real(i)));
      }
    }
  }
  if (largest > 300) all.push_back(std::ceil(2 * largest));
  return all;
}

// A folded constant is off by the rounding of its type; sums of many such differ a little more.
double rounding_of(const Graph& a, const Graph& b) {
  double unit = 0x1p-52;
  for (const Graph* g : {&a, &b}) {
    for (const Tensor& t : g->constants) {
      if (t.dtype() == DType::f32) unit = std::max(unit, 0x1p-24);
      if (t.dtype() == DType::f16) unit = std::max(unit, 0x1p-11);
      if (t.dtype() == DType::bf16) unit = std::max(unit, 0x1p-8);
    }
  }
  return 8 * unit;
}

}  // namespace

RegionResult compare_regions(const Region& a, const Region& b, uint64_t seed,
                             double max_operations) {
  if (looks_up_own_table(a.graph) || looks_up_own_table(b.graph)) return {};
  double operations = operation_count(a.graph) + operation_count(b.graph);
  auto magnitudes = reaches(a.graph, b.graph);
  if (operations <= max_operations) {
    if (agree(a, b, Arithmetic::symbol, {seed}, 0) == true &&
        agree(a, b, Arithmetic::symbol, {seed + 1}, 0) == true) {
      return {true, "symbols"};
    }
    // Piecewise functions: narrow and wide ranges, so that every piece is entered.
    bool all = true;
    for (uint64_t trial = 0; trial < 2 * magnitudes.size() && all; ++trial) {
      all = agree(a, b, Arithmetic::integer, {seed + trial, magnitudes[trial / 2]}, 0) == true;
    }
    if (all) return {true, "integers"};
  }
  if (!is_polynomial(a.graph) || !is_polynomial(b.graph)) return {};
  double tolerance = rounding_of(a.graph, b.graph);
  for (double reach : magnitudes) {
    if (agree(a, b, Arithmetic::real64, {seed + 50, reach}, tolerance) != true) return {};
  }
  return {true, "doubles"};
}

}  // namespace emend
