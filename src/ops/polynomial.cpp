#include "ops/polynomial.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace emend {
namespace {

constexpr size_t kMaxProducts = 4096;
// Far enough for every comparison of iterators.
constexpr int64_t kUnbounded = int64_t{1} << 40;

Result<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  if (a.size() * b.size() > kMaxProducts) return fail("a body of too many products");
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
  return p;
}

Polynomial negated(Polynomial p) {
  return scaled(std::move(p), Mod61::of(int64_t{-1}));
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

Polynomial guarded(Polynomial p, const Condition& c) {
  for (Monomial& m : p) m.where.push_back(c);
  return p;
}

// What an instruction of a body is worth: a polynomial in reads, a linear form in iterators, or a
// comparison of such forms.
struct Symbolic {
  std::optional<Polynomial> polynomial;
  std::optional<Linear> linear;
  std::optional<Condition> condition;
};

class BodyReader {
 public:
  explicit BodyReader(const Scalar& body) : body_(body) {}

  Result<Polynomial> result() {
    for (const Instr& i : body_.code) {
      auto value = value_of(i);
      if (!value) return Failure{value.error()};
      values_.push_back(*std::move(value));
    }
    if (!values_.back().polynomial) return no_polynomial();
    return *std::move(values_.back().polynomial);
  }

 private:
  const Symbolic& at(int32_t i) const { return values_[static_cast<size_t>(i)]; }
  static Failure no_polynomial() { return {"a body that is no polynomial"}; }
  static Result<Symbolic> of(Result<Polynomial> p) {
    if (!p) return Failure{p.error()};
    return Symbolic{.polynomial = *std::move(p)};
  }

  Result<Symbolic> value_of(const Instr& i) const {
    switch (i.fn) {
      case Fn::constant:
        return constant(i.value);
      case Fn::arg:
        return of(Polynomial{{.reads = {i.a}}});
      case Fn::iter:
        return Symbolic{.linear = Linear{0, {{i.a, 1}}}};
      case Fn::neg:
        return scaled_by(i.a, Mod61::of(int64_t{-1}));
      case Fn::add:
        return added(at(i.a), at(i.b), 1);
      case Fn::sub:
        return added(at(i.a), at(i.b), -1);
      case Fn::mul:
        return multiplied(at(i.a), at(i.b).polynomial);
      case Fn::div:
        return divided(i);
      case Fn::lt:
        return compared(at(i.a), at(i.b), 1);
      case Fn::le:
        return compared(at(i.a), at(i.b), 0);
      case Fn::select:
        return selected(at(i.a), at(i.b), at(i.c));
      default:
        return fail("the function ", info(i.fn).name, " is not linear");
    }
  }

  // Positions as well as numbers may be compared with.
  static Result<Symbolic> constant(double value) {
    if (!std::isfinite(value)) return fail("an infinite constant");
    Symbolic s{.polynomial = Polynomial{{.coefficient = Mod61::of(value)}}};
    if (value == std::floor(value) && std::abs(value) < 1e12)
      s.linear = Linear{static_cast<int64_t>(value), {}};
    return s;
  }
  Result<Symbolic> scaled_by(int32_t i, Mod61 by) const {
    if (!at(i).polynomial) return no_polynomial();
    return of(scaled(*at(i).polynomial, by));
  }
  static Result<Symbolic> added(const Symbolic& a, const Symbolic& b, int64_t sign) {
    Symbolic s;
    if (a.linear && b.linear) s.linear = *a.linear + *b.linear * sign;
    if (a.polynomial && b.polynomial)
      s.polynomial = sum(*a.polynomial, scaled(*b.polynomial, Mod61::of(sign)));
    if (!s.linear && !s.polynomial) return fail("positions and values in one sum");
    return s;
  }
  static Result<Symbolic> multiplied(const Symbolic& a, const std::optional<Polynomial>& b) {
    if (!a.polynomial || !b) return no_polynomial();
    return of(product(*a.polynomial, *b));
  }
  Result<Symbolic> divided(const Instr& i) const {
    const Instr& by = body_.code[static_cast<size_t>(i.b)];
    if (by.fn == Fn::arg) return multiplied(at(i.a), Polynomial{{.divisors = {by.a}}});
    if (by.fn != Fn::constant || by.value == 0) return fail("a division by a value");
    return scaled_by(i.a, Mod61(1) / Mod61::of(by.value));
  }
  static Result<Symbolic> compared(const Symbolic& small, const Symbolic& large, int64_t slack) {
    if (!small.linear || !large.linear) return fail("a comparison of values");
    Linear e = *large.linear + *small.linear * -1;
    e.constant -= slack;
    return Symbolic{.condition = Condition{e, kUnbounded}};
  }
  static Result<Symbolic> selected(const Symbolic& by, const Symbolic& a, const Symbolic& b) {
    if (!a.polynomial || !b.polynomial || (!by.condition && !by.polynomial)) return no_polynomial();
    // b, and what a is more than it where the condition holds: conditions need no opposites.
    if (by.condition) {
      Polynomial more = sum(*a.polynomial, negated(*b.polynomial));
      return of(sum(*b.polynomial, guarded(std::move(more), *by.condition)));
    }
    // A read of zeros and ones chooses.
    auto then = product(*by.polynomial, *a.polynomial);
    auto otherwise = product(sum({{}}, negated(*by.polynomial)), *b.polynomial);
    if (!then || !otherwise) return Failure{(then ? otherwise : then).error()};
    return of(sum(*std::move(then), *otherwise));
  }

  const Scalar& body_;
  std::vector<Symbolic> values_;
};

}  // namespace

Polynomial scaled(Polynomial p, Mod61 by) {
  for (Monomial& m : p) m.coefficient = m.coefficient * by;
  return p;
}

Result<Polynomial> polynomial_of(const Scalar& body) {
  return BodyReader(body).result();
}

}  // namespace emend
