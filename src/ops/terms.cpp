#include "ops/terms.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/integer.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr size_t kMaxCases = 4096;
constexpr int64_t kMaxCarries = 64;
constexpr int kMaxRefinements = 24;
constexpr int64_t kMaxDivisor = int64_t{1} << 20;  // elements
constexpr size_t kMaxEvenParts = 256;              // of a divisor

// A reason to give up; never leaves this file.
struct GiveUp {
  std::string reason;
};
// Iterator `digit` of the output must be split into (rest, m): everything begins again.
struct SplitDigit {
  int digit;
  int64_t m;
};

// `iterator` becomes iterator * m + other.
void split_in(Linear& e, int iterator, int64_t m, int other) {
  for (auto& [k, coef] : e.terms) {
    if (k != iterator) continue;
    int64_t low = coef;
    coef *= m;
    e = e + Linear{0, {{other, low}}};
    return;
  }
}

// Iterators from `first` on move up by one.
void make_room(Linear& e, int first) {
  for (auto& [k, coef] : e.terms) k += k >= first ? 1 : 0;
}

void split_digit(Digits& digits, SplitDigit s) {
  auto at = digits.all.begin() + s.digit;
  int64_t extent = at->extent;
  Digits::One low{at->dim, s.m, at->weight};
  at->extent = ceil_div(extent, s.m);
  at->weight *= s.m;
  digits.all.insert(at + 1, low);
  for (Condition& c : digits.domain) {
    make_room(c.of, s.digit + 1);
    split_in(c.of, s.digit, s.m, s.digit + 1);
  }
  if (extent % s.m) digits.domain.push_back({{0, {{s.digit, s.m}, {s.digit + 1, 1}}}, extent});
}

// A scalar body as a sum of products of reads, each where some comparisons of iterators hold.
struct Monomial {
  Mod61 coefficient{1};
  std::vector<int> reads;
  std::vector<int> divisors;     // reads that it is divided by
  std::vector<Condition> where;  // over the meaning's iterators
};
using Polynomial = std::vector<Monomial>;

Polynomial product(const Polynomial& a, const Polynomial& b) {
  Polynomial p;
  for (const Monomial& x : a) {
    for (const Monomial& y : b) {
      Monomial m = x;
      m.coefficient = x.coefficient * y.coefficient;
      m.reads.insert(m.reads.end(), y.reads.begin(), y.reads.end());
      m.divisors.insert(m.divisors.end(), y.divisors.begin(), y.divisors.end());
      m.where.insert(m.where.end(), y.where.begin(), y.where.end());
      p.push_back(std::move(m));
    }
  }
  if (p.size() > kMaxCases) throw GiveUp{"a body of too many products"};
  return p;
}

Polynomial scaled(Polynomial p, Mod61 by) {
  for (Monomial& m : p) m.coefficient = m.coefficient * by;
  return p;
}

// Like products are one, and none at all where they cancel.
Polynomial sum(Polynomial a, const Polynomial& b) {
  for (const Monomial& m : b) {
    auto like = std::ranges::find_if(a, [&](const Monomial& n) {
      return n.reads == m.reads && n.divisors == m.divisors && n.where == m.where;
    });
    if (like == a.end())
      a.push_back(m);
    else
      like->coefficient = like->coefficient + m.coefficient;
  }
  std::erase_if(a, [](const Monomial& m) { return m.coefficient.v == 0; });
  return a;
}

// What an instruction of a body is worth: a polynomial in reads, a linear form in iterators, or a
// comparison of such forms.
struct Symbolic {
  std::optional<Polynomial> polynomial;
  std::optional<Linear> linear;
  std::optional<Condition> condition;
};

// Far enough for every comparison of iterators.
constexpr int64_t kUnbounded = int64_t{1} << 40;

class BodyReader {
 public:
  BodyReader(const Scalar& body) : body_(body) {
    for (const Instr& i : body.code) values_.push_back(value_of(i));
  }
  Polynomial result() const { return polynomial(static_cast<int32_t>(values_.size()) - 1); }

