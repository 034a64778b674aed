#include "equiv/wrapping.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

using Real = long double;  // holds every 64-bit integer, and knows when a sum exceeds one

struct Range {
  Real low = 0, high = 0;
  bool wrapped = false;  // the value is one of the range only up to a multiple of 2^bits

  bool is_inside(const Range& r) const { return r.low <= low && high <= r.high; }
};

Range joined(const Range& a, const Range& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.wrapped || b.wrapped};
}

Range type_range(DType t) {
  if (t == DType::boolean) return {0, 1};
  int bits = info(t).bits;
  bool is_signed = info(t).kind == DTypeClass::signed_int;
  Real all = std::ldexp(Real{1}, bits);
  return is_signed ? Range{-all / 2, all / 2 - 1} : Range{0, all - 1};
}

bool is_whole(const Type& t) {
  return t.is_tensor() && (is_integer(t.dtype) || t.dtype == DType::boolean);
}

Range product(const Range& a, const Range& b) {
  Real ends[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  return {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4),
          a.wrapped || b.wrapped};
}

// What a function makes of ranges; nothing where that is not known. Whether an operand had wrapped
// is up to the caller.
std::optional<Range> image(Fn fn, const Range& a, const Range& b, const Range& c) {
  Real most = std::max(std::abs(a.low), std::abs(a.high));
  Real divisor = std::max(std::abs(b.low), std::abs(b.high));
  switch (fn) {
    case Fn::neg:
      return Range{-a.high, -a.low};
    case Fn::abs:
      return Range{a.low > 0 ? a.low : a.high < 0 ? -a.high : 0, most};
    case Fn::sign:
      return Range{-1, 1};
    case Fn::floor:
    case Fn::ceil:
    case Fn::round:
    case Fn::trunc:
      return a;
    case Fn::add:
      return Range{a.low + b.low, a.high + b.high};
    case Fn::sub:
      return Range{a.low - b.high, a.high - b.low};
    case Fn::mul:
      return product(a, b);
    case Fn::div:
      if (b.low > 0) return Range{std::min<Real>(a.low, 0), std::max<Real>(a.high, 0)};
      return Range{-most, most};
    case Fn::mod:
      return Range{b.low < 0 ? -divisor : 0, b.high > 0 ? divisor : 0};
    case Fn::fmod:
      return Range{a.low < 0 ? -divisor : 0, a.high > 0 ? divisor : 0};
    case Fn::min:
      return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
    case Fn::max:
      return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
    case Fn::lt:
    case Fn::le:
    case Fn::eq:
    case Fn::is_nan:
    case Fn::is_inf:
    case Fn::logical_not:
    case Fn::logical_and:
    case Fn::logical_or:
    case Fn::logical_xor:
      return Range{0, 1};
    case Fn::bit_and:
      if (a.low >= 0 || b.low >= 0) return Range{0, std::max(a.high, b.high)};
      return std::nullopt;
    case Fn::shift_right:
      return a.low >= 0 ? std::optional(Range{0, a.high}) : std::nullopt;
    case Fn::select:
      return joined(b, c);
    default:
      return std::nullopt;
  }
}

// Obeys the laws of a ring, or only passes values on.
bool is_ring(Fn fn) {
  return fn == Fn::arg || fn == Fn::constant || fn == Fn::iter || fn == Fn::neg || fn == Fn::add ||
         fn == Fn::sub || fn == Fn::mul;
}

