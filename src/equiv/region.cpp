#include "equiv/region.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/rng.h"
#include "equiv/numbers.h"
#include "equiv/rounding.h"
#include "equiv/wrapping.h"
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
  for (auto& [n, which] : leaf) inputs.emplace(which, n);
  // In the order of the values, so that equal regions of two programs are equal graphs.
  for (auto& [which, n] : inputs) {
    n = b.input(str("leaf", which), g.types[n]);
    r.leaves.push_back(which);
  }
  for (auto& [n, which] : leaf) made[n] = inputs.at(which);
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
  double density = 1;                    // of floats that are not zero
  bool ends = false;                     // integers near the ends of their type
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
      } else if (draw.ends && is_integer(t.dtype)) {
        store_int(stored, out, at, integer_at_ends(t.dtype, draw.numbers, bits, more));
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
        bool zero = draw.density < 1 && static_cast<double>(more >> 11) * 0x1p-53 >= draw.density;
        store_real(stored, out, at, zero ? 0 : at_number ? number + v : draw.reach * v);
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

// Doubles within the tolerance, relative to the largest; or below `noise`, which a sum that cancels
// leaves of normal numbers.
bool agree_in_doubles(const Tensor& x, const Tensor& y, double tolerance, double noise) {
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
  return worst <= tolerance * largest || worst < noise;
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

bool has_integers(const Region& r) {
  return std::any_of(r.graph.inputs.begin(), r.graph.inputs.end(),
                     [&](const GraphInput& i) { return is_integer(r.graph.types[i.node].dtype); });
}

// How many terms an element of a region is the sum of, about.
double terms_of(const Region& r) {
  auto elements = static_cast<double>(count(r.graph.types[r.graph.outputs[0].node].shape));
  return std::max(1.0, operation_count(r.graph) / std::max(1.0, elements) / 2);
}

class Comparison {
 public:
  Comparison(const Region& a, const Region& b, uint64_t seed, double max_operations,
             const Monitor& monitor)
      : a_(a),
        b_(b),
        seed_(seed),
        max_operations_(max_operations),
        monitor_(monitor),
        operations_(operation_count(a.graph) + operation_count(b.graph)),
        numbers_(numbers_of(a.graph, b.graph)) {}

  RegionResult result() {
    if (differ_at_once()) return {};
    if (operations_ <= max_operations_) {
      std::string method = agree_as_symbols() ? "symbols" : agree_as_integers() ? "integers" : "";
      if (!method.empty())
        return hold_for_all_integers() ? RegionResult{true, method}
                                       : RegionResult{.may_wrap = true};
    }
    if (is_polynomial(a_.graph) && is_polynomial(b_.graph) && agree_within_rounding())
      return {true, "doubles"};
    return {};
  }

 private:
  // Do both sides agree on values drawn in one arithmetic? nullopt when it has no meaning there.
  // Of doubles: within the tolerance, relative to the largest.
  std::optional<bool> agree(Arithmetic how, Draw draw, double tolerance = 0, double noise = 0) {
    // Integers that turn out to be indices must fit their tables: the widest range that does, of
    // both signs if that is possible at all.
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
          return evaluate(r.graph, leaf_values(r, how, draw),
                          {.arithmetic = how, .monitor = monitor_})[0];
        };
        Value x = run(a_), y = run(b_);
        if (!x.is_tensor() || !y.is_tensor()) return std::nullopt;
        if (draw.integers == kWideIntegers && low != -draw.integers) restrict_domain(low, high);
        if (is_exact(how)) return agree_exactly(how, x.tensor, y.tensor);
        return agree_in_doubles(x.tensor, y.tensor, tolerance, noise);
      } catch (const Inexact&) {
        return std::nullopt;
      } catch (const Error&) {
      }
    }
    return std::nullopt;
  }

  // What indexes may be a little wider than what was drawn and fitted, not by a factor of four.
  void restrict_domain(int64_t low, int64_t high) {
    domain_ = {4 * static_cast<long double>(std::min(low, -high)),
               4 * static_cast<long double>(high)};
  }

  // Do the roots differ on freely drawn leaves by more than any rounding? Then no other arithmetic
  // need be asked. Doubles are the fastest of all.
  bool differ_at_once() {
    return agree(Arithmetic::real64, {seed_, 1, 3, numbers_}, 1e-3, 1e-9) == false;
  }

  // Integers are themselves among symbols: they too are drawn from narrow and wide ranges.
  bool agree_as_symbols() {
    for (int64_t integers : {kWideIntegers, int64_t{1000}, int64_t{3}})
      if (agree(Arithmetic::symbol, {seed_++, 1, integers, numbers_}) != true) return false;
    return true;
  }

  // Piecewise functions on exact integers, over narrow and wide ranges, so that every piece is
  // entered; then on numbers between them, since x > 0 and x >= 1 are the same for integers.
  bool agree_as_integers() {
    if (rounds(a_.graph) || rounds(b_.graph)) return false;
    constexpr double kEnough = 1000, kMost = 0x1p61;
    double largest = 0;
    for (double v : numbers_) largest = std::max(largest, std::abs(v));
    std::vector<double> reaches = {1, 3, 10, 100, kEnough, 1e6, 1e9, 1e12};
    double needed = std::max(kEnough, std::ceil(2 * largest));
    if (needed > kMost) return false;
    if (needed > kEnough) reaches.push_back(needed);
    for (size_t trial = 0; trial < 2 * reaches.size(); ++trial) {
      double reach = reaches[trial / 2];
      int64_t integers = trial % 2 ? kWideIntegers : static_cast<int64_t>(reach);
      auto same = agree(Arithmetic::integer, {seed_ + trial, reach, integers, numbers_});
      // Wider than needed a sum may not fit into an integer, which says nothing.
      if (same == false || (!same && reach <= needed)) return false;
    }
    for (size_t trial = 0; trial < reaches.size(); ++trial) {
      Draw draw{seed_ + 60 + trial, reaches[trial], kWideIntegers, numbers_};
      if (agree(Arithmetic::real64, draw, 1e-9) == false) return false;
    }
    return true;
  }

  // What was found with integers that did not wrap.
  bool hold_for_all_integers() {
    if (!has_integers(a_) && !has_integers(b_)) return true;
    return !wrapping_matters(a_.graph, domain_) && !wrapping_matters(b_.graph, domain_) &&
           agree_at_ends();
  }

  // Integers near the ends of their types, where sums and products wrap: many draws where leaves
  // are small, since what differs may do so at one value only.
  bool agree_at_ends() {
    constexpr double kEnough = 1e7, kMostDraws = 200;
    double draws = std::clamp(kEnough / (operations_ + 1000), 3.0, kMostDraws);
    for (int trial = 0; trial < static_cast<int>(draws); ++trial) {
      Draw draw{seed_ + 300 + static_cast<uint64_t>(trial), 1, kWideIntegers, numbers_};
      draw.ends = true;
      if (agree(Arithmetic::integer, draw) == false) return false;
    }
    return true;
  }

  // Sums of products within the rounding of their constants, element by element. Where most inputs
  // are zero, an element shows one constant alone.
  bool agree_within_rounding() {
    double tolerance =
        roundings_between(a_.graph, b_.graph) * unit_of_constants(a_.graph, b_.graph);
    if (a_.leaves == b_.leaves && !constants_within(a_.graph, b_.graph, tolerance)) return false;
    double terms = std::max(terms_of(a_), terms_of(b_));
    double alone = std::clamp(max_operations_ / 8 / (operations_ + 1000), 3.0, 24.0);
    struct Draws {
      double reach, density;
      int times;
    };
    for (Draws d : {Draws{1, 1, 1},
                    {1000, 1, 1},
                    {1, 2 / terms, 2},
                    {1, 1 / terms, static_cast<int>(alone)}}) {
      for (int trial = 0; trial < d.times; ++trial) {
        Draw draw{++seed_ + 50, d.reach, 3};
        draw.density = d.density;
        draw.high = 1;
        if (!is_within_rounding(draw, tolerance)) return false;
      }
    }
    return true;
  }

  bool is_within_rounding(const Draw& draw, double tolerance) {
    monitor_.tell({.phase = "run"});
    auto of = [&](const Region& r) {
      return magnitudes(r.graph, leaf_values(r, Arithmetic::real64, draw));
    };
    try {
      auto x = of(a_), y = of(b_);
      return x && y && within_rounding(*x, *y, tolerance);
    } catch (const Error&) {
      return false;
    }
  }

  const Region &a_, &b_;
  uint64_t seed_;
  double max_operations_;
  Monitor monitor_;
  double operations_;
  std::vector<double> numbers_;
  IntegerRange domain_;
};

}  // namespace

RegionResult compare_regions(const Region& a, const Region& b, uint64_t seed, double max_operations,
                             const Monitor& monitor) {
  if (looks_up_own_table(a.graph) || looks_up_own_table(b.graph)) return {};
  if (narrows(a.graph) || narrows(b.graph)) return {};
  return Comparison(a, b, seed, max_operations, monitor).result();
}

}  // namespace emend
