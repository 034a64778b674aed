#include "equiv/explained.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/rng.h"
#include "equiv/numbers.h"
#include "ops/fold.h"
#include "ops/table.h"

namespace emend {
namespace {

// Below this, of the largest value beside it, a difference is that of doubles.
constexpr double kOfDoubles = 1e-12;
// What sums of doubles that cancel leave, of the largest value on the way.
constexpr double kLeftOver = 64 * 0x1p-52;
// A difference counts when it is so many times what up to kRoundings roundings did.
constexpr double kFar = 4;
constexpr int kRoundings = 16;
// Below so many roundings of a float, of the largest value beside it, nobody looks further.
constexpr double kSuspicious = 4 * 0x1p-24;

// The tensor with every float moved by up to kRoundings roundings of its own type; whole numbers,
// which may be exponents, only where they may be.
Tensor rounded_otherwise(const Tensor& t, uint64_t seed, uint64_t stream, bool whole_moves = true) {
  if (!is_float(t.dtype()) || info(t.dtype()).bits < 16) return t;
  int bits = t.dtype() == DType::f64   ? 52
             : t.dtype() == DType::f32 ? 23
             : t.dtype() == DType::f16 ? 10
                                       : 7;
  int roundings = bits > 10 ? kRoundings : 2;
  return Tensor::make(t.dtype(), t.shape(), [&](std::byte* out) {
    for (int64_t i = 0; i < t.count(); ++i) {
      uint64_t h = hash_mix(hash_mix(seed, stream), static_cast<uint64_t>(i));
      int by = 1 + static_cast<int>((h >> 8) % static_cast<uint64_t>(roundings));
      double move = std::ldexp(h & 1 ? by : -by, -bits);
      if (!whole_moves && t.real(i) == std::round(t.real(i))) move = 0;
      store_real(t.dtype(), out, static_cast<size_t>(i), t.real(i) * (1 + move));
    }
  });
}

Graph with_constants_rounded_otherwise(Graph g, uint64_t seed, bool whole_moves) {
  for (size_t c = 0; c < g.constants.size(); ++c) {
    Tensor& t = g.constants[ConstId(c)];
    t = rounded_otherwise(t, seed, 1000 + c, whole_moves);
  }
  return g;
}

// The program with everything that follows from constants computed in the types that it has: either
// side may hold such values as they round there.
Graph computed_beforehand(const Graph& g) {
  Graph out = g;
  for (size_t i = 0; i < g.size(); ++i) {
    const Node& n = g.nodes[NodeId(i)];
    const Type& result = g.types[NodeId(i)];
    const bool known = std::ranges::all_of(n.args, [&](NodeId a) { return out.is_constant(a); });
    if (n.args.empty() || !known || !result.is_tensor() || !is_foldable(op_def(n), n.attrs))
      continue;
    std::vector<Tensor> operands;
    for (NodeId a : n.args) operands.push_back(out.constant(a));
    auto value = folded(op_def(n), n.attrs, operands, result);
    if (!value) continue;
    const auto index = static_cast<int64_t>(out.constants.size());
    out.constants.push_back(std::move(*value));
    out.nodes[NodeId(i)] = {kConstantOp, Attrs({{"index", index}}), {}};
  }
  return out;
}

// The elements as doubles, of a complex number both parts; nothing of what holds none.
std::vector<double> elements(const Tensor& t) {
  if (t.dtype() == DType::string) return {};
  if (!is_complex(t.dtype())) return t.reals();
  DType part = t.dtype() == DType::c64 ? DType::f32 : DType::f64;
  std::vector<double> v;
  for (int64_t i = 0; i < 2 * t.count(); ++i)
    v.push_back(load_real(part, t.data(), static_cast<size_t>(i)));
  return v;
}

Dims shape_of(const Tensor& t) {
  Dims s = t.shape();
  if (is_complex(t.dtype())) s.push_back(2);
  return s;
}

Dims position(const Tensor& t, int64_t at) {
  if (is_complex(t.dtype())) at /= 2;
  Dims p(t.shape().size());
  for (size_t d = p.size(); d-- > 0;) {
    p[d] = t.shape()[d] ? at % t.shape()[d] : 0;
    at /= std::max<int64_t>(t.shape()[d], 1);
  }
  return p;
}

// An output's tensors, those in tuples, sequences and optionals too.
void tensors_in(const Value& v, std::vector<const Tensor*>& to) {
  if (v.is_tensor()) to.push_back(&v.tensor);
  for (const Value& item : v.items) tensors_in(item, to);
}

// Tensors of both that stand at one place, with the output's name.
struct Pair {
  const std::string* output;
  const Tensor *x, *y;
};
struct Pairs {
  std::vector<Pair> all;
  std::optional<std::string> shaped_otherwise;  // the first output of another shape or kind
};

Pairs paired(const Graph& names, std::span<const Value> x, std::span<const Value> y) {
  Pairs p;
  for (size_t k = 0; k < x.size(); ++k) {
    std::vector<const Tensor*> s, t;
    tensors_in(x[k], s);
    tensors_in(y[k], t);
    bool same = s.size() == t.size() && x[k].kind == y[k].kind;
    for (size_t i = 0; same && i < s.size(); ++i)
      same = s[i]->shape() == t[i]->shape() && s[i]->dtype() == t[i]->dtype();
    if (!same && !p.shaped_otherwise) p.shaped_otherwise = names.outputs[k].name;
    for (size_t i = 0; same && i < s.size(); ++i)
      p.all.push_back({&names.outputs[k].name, s[i], t[i]});
  }
  return p;
}

Beyond of_shape(const std::string& output) {
  return {{output, {}, INFINITY, INFINITY, 0, 0}, INFINITY};
}

// Elementwise differences; an element that is finite on one side only has none that counts: over
// the reals both may be the same.
std::vector<double> differences(const Pair& p, std::span<const double> x,
                                std::span<const double> y) {
  std::vector<double> d(x.size());
  for (size_t i = 0; i < d.size(); ++i) {
    d[i] = std::abs(x[i] - y[i]);
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) d[i] = 0;
    auto at = static_cast<int64_t>(i);
    // Doubles do not hold all integers.
    if (is_integer(p.x->dtype()) && d[i] == 0 && p.x->integer(at) != p.y->integer(at)) d[i] = 1;
  }
  return d;
}

// Are there numbers in the first that are none in the second?
bool loses_numbers(const Graph& names, std::span<const Value> from, std::span<const Value> to) {
  return std::ranges::any_of(paired(names, from, to).all, [](const Pair& p) {
    auto x = elements(*p.x), y = elements(*p.y);
    for (size_t i = 0; i < x.size(); ++i)
      if (std::isfinite(x[i]) && !std::isfinite(y[i])) return true;
    return false;
  });
}

std::optional<Beyond> differing_strings(const Pair& p) {
  for (size_t i = 0; i < p.x->strings().size(); ++i) {
    if (p.x->strings()[i] == p.y->strings()[i]) continue;
    return Beyond{{*p.output, position(*p.x, static_cast<int64_t>(i)), INFINITY, INFINITY, 0, 0},
                  INFINITY};
  }
  return std::nullopt;
}

// Keeps the element with the largest difference by what is allowed there.
void keep_worst(const Pair& p, std::span<const double> allowed, std::optional<Beyond>& worst) {
  auto x = elements(*p.x), y = elements(*p.y);
  auto d = differences(p, x, y);
  std::optional<std::vector<double>> beside;
  for (size_t i = 0; i < d.size(); ++i) {
    if (!(d[i] > allowed[i])) continue;
    double ratio = allowed[i] > 0 ? d[i] / allowed[i] : INFINITY;
    if (worst && ratio <= worst->ratio) continue;
    if (!beside) beside = largest_beside(shape_of(*p.x), x);
    double rel = (*beside)[i] > 0 ? d[i] / (*beside)[i] : INFINITY;
    worst =
        Beyond{{*p.output, position(*p.x, static_cast<int64_t>(i)), d[i], rel, x[i], y[i]}, ratio};
  }
}

bool is_whole(const Tensor& t) {
  return !is_float(t.dtype()) && !is_complex(t.dtype());
}

// Per output: does it follow from integers and bools alone?
std::vector<bool> made_of_integers(const Graph& g) {
  IdVec<NodeId, char> whole(g.size(), 1);
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Type& t = g.types[id];
    whole[id] = t.is_tensor() && (is_integer(t.dtype) || t.dtype == DType::boolean);
    for (NodeId a : g.nodes[id].args) whole[id] = whole[id] && whole[a];
  }
  std::vector<bool> of_outputs;
  for (const GraphOutput& o : g.outputs) of_outputs.push_back(whole[o.node]);
  return of_outputs;
}

}  // namespace

