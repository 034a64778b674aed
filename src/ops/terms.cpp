#include "ops/terms.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <variant>

#include "base/integer.h"
#include "ops/even_parts.h"
#include "ops/families.h"
#include "ops/polynomial.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr size_t kMaxCases = 4096;
constexpr int64_t kMaxCarries = 64;
constexpr int kMaxRefinements = 24;

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

// A node's meaning, its body read.
struct MultiLinear {
  Meaning means;
  Polynomial body;  // what `finish` does to the sum included
};
Result<MultiLinear> multi_linear(const Graph& g, NodeId n) {
  const Node& node = g.nodes[n];
  const OpDef& def = op_def(node);
  if (def.body.empty() && !def.means) return fail(def.name, " has no meaning by itself");
  std::vector<Type> types;
  for (NodeId a : node.args) types.push_back(g.type(a));
  Meaning m = meaning_of(def, node.attrs, types);
  if (m.reduce != Reduce::none && m.reduce != Reduce::sum) return fail("no sum");
  auto finish = polynomial_of(m.finish);
  if (!finish) return Failure{finish.error()};
  auto is_sum = [](const Monomial& f) {
    return f.reads == std::vector<int>{0} && f.divisors.empty() && f.where.empty();
  };
  if (finish->size() != 1 || !is_sum((*finish)[0])) return fail(def.name, " is not linear");
  auto body = polynomial_of(m.body);
  if (!body) return Failure{body.error()};
  return MultiLinear{std::move(m), scaled(*std::move(body), (*finish)[0].coefficient)};
}

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

  // Why there are no terms.
  using End = std::variant<Failure, SplitDigit>;

  std::variant<std::vector<IndexTerm>, End> run() {
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
    while (!open.empty() && !ended_) {
      Case c = std::move(open.back());
      open.pop_back();
      if (c.open.empty()) {
        done.push_back(std::move(c.term));
      } else {
        for (Case& next : expanded(std::move(c))) open.push_back(std::move(next));
      }
      if (open.size() + done.size() > kMaxCases) end(fail("too many cases"));
    }
    if (ended_) return *ended_;
    return done;
  }

 private:
  // The first reason stays; what is under way comes to nothing.
  void end(End why) {
    if (!ended_) ended_ = std::move(why);
  }
  void replace(std::vector<Case>& cases, std::vector<Case> by) {
    if (by.size() > kMaxCases) end(fail("too many cases"));
    cases = std::move(by);
    if (ended_) cases.clear();
  }

  // A factor among the open ones, or at its end.
  void place(Case& c, LeafRead f) {
    if (ended_) return;
    NodeId n(static_cast<uint32_t>(f.leaf));
    const Node& node = g_.nodes[n];
    if (node.op == kInputOp) {
      f.leaf = static_cast<int>(node.attrs.get<int64_t>("index"));
    } else if (g_.is_constant(n)) {
      const Tensor& value = g_.constant(n);
      if (begins_infinite(value)) return end(fail("an infinite constant"));
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
  static bool begins_infinite(const Tensor& t) {
    return t.count() > 0 && is_float(t.dtype()) && !std::isfinite(t.real(0));
  }
  static std::optional<double> uniform(const Tensor& t) {
    if (t.count() == 0 || t.count() > 4096 || !is_float(t.dtype())) return std::nullopt;
    double first = t.real(0);
    for (int64_t i = 1; i < t.count(); ++i)
      if (t.real(i) != first) return std::nullopt;
    return first;
  }

  // The last open factor replaced by what its node means.
  std::vector<Case> expanded(Case c) {
    LeafRead f = std::move(c.open.back());
    c.open.pop_back();
    NodeId n(static_cast<uint32_t>(f.leaf));
    auto meaning = multi_linear(g_, n);
    if (!meaning) {
      end(Failure{meaning.error()});
      return {};
    }
    const Node& node = g_.nodes[n];
    const Meaning& m = meaning->means;
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
    for (const Monomial& p : meaning->body) {
      std::vector<Case> part = ended_ ? std::vector<Case>() : cases;
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
      return end(fail("a division by a value"));
    const auto parts = even_parts(g_.constant(operand));
    if (!parts) return end(Failure{parts.error()});
    const std::vector<int> index = indices(cases, values, r);
    std::vector<Case> all;
    for (const Case& c : cases) {
      for (const EvenPart& p : *parts) {
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
    replace(cases, std::move(all));
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
    replace(cases, std::move(all));
    return result;
  }
  void divide(Case c, int e, int64_t b, std::vector<Case>& into) {
    auto reg = static_cast<size_t>(e);
    for (size_t t = 0; t < c.registers[reg].terms.size(); ++t) {
      auto [k, coef] = c.registers[reg].terms[t];
      if (coef % b == 0) continue;
      int64_t m = b / std::gcd(std::abs(coef), b);
      if (c.term.extents[static_cast<size_t>(k)] > m && !split(c, k, m)) return;
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
    if (to - from > kMaxCarries) return end(fail("too many carries"));
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

  // Iterator k of a case becomes k * m + a new one. False for a digit of the output, which belongs
  // to all cases.
  bool split(Case& c, int k, int64_t m) {
    if (k < static_cast<int>(digits_.all.size())) {
      end(SplitDigit{k, m});
      return false;
    }
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
    return true;
  }

  // False where the condition never holds. Several about one form are one.
  static bool require(Case& c, const Condition& given) {
    const Condition w = upright(given);
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
      if (e.read >= 0) end(fail("places that depend on data"));
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
  bool inside(Case& c, const std::vector<int>& index, const Read& r, const Dims& shape) {
    for (size_t d = 0; d < index.size(); ++d) {
      const Linear& e = c.registers[static_cast<size_t>(index[d])];
      auto [least, most] = range(e, c.term.extents);
      if (least >= 0 && most < shape[d]) continue;
      if (!r.outside) continue;  // reads that stay inside: the conditions see to it
      if (*r.outside != 0) end(fail("a border that is not zero"));
      if (!require(c, {e, shape[d]})) return false;
    }
    return true;
  }

  const Graph& g_;
  const Digits& digits_;
  Leaves& leaves_;
  std::optional<End> ended_;
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
  for (int i = 0; i < kMaxRefinements; ++i) {
    auto composed = Composer(g, digits, leaves).run();
    if (auto* terms = std::get_if<0>(&composed)) return std::move(*terms);
    const Composer::End& end = std::get<1>(composed);
    if (const auto* failure = std::get_if<Failure>(&end)) return *failure;
    split_digit(digits, std::get<SplitDigit>(end));
  }
  return fail("too many digits");
}

}  // namespace emend