 private:
  const Polynomial& polynomial(int32_t i) const {
    const Symbolic& s = values_[static_cast<size_t>(i)];
    if (!s.polynomial) throw GiveUp{"a body that is no polynomial"};
    return *s.polynomial;
  }
  const Linear& linear(int32_t i) const {
    const Symbolic& s = values_[static_cast<size_t>(i)];
    if (!s.linear) throw GiveUp{"a comparison of values"};
    return *s.linear;
  }
  // Positions as well as numbers may be compared with.
  Symbolic constant(double value) const {
    Symbolic s{.polynomial = Polynomial{{.coefficient = Mod61::of(value)}}};
    if (value == std::floor(value) && std::abs(value) < 1e12)
      s.linear = Linear{static_cast<int64_t>(value), {}};
    return s;
  }

  Symbolic value_of(const Instr& i) const {
    auto one_sided = [&](int32_t small, int32_t large, int64_t slack) {
      Linear e = linear(large) + linear(small) * -1;
      e.constant -= slack;
      return Symbolic{.condition = Condition{e, kUnbounded}};
    };
    switch (i.fn) {
      case Fn::constant:
        if (!std::isfinite(i.value)) throw GiveUp{"an infinite constant"};
        return constant(i.value);
      case Fn::arg:
        return {.polynomial = Polynomial{{.reads = {i.a}}}};
      case Fn::iter:
        return {.linear = Linear{0, {{i.a, 1}}}};
      case Fn::neg:
        return {.polynomial = scaled(polynomial(i.a), Mod61::of(int64_t{-1}))};
      case Fn::add:
      case Fn::sub: {
        int64_t sign = i.fn == Fn::add ? 1 : -1;
        Symbolic s;
        const Symbolic &a = values_[static_cast<size_t>(i.a)],
                       &b = values_[static_cast<size_t>(i.b)];
        if (a.linear && b.linear) s.linear = *a.linear + *b.linear * sign;
        if (a.polynomial && b.polynomial)
          s.polynomial = sum(*a.polynomial, scaled(*b.polynomial, Mod61::of(sign)));
        if (!s.linear && !s.polynomial) throw GiveUp{"positions and values in one sum"};
        return s;
      }
      case Fn::mul:
        return {.polynomial = product(polynomial(i.a), polynomial(i.b))};
      case Fn::div: {
        const Instr& by = body_.code[static_cast<size_t>(i.b)];
        if (by.fn == Fn::arg)
          return {.polynomial = product(polynomial(i.a), Polynomial{{.divisors = {by.a}}})};
        if (by.fn != Fn::constant || by.value == 0) throw GiveUp{"a division by a value"};
        return {.polynomial = scaled(polynomial(i.a), Mod61(1) / Mod61::of(by.value))};
      }
      case Fn::lt:
        return one_sided(i.a, i.b, 1);
      case Fn::le:
        return one_sided(i.a, i.b, 0);
      case Fn::select: {
        const auto& c = values_[static_cast<size_t>(i.a)].condition;
        if (!c) return select_by_value(i);
        // b, and what a is more than it where the condition holds: conditions need no opposites.
        const Polynomial &a = polynomial(i.b), &b = polynomial(i.c);
        Polynomial more = sum(a, scaled(b, Mod61::of(int64_t{-1})));
        return {.polynomial = sum(b, guarded(std::move(more), *c))};
      }
      default:
        throw GiveUp{str("the function ", info(i.fn).name, " is not linear")};
    }
  }
  // A read of zeros and ones chooses.
  Symbolic select_by_value(const Instr& i) const {
    const Polynomial& c = polynomial(i.a);
    Polynomial otherwise = sum({{}}, scaled(c, Mod61::of(int64_t{-1})));
    return {.polynomial = sum(product(c, polynomial(i.b)), product(otherwise, polynomial(i.c)))};
  }
  static Polynomial guarded(Polynomial p, const Condition& c) {
    for (Monomial& m : p) m.where.push_back(c);
    return p;
  }

  const Scalar& body_;
  std::vector<Symbolic> values_;
};

// A term on its way: factors that are still nodes of the program, and linear forms at hand that
// change with its iterators when these are split.
struct Case {
  IndexTerm term;
  std::vector<LeafRead> open;     // their leaf is a node's id
  std::vector<Linear> registers;  // the same ones in every case of a list
};

