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

// Of both signs; sums of a few still fit.
constexpr int64_t kWideIntegers = int64_t{1} << 61;

// How leaves are drawn: floats within +-reach (or that deviation), integers from `low` to `high`;
// one in four beside a number of the programs, if there are any.
struct Draw {
  uint64_t seed;
  double reach = 1;
  int64_t integers = 1000;               // the widest range to try
  std::span<const double> numbers = {};  // where formulas may change
  int64_t low = 0, high = 0;
};

// A leaf's value, stored as the arithmetic wants it.
Tensor leaf_value(const Type& t, Arithmetic a, const Draw& draw, uint64_t stream) {
  DType stored = stored_dtype(a, t.dtype);
  return Tensor::make(stored, t.shape, [&](std::byte* out) {
    for (int64_t i = 0; i < count(t.shape); ++i) {
      auto at = static_cast<size_t>(i);
      auto counter = static_cast<uint64_t>(i);
      uint64_t bits = random_bits(draw.seed, stream, counter);
      uint64_t more = random_bits(draw.seed + 1'000'003, stream, counter);
      auto beside = static_cast<int64_t>(more >> 8) % 2 - static_cast<int64_t>(more >> 9) % 2;
      double number = draw.numbers.empty() ? 0 : draw.numbers[(more >> 16) % draw.numbers.size()];
      bool at_number = !draw.numbers.empty() && more % 4 == 0;
      if (stored == DType::c128 && a == Arithmetic::symbol) {
        Symbol s = t.dtype == DType::boolean ? Symbol::of(static_cast<int64_t>(bits & 1))
                                             : Symbol::hashed(bits, draw.seed, stream, counter);
        std::memcpy(out + at * sizeof s, &s, sizeof s);
      } else if (t.dtype == DType::boolean) {
        store_int(stored, out, at, static_cast<int64_t>(bits & 1));
      } else if (!is_float(t.dtype)) {
        auto width = static_cast<uint64_t>(draw.high) - static_cast<uint64_t>(draw.low) + 1;
        auto v =
            static_cast<int64_t>(static_cast<uint64_t>(draw.low) + (width ? bits % width : bits));
        bool fits =
            number > static_cast<double>(draw.low) && number < static_cast<double>(draw.high);
        store_int(stored, out, at, at_number && fits ? std::llround(number) + beside : v);
      } else if (a == Arithmetic::integer) {
        auto reach = static_cast<int64_t>(draw.reach);
        int64_t v = static_cast<int64_t>(bits % static_cast<uint64_t>(2 * reach + 1)) - reach;
        bool fits = std::abs(number) <= draw.reach;
        store_int(stored, out, at, at_number && fits ? std::llround(number) + beside : v);
      } else {
        double v = random_normal(draw.seed, stream, counter);
        store_real(stored, out, at, at_number ? number + v : draw.reach * v);
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
  // Integers that turn out to be indices must fit their tables: the widest range that does, of both
  // signs if that is possible at all.
  constexpr int64_t kNarrower[] = {1000, 100, 30, 10, 5, 3, 2, 1};
  std::vector<std::pair<int64_t, int64_t>> ranges = {{-draw.integers, draw.integers}};
  for (int64_t w : kNarrower) {
    if (w < draw.integers) ranges.emplace_back(-w, w);
  }
  for (int64_t w : kNarrower) ranges.emplace_back(0, w - 1);
  for (auto [low, high] : ranges) {
    draw.low = low;
    draw.high = high;
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

// Every node, with the types of its operands; those of expansions and of bodies too. Stops where
// `visit` says true, and says whether it did.
using Visit = std::function<bool(const Graph&, NodeId, const OpDef&, Types)>;
bool any_node(const Graph& g, const Visit& visit) {
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    const OpDef& def = op_def(n);
    std::vector<Type> types;
    bool tensors = true;
    for (NodeId a : n.args) {
      types.push_back(g.types[a]);
      tensors &= types.back().is_tensor();
    }
    if (visit(g, id, def, types)) return true;
    for (const auto& [name, value] : n.attrs.entries()) {
      auto* body = value.as<GraphRef>();
      if (body && any_node(**body, visit)) return true;
    }
    bool composite = def.expand && !def.means && def.body.empty() && tensors;
    if (composite && any_node(expansion(def, n.attrs, types), visit)) return true;
  }
  return false;
}

// Is every value of one type a value of the other? What becomes a bool or is rounded to an integer
// is more than converted: that is in the operator's body.
bool holds(DType to, DType from) {
  if (to == from || to == DType::boolean || from == DType::boolean) return true;
  int to_bits = info(to).bits, from_bits = info(from).bits;
  if (is_float(from)) return !is_float(to) || to_bits > from_bits;
  if (!is_integer(from)) return true;
  if (is_float(to)) {
    int significant = to == DType::f64 ? 53 : to == DType::f32 ? 24 : to == DType::f16 ? 11 : 4;
    return significant >= from_bits;
  }
  bool to_signed = info(to).name[0] == 'i', from_signed = info(from).name[0] == 'i';
  return to_signed == from_signed ? to_bits >= from_bits : to_signed && to_bits > from_bits;
}

// A conversion to a type that holds less. Exact arithmetics do not see it: they store no types. Two
// such nodes over equal operands are equal as expressions; more is not claimed of them.
bool narrows(const Graph& whole) {
  for (size_t i = 0; i < whole.size(); ++i) {
    const Node& n = whole.nodes[NodeId(i)];
    for (const auto& [name, value] : n.attrs.entries()) {
      auto* body = value.as<GraphRef>();
      if (body && narrows(**body)) return true;
    }
    const Type& to = whole.types[NodeId(i)];
    if (!to.is_tensor()) continue;
    for (NodeId a : n.args) {
      const Type& from = whole.types[a];
      if (!from.is_tensor()) continue;
      bool converts = n.args.size() == 1 || (is_float(from.dtype) && is_float(to.dtype));
      if (converts && !holds(to.dtype, from.dtype)) return true;
    }
  }
  return false;
}

// Steps at whole numbers: on exact integers they are invisible.
bool rounds(const Graph& whole) {
  return any_node(whole, [](const Graph&, NodeId, const OpDef& def, Types types) {
    bool floats = std::any_of(types.begin(), types.end(),
                              [](const Type& t) { return t.is_tensor() && is_float(t.dtype); });
    // What evaluates itself may do anything.
    if (def.eval && !def.means && def.body.empty() && !def.has(raw_moves)) return floats;
    auto steps = [](const Instr& in) {
      return in.fn == Fn::floor || in.fn == Fn::ceil || in.fn == Fn::round || in.fn == Fn::trunc ||
             in.fn == Fn::mod || in.fn == Fn::fmod;
    };
    return floats && std::any_of(def.body.code.begin(), def.body.code.end(), steps);
  });
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

// The numbers that stand in the programs, as constants or attributes: a piecewise function changes
// its formula at one of them, or at one that follows from them.
std::vector<double> numbers_of(const Graph& a, const Graph& b) {
  std::set<double> all;
  auto add = [&](double v) {
    if (std::isfinite(v) && all.size() < 4096) all.insert(v);
  };
  auto add_tensor = [&](const Tensor& t) {
    bool number = is_float(t.dtype()) || is_integer(t.dtype());
    for (int64_t i = 0; number && i < t.count(); ++i) add(t.real(i));
  };
  for (const Graph* g : {&a, &b}) {
    any_node(*g, [&](const Graph& in, NodeId id, const OpDef&, Types) {
      const Node& n = in.nodes[id];
      if (in.is_constant(id)) add_tensor(in.constant(id));
      for (const auto& [name, value] : n.attrs.entries()) {
        if (auto* v = value.as<double>()) add(*v);
        if (auto* v = value.as<std::vector<double>>()) std::for_each(v->begin(), v->end(), add);
        if (auto* v = value.as<Tensor>()) add_tensor(*v);
      }
      return false;
    });
  }
  return {all.begin(), all.end()};
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

// Piecewise functions on exact integers, over narrow and wide ranges, so that every piece is
// entered; then on numbers between them, since x > 0 and x >= 1 are the same for integers.
bool agree_as_integers(const Region& a, const Region& b, uint64_t seed,
                       std::span<const double> numbers) {
  if (rounds(a.graph) || rounds(b.graph)) return false;
  constexpr double kEnough = 1000, kMost = 0x1p61;
  double largest = 0;
  for (double v : numbers) largest = std::max(largest, std::abs(v));
  std::vector<double> reaches = {1, 3, 10, 100, kEnough, 1e6, 1e9, 1e12};
  double needed = std::max(kEnough, std::ceil(2 * largest));
  if (needed > kMost) return false;
  if (needed > kEnough) reaches.push_back(needed);
  for (size_t trial = 0; trial < 2 * reaches.size(); ++trial) {
    double reach = reaches[trial / 2];
    int64_t integers = trial % 2 ? kWideIntegers : static_cast<int64_t>(reach);
    auto same = agree(a, b, Arithmetic::integer, {seed + trial, reach, integers, numbers}, 0);
    // Wider than needed a sum may not fit into an integer, which says nothing.
    if (same == false || (!same && reach <= needed)) return false;
  }
  for (size_t trial = 0; trial < reaches.size(); ++trial) {
    Draw draw{seed + 60 + trial, reaches[trial], kWideIntegers, numbers};
    if (agree(a, b, Arithmetic::real64, draw, 1e-9) == false) return false;
  }
  return true;
}

}  // namespace

RegionResult compare_regions(const Region& a, const Region& b, uint64_t seed,
                             double max_operations) {
  if (looks_up_own_table(a.graph) || looks_up_own_table(b.graph)) return {};
  if (narrows(a.graph) || narrows(b.graph)) return {};
  auto numbers = numbers_of(a.graph, b.graph);
  if (operation_count(a.graph) + operation_count(b.graph) <= max_operations) {
    // Integers are themselves among symbols: they too are drawn from narrow and wide ranges.
    bool same = true;
    for (int64_t integers : {kWideIntegers, int64_t{1000}, int64_t{3}}) {
      Draw draw{seed++, 1, integers, numbers};
      same = same && agree(a, b, Arithmetic::symbol, draw, 0) == true;
    }
    if (same) return {true, "symbols"};
    if (agree_as_integers(a, b, seed, numbers)) return {true, "integers"};
  }
  if (!is_polynomial(a.graph) || !is_polynomial(b.graph)) return {};
  double tolerance = rounding_of(a.graph, b.graph);
  for (double reach : {1, 3, 10, 100, 1000}) {
    Draw draw{seed + 50, reach, kWideIntegers};
    if (agree(a, b, Arithmetic::real64, draw, tolerance) != true) return {};
  }
  return {true, "doubles"};
}

}  // namespace emend