class Ranges {
 public:
  Ranges(const Graph& g, const std::vector<Range>& inputs) : g_(g), known_(g.size()) {
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId id{i};
      const Node& n = g.nodes[id];
      if (n.op == kInputOp) {
        known_[id] = inputs[static_cast<size_t>(n.attrs.get<int64_t>("index"))];
      } else if (n.op == kConstantOp) {
        known_[id] = of_constant(g.constant(id));
      } else {
        known_[id] = of_node(id);
      }
    }
  }
  bool matters() const { return matters_; }
  Range output(size_t k) const { return known_[g_.outputs[k].node]; }

 private:
  static Range of_constant(const Tensor& t) {
    if (!is_whole(t.type()) || t.count() == 0) return {};
    Range r{static_cast<Real>(t.integer(0)), static_cast<Real>(t.integer(0))};
    if (t.dtype() == DType::u64) return type_range(t.dtype());
    for (int64_t i = 0; i < t.count(); ++i) {
      auto v = static_cast<Real>(t.integer(i));
      r = joined(r, {v, v});
    }
    return r;
  }

  Range of_node(NodeId id) {
    const Node& n = g_.nodes[id];
    const OpDef& def = op_def(n);
    std::vector<Type> types;
    bool tensors = true, whole = false, wrapped = false;
    for (NodeId a : n.args) {
      types.push_back(g_.types[a]);
      tensors &= types.back().is_tensor();
      whole |= is_whole(types.back());
      wrapped |= known_[a].wrapped;
      // Into another type, or out of the integers, goes the number as it is.
      matters_ |= known_[a].wrapped && types.back().dtype != g_.types[id].dtype;
    }
    const Type& type = g_.types[id];
    Range all = is_whole(type) ? type_range(type.dtype) : Range{};
    if (!whole) return all;
    if (tensors && (def.means || !def.body.empty()))
      return fitting(of_meaning(n, meaning_of(def, n.attrs, types), type), type);
    if (tensors && def.expand) return of_expansion(n, expansion(def, n.attrs, types));
    // What is written by hand moves elements, or may do anything.
    if (def.has(raw_moves) || def.kind == Kind::structure) return moved(n);
    matters_ |= wrapped || def.kind == Kind::scan;
    return all;
  }

  Range moved(const Node& n) const {
    Range r = known_[n.args[0]];
    for (NodeId a : n.args) r = joined(r, known_[a]);
    return r;
  }

  Range of_expansion(const Node& n, const Graph& g) {
    std::vector<Range> operands;
    for (NodeId a : n.args) operands.push_back(known_[a]);
    Ranges inner(g, operands);
    matters_ |= inner.matters();
    Range r = inner.output(0);
    for (size_t k = 1; k < g.outputs.size(); ++k) r = joined(r, inner.output(k));
    return r;
  }

  Range of_meaning(const Node& n, const Meaning& m, const Type& type) {
    std::vector<Range> reads;
    for (const Read& r : m.reads) {
      Range v = known_[n.args[static_cast<size_t>(r.operand)]];
      if (r.outside && std::isfinite(*r.outside))
        v = joined(v, {static_cast<Real>(*r.outside), static_cast<Real>(*r.outside)});
      reads.push_back(v);
    }
    for (const Read& r : m.reads)
      for (const IndexExpr& e : r.index)
        if (e.read >= 0) matters_ |= reads[static_cast<size_t>(e.read)].wrapped;
    Range v = of_scalar(m.body, reads, m.extents(), type);
    auto terms = static_cast<Real>(count(m.reduced));
    if (m.reduce == Reduce::sum) v = product(v, {std::min<Real>(terms, 0), terms, false});
    if (m.reduce == Reduce::product && terms > 1 && !v.is_inside({-1, 1})) v.wrapped = true;
    if (m.reduce == Reduce::max || m.reduce == Reduce::min) matters_ |= v.wrapped;
    return of_scalar(m.finish, std::span(&v, 1), m.extents(), type);
  }

  Range of_scalar(const Scalar& s, std::span<const Range> args, const Dims& extents,
                  const Type& type) {
    std::vector<Range> v;
    for (const Instr& i : s.code) {
      auto at = [&](int32_t k) {
        return k < 0 || static_cast<size_t>(k) >= v.size() ? Range{} : v[static_cast<size_t>(k)];
      };
      if (i.fn == Fn::constant) {
        auto c = static_cast<Real>(std::isfinite(i.value) ? i.value : 0);
        v.push_back({c, c});
      } else if (i.fn == Fn::arg) {
        v.push_back(args[static_cast<size_t>(i.a)]);
      } else if (i.fn == Fn::iter) {
        v.push_back({0, static_cast<Real>(extents[static_cast<size_t>(i.a)])});
      } else {
        int arity = info(i.fn).arity;
        bool wrapped =
            at(i.a).wrapped || (arity > 1 && at(i.b).wrapped) || (arity > 2 && at(i.c).wrapped);
        // A choice passes on what it chooses; its condition must not have wrapped.
        bool passes = is_ring(i.fn) || (i.fn == Fn::select && !at(i.a).wrapped);
        matters_ |= wrapped && !passes;
        auto known = image(i.fn, at(i.a), at(i.b), at(i.c));
        Range all = is_whole(type) ? type_range(type.dtype) : Range{};
        v.push_back(known.value_or(all));
        bool bits = i.fn == Fn::bit_and || i.fn == Fn::bit_or || i.fn == Fn::bit_xor ||
                    i.fn == Fn::bit_not || i.fn == Fn::shift_right;
        v.back().wrapped = (wrapped && passes) || (!known && !bits);
      }
    }
    return v.back();
  }

  // As it is stored: beyond the ends of its type it has wrapped. A float does not wrap, but holds
  // what had.
  Range fitting(Range r, const Type& type) {
    if (!is_whole(type)) {
      matters_ |= r.wrapped;
      return {};
    }
    Range all = type_range(type.dtype);
    if (r.is_inside(all)) return r;
    return {all.low, all.high, true};
  }

  const Graph& g_;
  IdVec<NodeId, Range> known_;
  bool matters_ = false;
};

}  // namespace

bool wrapping_matters(const Graph& g, IntegerRange inputs) {
  std::vector<Range> ranges;
  for (const GraphInput& i : g.inputs) {
    const Type& t = g.types[i.node];
    Range all = is_whole(t) ? type_range(t.dtype) : Range{};
    ranges.push_back({std::max(all.low, inputs.low), std::min(all.high, inputs.high)});
  }
  return Ranges(g, ranges).matters();
}

}  // namespace emend