class Composer {
 public:
  Composer(const Graph& g, const Digits& digits, Leaves& leaves)
      : g_(g), digits_(digits), leaves_(leaves) {}

  std::vector<IndexTerm> run() {
    const NodeId out = g_.outputs[0].node;
    Case first;
    first.term.extents = digits_.extents();
    LeafRead whole{static_cast<int>(out.value), std::vector<Linear>(g_.type(out).shape.size())};
    for (size_t k = 0; k < digits_.all.size(); ++k) {
      const Digits::One& d = digits_.all[k];
      Linear& e = whole.index[static_cast<size_t>(d.dim)];
      e = e + Linear{0, {{static_cast<int>(k), d.weight}}};
    }
    std::vector<Case> open;
    place(first, whole);
    open.push_back(std::move(first));
    std::vector<IndexTerm> done;
    while (!open.empty()) {
      Case c = std::move(open.back());
      open.pop_back();
      if (c.open.empty()) {
        done.push_back(std::move(c.term));
      } else {
        for (Case& next : expanded(std::move(c))) open.push_back(std::move(next));
      }
      if (open.size() + done.size() > kMaxCases) throw GiveUp{"too many cases"};
    }
    return done;
  }

 private:
  // A factor among the open ones, or at its end.
  void place(Case& c, LeafRead f) {
    NodeId n(static_cast<uint32_t>(f.leaf));
    const Node& node = g_.nodes[n];
    if (node.op == kInputOp) {
      f.leaf = static_cast<int>(node.attrs.get<int64_t>("index"));
    } else if (g_.is_constant(n)) {
      const Tensor& value = g_.constant(n);
      if (auto number = uniform(value)) {
        c.term.coefficient = c.term.coefficient * Mod61::of(*number);
        return;
      }
      f.leaf = leaves_.of_constant(value);
    } else {
      c.open.push_back(std::move(f));
      return;
    }
    c.term.reads.push_back(std::move(f));
  }
  static std::optional<double> uniform(const Tensor& t) {
    if (t.count() == 0 || !is_float(t.dtype())) return std::nullopt;
    double first = t.real(0);
    if (!std::isfinite(first)) throw GiveUp{"an infinite constant"};
    if (t.count() > 4096) return std::nullopt;
    for (int64_t i = 1; i < t.count(); ++i)
      if (t.real(i) != first) return std::nullopt;
    return first;
  }