std::vector<double> largest_beside(const Dims& shape, std::span<const double> values) {
  auto size = [](double v) { return std::isfinite(v) ? std::abs(v) : 0; };
  std::vector<double> least(values.size(), INFINITY);
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0; inner *= shape[d]) {
    if (shape[d] < 2) continue;
    std::vector<double> largest(static_cast<size_t>(shape[d]), 0);
    auto at = [&](size_t i) {
      return static_cast<size_t>(static_cast<int64_t>(i) / inner % shape[d]);
    };
    for (size_t i = 0; i < values.size(); ++i)
      largest[at(i)] = std::max(largest[at(i)], size(values[i]));
    for (size_t i = 0; i < values.size(); ++i) least[i] = std::min(least[i], largest[at(i)]);
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isinf(least[i])) least[i] = size(values[i]);
  return least;
}

std::optional<Beyond> Explanation::beyond(std::span<const Value> inputs, std::span<const Value> x,
                                          std::span<const Value> y, double largest) const {
  constexpr uint64_t kTrials = 8;
  Pairs now = paired(a_, x, y);
  if (now.shaped_otherwise) return of_shape(*now.shaped_otherwise);
  // What doubles explain, and then what roundings of floats do, trial by trial, while anything is
  // left that is beyond.
  std::vector<std::vector<double>> allowed;
  bool suspicious = false;
  for (const Pair& p : now.all) {
    auto u = elements(*p.x), v = elements(*p.y);
    auto most = largest_beside(shape_of(*p.x), u), other = largest_beside(shape_of(*p.y), v);
    auto d = differences(p, u, v);
    auto& mine = allowed.emplace_back(d.size(), 0);
    for (size_t i = 0; i < d.size() && !is_whole(*p.x); ++i) {
      mine[i] = kOfDoubles * std::max(most[i], other[i]) + kLeftOver * largest;
      suspicious |= d[i] > kSuspicious * std::max(most[i], other[i]);
    }
    suspicious |= is_whole(*p.x) && *p.x != *p.y;
  }
  if (!suspicious) return std::nullopt;
  auto left = [&] {
    std::optional<Beyond> worst;
    for (size_t k = 0; k < now.all.size(); ++k) {
      if (now.all[k].x->dtype() == DType::string) {
        if (auto strings = differing_strings(now.all[k])) return strings;
      } else {
        keep_worst(now.all[k], allowed[k], worst);
      }
    }
    return worst;
  };
  // False: even the shape follows from rounding.
  auto allow_noise = [&](std::span<const Value> before, std::span<const Value> after) {
    Pairs moves = paired(a_, before, after);
    if (moves.shaped_otherwise) return false;
    for (size_t k = 0; k < moves.all.size(); ++k) {
      const Pair& p = moves.all[k];
      auto d = differences(p, elements(*p.x), elements(*p.y));
      auto noise = largest_beside(shape_of(*p.x), d);
      for (size_t i = 0; i < noise.size(); ++i)
        allowed[k][i] = std::max(allowed[k][i], kFar * noise[i]);
    }
    return true;
  };
  const std::pair<const Graph*, std::span<const Value>> sides[] = {{&a_, x}, {&b_, y}};
  auto worst = left();
  for (uint64_t trial = 0; trial < kTrials && worst; ++trial) {
    std::vector<Value> moved;
    for (size_t i = 0; i < inputs.size(); ++i)
      moved.emplace_back(rounded_otherwise(inputs[i].tensor, trial, i));
    for (auto [g, before] : sides) {
      // A negative number to nearly the power of 2 is none, and shows no noise.
      for (bool whole_moves : {true, false}) {
        auto after = run_(with_constants_rounded_otherwise(*g, trial, whole_moves), moved);
        if (!allow_noise(before, after)) return std::nullopt;
        if (!loses_numbers(a_, before, after)) break;
      }
    }
    worst = left();
  }
  if (!worst) return std::nullopt;
  for (auto [g, before] : sides) {
    if (!allow_noise(before, run_(computed_beforehand(*g), inputs))) return std::nullopt;
  }
  return left();
}