  // The last open factor replaced by what its node means.
  std::vector<Case> expanded(Case c) {
    LeafRead f = std::move(c.open.back());
    c.open.pop_back();
    NodeId n(static_cast<uint32_t>(f.leaf));
    const Node& node = g_.nodes[n];
    const OpDef& def = op_def(node);
    std::vector<Type> types;
    for (NodeId a : node.args) types.push_back(g_.type(a));
    if (def.body.empty() && !def.means) throw GiveUp{str(def.name, " has no meaning by itself")};
    Meaning m = meaning_of(def, node.attrs, types);
    if (m.reduce != Reduce::none && m.reduce != Reduce::sum) throw GiveUp{"no sum"};
    Polynomial finish = BodyReader(m.finish).result();
    if (finish.size() != 1 || finish[0].reads != std::vector<int>{0} ||
        !finish[0].divisors.empty() || !finish[0].where.empty())
      throw GiveUp{str(def.name, " is not linear")};
    Polynomial body = scaled(BodyReader(m.body).result(), finish[0].coefficient);

    std::vector<Case> cases = {std::move(c)};
    cases[0].registers = f.index;
    std::vector<int> values = output_values(cases, m, g_.type(n).shape);
    for (Case& one : cases) {
      for (int64_t extent : m.reduced) {
        one.registers.push_back({0, {{static_cast<int>(one.term.extents.size()), 1}}});
        one.term.extents.push_back(extent);
      }
    }
    for (size_t k = 0; k < m.reduced.size(); ++k)
      values.push_back(static_cast<int>(cases_registers(cases) - m.reduced.size() + k));

    std::vector<Case> all;
    for (const Monomial& p : body) {
      std::vector<Case> part = cases;
      for (const Condition& w : p.where) require(part, values, w);
      for (Case& one : part) one.term.coefficient = one.term.coefficient * p.coefficient;
      for (int r : p.divisors) divide_by(part, values, m.reads[static_cast<size_t>(r)], node);
      for (int r : p.reads) read(part, values, m.reads[static_cast<size_t>(r)], node);
      for (Case& one : part) {
        one.registers.clear();
        all.push_back(std::move(one));
      }
    }
    return all;
  }
  // By a constant: in each of its parts in which all elements are equal, by that number.
  void divide_by(std::vector<Case>& cases, const std::vector<int>& values, const Read& r,
                 const Node& node) {
    NodeId operand = node.args[static_cast<size_t>(r.operand)];
    if (!g_.is_constant(operand) || !is_float(g_.type(operand).dtype))
      throw GiveUp{"a division by a value"};
    const Tensor& by = g_.constant(operand);
    const std::vector<EvenPart> parts = even_parts(by);
    const std::vector<int> index = indices(cases, values, r);
    std::vector<Case> all;
    for (const Case& c : cases) {
      for (const EvenPart& p : parts) {
        Case one = c;
        bool possible = true;
        for (size_t d = 0; d < index.size() && possible; ++d) {
          Linear e = one.registers[static_cast<size_t>(index[d])];
          e.constant -= p.low[d];
          possible = require(one, {e, p.high[d] - p.low[d]});
        }
        if (!possible) continue;
        one.term.coefficient = one.term.coefficient / Mod61::of(p.value);
        all.push_back(std::move(one));
      }
    }
    if (all.size() > kMaxCases) throw GiveUp{"too many cases"};
    cases = std::move(all);
  }
  // Cut wherever a slice differs from the one before it: as averages over windows are divided, less
  // at borders.
  struct EvenPart {
    Dims low, high;
    double value;
  };
  static std::vector<EvenPart> even_parts(const Tensor& t) {
    if (t.count() > kMaxDivisor) throw GiveUp{"a division by many values"};
    const Dims& shape = t.shape();
    const Dims strides = row_major_strides(shape);
    std::vector<EvenPart> parts = {{{}, {}, 0}};
    for (size_t d = 0; d < shape.size(); ++d) {
      Dims cuts = {0};
      for (int64_t k = 1; k < shape[d]; ++k) {
        if (!same_slices(t, strides[d], strides[d] * shape[d], k)) cuts.push_back(k);
      }
      cuts.push_back(shape[d]);
      if (parts.size() * cuts.size() > kMaxEvenParts) throw GiveUp{"a division by many values"};
      std::vector<EvenPart> next;
      for (const EvenPart& p : parts) {
        for (size_t k = 0; k + 1 < cuts.size(); ++k) {
          next.push_back(p);
          next.back().low.push_back(cuts[k]);
          next.back().high.push_back(cuts[k + 1]);
        }
      }
      parts = std::move(next);
    }
    for (EvenPart& p : parts) {
      int64_t flat = 0;
      for (size_t d = 0; d < shape.size(); ++d) flat += p.low[d] * strides[d];
      p.value = t.real(flat);
      if (!std::isfinite(p.value) || p.value == 0) throw GiveUp{"a division by zero"};
    }
    return parts;
  }
  // Slice k of a dimension with this stride, and the one before it.
  static bool same_slices(const Tensor& t, int64_t stride, int64_t period, int64_t k) {
    for (int64_t base = 0; base < t.count(); base += period)
      for (int64_t i = base + k * stride; i < base + (k + 1) * stride; ++i)
        if (t.real(i) != t.real(i - stride)) return false;
    return true;
  }
  static size_t cases_registers(const std::vector<Case>& cases) {
    return cases.empty() ? 0 : cases[0].registers.size();
  }

  // Which registers hold the meaning's output iterators, where the first ones hold the index.
  std::vector<int> output_values(std::vector<Case>& cases, const Meaning& m, const Dims& shape) {
    std::vector<int> values(m.out.size());
    size_t k = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      size_t first = k;
      for (int64_t size = 1; k < m.out.size() && (size < shape[d] || k == first); ++k)
        size *= m.out[k];
      // Trailing digits of extent 1 may belong to this dimension or to the next: both are zero.
      int rest = static_cast<int>(d);
      for (size_t j = k; j-- > first + 1;) {
        rest = divide(cases, rest, m.out[j]);
        values[j] = rest + 1;
      }
      if (first < m.out.size()) values[first] = rest;
    }
    for (; k < m.out.size(); ++k) {
      values[k] = static_cast<int>(cases_registers(cases));
      for (Case& c : cases) c.registers.push_back({});
    }
    return values;
  }

  // Two registers more in every case: floor(e / b) and e mod b. The first one's number.
  int divide(std::vector<Case>& cases, int e, int64_t b) {
    auto result = static_cast<int>(cases_registers(cases));
    std::vector<Case> all;
    for (Case& c : cases) divide(std::move(c), e, b, all);
    if (all.size() > kMaxCases) throw GiveUp{"too many cases"};
    cases = std::move(all);
    return result;
  }
  void divide(Case c, int e, int64_t b, std::vector<Case>& into) {
    auto reg = static_cast<size_t>(e);
    for (size_t t = 0; t < c.registers[reg].terms.size(); ++t) {
      auto [k, coef] = c.registers[reg].terms[t];
      if (coef % b == 0) continue;
      int64_t m = b / std::gcd(std::abs(coef), b);
      if (c.term.extents[static_cast<size_t>(k)] > m) split(c, k, m);
    }
    Linear high, low;
    auto share = [&](int64_t value, int64_t& to_high, int64_t& to_low) {
      // The nearest multiple: little is left to carry. Of two the lower, so that digits stay.
      to_high = floor_div(2 * value + b - 1, 2 * b);
      to_low = value - to_high * b;
    };
    high.constant = floor_div(c.registers[reg].constant, b);
    low.constant = c.registers[reg].constant - high.constant * b;
    for (auto [k, coef] : c.registers[reg].terms) {
      int64_t h, l;
      share(coef, h, l);
      if (h) high.terms.emplace_back(k, h);
      if (l) low.terms.emplace_back(k, l);
    }
    auto [least, most] = range(low, c.term.extents);
    int64_t from = floor_div(least, b), to = floor_div(most, b);
    if (to - from > kMaxCarries) throw GiveUp{"too many carries"};
    for (int64_t carry = from; carry <= to; ++carry) {
      Case one = c;
      Linear q = high, r = low;
      q.constant += carry;
      r.constant -= carry * b;
      if (!require(one, {r, b})) continue;
      one.registers.push_back(q);
      one.registers.push_back(r);
      into.push_back(std::move(one));
    }
  }

  // Iterator k of a case becomes k * m + a new one.
  void split(Case& c, int k, int64_t m) {
    if (k < static_cast<int>(digits_.all.size())) throw SplitDigit{k, m};
    int64_t& extent = c.term.extents[static_cast<size_t>(k)];
    auto low = static_cast<int>(c.term.extents.size());
    int64_t whole = extent;
    extent = ceil_div(extent, m);
    c.term.extents.push_back(m);
    for (Linear& e : c.registers) split_in(e, k, m, low);
    for (Condition& w : c.term.conditions) split_in(w.of, k, m, low);
    for (auto* list : {&c.open, &c.term.reads})
      for (LeafRead& f : *list)
        for (Linear& e : f.index) split_in(e, k, m, low);
    if (whole % m) c.term.conditions.push_back({{0, {{k, m}, {low, 1}}}, whole});
  }

  // False where the condition never holds. Several about one form are one.
  static bool require(Case& c, const Condition& w) {
    auto [least, most] = range(w.of, c.term.extents);
    if (least >= w.extent || most < 0) return false;
    if (least >= 0 && most < w.extent) return true;
    auto& all = c.term.conditions;
    auto other =
        std::ranges::find_if(all, [&](const Condition& o) { return o.of.terms == w.of.terms; });
    if (other == all.end()) {
      all.push_back(w);
      return true;
    }
    int64_t low = std::max(-w.of.constant, -other->of.constant);
    int64_t high = std::min(w.extent - w.of.constant, other->extent - other->of.constant);
    other->of.constant = -low;
    other->extent = high - low;
    return low < high;
  }
  // Of a linear form in the meaning's iterators.
  void require(std::vector<Case>& cases, const std::vector<int>& values, const Condition& w) {
    std::erase_if(cases, [&](Case& c) { return !require(c, {at(c, values, w.of), w.extent}); });
  }
  static Linear at(const Case& c, const std::vector<int>& values, const Linear& e) {
    Linear sum{e.constant, {}};
    for (auto [k, coef] : e.terms)
      sum = sum + c.registers[static_cast<size_t>(values[static_cast<size_t>(k)])] * coef;
    return sum;
  }

  // Which registers hold the indices of a read.
  std::vector<int> indices(std::vector<Case>& cases, const std::vector<int>& values,
                           const Read& r) {
    std::vector<int> index;
    for (const IndexExpr& e : r.index) {
      if (e.read >= 0) throw GiveUp{"places that depend on data"};
      std::vector<std::pair<int, int64_t>> parts;  // registers of digits, coefficients
      for (const Digit& d : e.digits) {
        auto of = static_cast<int>(cases_registers(cases));
        for (Case& c : cases) c.registers.push_back(at(c, values, d.of));
        int q = d.div > 1 ? divide(cases, of, d.div) : of;
        parts.emplace_back(d.mod ? divide(cases, q, d.mod) + 1 : q, d.coef);
      }
      index.push_back(static_cast<int>(cases_registers(cases)));
      for (Case& c : cases) {
        Linear sum = at(c, values, e.affine);
        for (auto [reg, coef] : parts) sum = sum + c.registers[static_cast<size_t>(reg)] * coef;
        c.registers.push_back(sum);
      }
    }
    return index;
  }

  void read(std::vector<Case>& cases, const std::vector<int>& values, const Read& r,
            const Node& node) {
    NodeId operand = node.args[static_cast<size_t>(r.operand)];
    const Dims& shape = g_.type(operand).shape;
    const std::vector<int> index = indices(cases, values, r);
    std::erase_if(cases, [&](Case& c) { return !inside(c, index, r, shape); });
    for (Case& c : cases) {
      LeafRead f{static_cast<int>(operand.value), {}};
      for (int i : index) f.index.push_back(c.registers[static_cast<size_t>(i)]);
      place(c, std::move(f));
    }
  }
  static bool inside(Case& c, const std::vector<int>& index, const Read& r, const Dims& shape) {
    for (size_t d = 0; d < index.size(); ++d) {
      const Linear& e = c.registers[static_cast<size_t>(index[d])];
      auto [least, most] = range(e, c.term.extents);
      if (least >= 0 && most < shape[d]) continue;
      if (!r.outside) continue;  // reads that stay inside: the conditions see to it
      if (*r.outside != 0) throw GiveUp{"a border that is not zero"};
      if (!require(c, {e, shape[d]})) return false;
    }
    return true;
  }

  const Graph& g_;
  const Digits& digits_;
  Leaves& leaves_;
};

}  // namespace