std::optional<Beyond> witness_among_integers(const Graph& a, const Graph& b, uint64_t seed) {
  constexpr uint64_t kDraws = 200;
  const auto whole_a = made_of_integers(a), whole_b = made_of_integers(b);
  if (std::none_of(whole_a.begin(), whole_a.end(), [](bool w) { return w; })) return std::nullopt;
  auto numbers = numbers_of(a, b);
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    std::vector<Value> inputs = random_inputs(a, seed + draw);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Type& t = a.types[a.inputs[i].node];
      if (!is_integer(t.dtype)) continue;
      inputs[i] = Tensor::make(t.dtype, t.shape, [&](std::byte* out) {
        for (int64_t k = 0; k < count(t.shape); ++k) {
          auto at = static_cast<uint64_t>(k);
          int64_t v = integer_at_ends(t.dtype, numbers, random_bits(seed + draw, i, at),
                                      random_bits(seed + draw + 1'000'003, i, at));
          store_int(t.dtype, out, static_cast<size_t>(k), v);
        }
      });
    }
    try {
      auto x = evaluate(a, inputs), y = evaluate(b, inputs);
      for (size_t k = 0; k < x.size(); ++k) {
        if (!whole_a[k] || !whole_b[k] || x[k] == y[k]) continue;
        Graph name;
        name.outputs.push_back(a.outputs[k]);
        return beyond_tolerance(name, std::span(&x[k], 1), std::span(&y[k], 1), 0, 0);
      }
    } catch (const Error&) {  // these are no integers for this program
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<Beyond> beyond_tolerance(const Graph& names, std::span<const Value> x,
                                       std::span<const Value> y, double rtol, double atol) {
  Pairs pairs = paired(names, x, y);
  if (pairs.shaped_otherwise) return of_shape(*pairs.shaped_otherwise);
  std::optional<Beyond> worst;
  for (const Pair& p : pairs.all) {
    if (p.x->dtype() == DType::string) {
      if (auto strings = differing_strings(p)) return strings;
      continue;
    }
    auto u = elements(*p.x), v = elements(*p.y);
    std::vector<double> allowed;
    for (double e : v) allowed.push_back(is_whole(*p.x) ? 0 : atol + rtol * std::abs(e));
    for (size_t i = 0; i < u.size(); ++i) {
      bool same = u[i] == v[i] || (std::isnan(u[i]) && std::isnan(v[i]));
      if (same || (std::isfinite(u[i]) && std::isfinite(v[i]))) continue;
      auto at = position(*p.x, static_cast<int64_t>(i));
      return Beyond{{*p.output, at, INFINITY, INFINITY, u[i], v[i]}, INFINITY};
    }
    keep_worst(p, allowed, worst);
  }
  return worst;
}

}  // namespace emend