Dims Digits::extents() const {
  Dims e;
  for (const One& d : all) e.push_back(d.extent);
  return e;
}

Dims Digits::position(std::span<const int64_t> digits, size_t rank) const {
  Dims p(rank, 0);
  for (size_t k = 0; k < all.size(); ++k)
    p[static_cast<size_t>(all[k].dim)] += digits[k] * all[k].weight;
  return p;
}

Digits digits_of(const Dims& shape) {
  Digits d;
  for (size_t k = 0; k < shape.size(); ++k) d.all.push_back({static_cast<int>(k), shape[k], 1});
  return d;
}

int Leaves::of_constant(const Tensor& value) {
  auto it = std::find(constants.begin(), constants.end(), value);
  if (it == constants.end()) it = constants.insert(it, value);
  return static_cast<int>(inputs + static_cast<size_t>(it - constants.begin()));
}

Result<std::vector<IndexTerm>> terms_of(const Graph& g, Digits& digits, Leaves& leaves) {
  EMEND_ASSERT(g.outputs.size() == 1);
  for (const Type& t : g.types)
    if (t.is_tensor() && count(t.shape) == 0) return fail("a tensor without elements");
  leaves.inputs = g.inputs.size();
  try {
    for (int i = 0; i < kMaxRefinements; ++i) {
      try {
        return Composer(g, digits, leaves).run();
      } catch (const SplitDigit& s) {
        split_digit(digits, s);
      }
    }
    return fail("too many digits");
  } catch (const GiveUp& g) {
    return fail(g.reason);
  }
}

}  // namespace emend
