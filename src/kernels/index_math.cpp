#include "kernels/index_math.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"

namespace emend {

int IndexMath::iterator(int64_t extent) {
  atoms_.push_back({.kind = Atom::Kind::iterator, .low = 0, .high = extent - 1});
  return static_cast<int>(atoms_.size() - 1);
}

int IndexMath::intern(Atom a) {
  auto it = std::find(atoms_.begin(), atoms_.end(), a);
  if (it == atoms_.end()) it = atoms_.insert(it, std::move(a));
  return static_cast<int>(it - atoms_.begin());
}

Linear IndexMath::value(int value, int64_t wrap, int64_t low, int64_t high) {
  return term(intern({.kind = Atom::Kind::value,
                      .of = {},
                      .by = wrap,
                      .value = value,
                      .low = low,
                      .high = std::max(low, high)}));
}

void IndexMath::narrow(int iterator, int64_t from, int64_t to) {
  Atom& a = atoms_[static_cast<size_t>(iterator)];
  a.low = std::max(a.low, from);
  a.high = std::min(a.high, to - 1);
}

std::pair<int64_t, int64_t> IndexMath::range(const Linear& e) const {
  int64_t low = e.constant, high = e.constant;
  for (auto [a, coef] : e.terms) {
    int64_t at_low = coef * atom(a).low, at_high = coef * atom(a).high;
    low += std::min(at_low, at_high);
    high += std::max(at_low, at_high);
  }
  return {low, high};
}

namespace {

// e as (part divisible by `by`) + rest, both with everything kept.
std::pair<Linear, Linear> split(const Linear& e, int64_t by) {
  Linear divisible, rest;
  for (auto t : e.terms) (t.second % by == 0 ? divisible : rest).terms.push_back(t);
  int64_t low = ((e.constant % by) + by) % by;
  rest.constant = low;
  divisible.constant = e.constant - low;
  return {divisible, rest};
}

Linear divided(Linear e, int64_t by) {
  e.constant /= by;
  for (auto& t : e.terms) t.second /= by;
  return e;
}

const std::pair<int, int64_t>* find_term(const Linear& e, int atom) {
  for (const auto& t : e.terms) {
    if (t.first == atom) return &t;
  }
  return nullptr;
}

}  // namespace

Linear IndexMath::quotient(const Linear& of, int64_t by) {
  if (by == 1) return of;
  auto [divisible, rest] = split(of, by);
  auto [low, high] = range(rest);
  if (low >= 0 && high < by) return divided(divisible, by);
  if (low < 0) {  // the parts would round differently
    rest = of;
    divisible = {};
  }
  // A common factor of all terms shortens the division.
  int64_t common = by;
  for (auto t : rest.terms) common = std::gcd(common, t.second);
  Linear inner = rest;
  int64_t divisor = by;
  if (common > 1) {
    inner.constant = rest.constant / common;  // floor: what is lost is below one unit
    for (auto& t : inner.terms) t.second /= common;
    divisor = by / common;
    if (divisor == 1) return sum(divided(divisible, by), inner);
  }
  if (inner.constant == 0 && inner.terms.size() == 1 && inner.terms[0].second == 1) {
    const Atom& a = atom(inner.terms[0].first);
    if (a.kind == Atom::Kind::quotient) {  // (x / a) / b
      return sum(divided(divisible, by), quotient(a.of, a.by * divisor));
    }
    if (a.kind == Atom::Kind::remainder && a.by % divisor == 0) {  // (x % ab) / a
      Atom copy = a;
      return sum(divided(divisible, by), remainder(quotient(copy.of, divisor), copy.by / divisor));
    }
  }
  auto [inner_low, inner_high] = range(inner);
  int q = intern({.kind = Atom::Kind::quotient,
                  .of = inner,
                  .by = divisor,
                  .low = inner_low / divisor,
                  .high = inner_high / divisor});
  return sum(divided(divisible, by), term(q));
}

Linear IndexMath::remainder(const Linear& of, int64_t by) {
  if (by == 1) return {};
  Linear rest = split(of, by).second;
  auto [low, high] = range(rest);
  if (low >= 0 && high < by) return rest;
  if (low < 0) rest = of;
  if (rest.constant == 0 && rest.terms.size() == 1) {
    auto [a, coef] = rest.terms[0];
    if (coef > 1 && by % coef == 0) {  // (c x) % (c b) = c (x % b)
      return remainder(term(a), by / coef) * coef;
    }
    if (coef == 1 && atom(a).kind == Atom::Kind::remainder && atom(a).by % by == 0) {
      Linear inner = atom(a).of;
      return remainder(inner, by);
    }
  }
  int r = intern({.kind = Atom::Kind::remainder,
                  .of = rest,
                  .by = by,
                  .low = 0,
                  .high = std::min(by - 1, std::max<int64_t>(range(rest).second, 0))});
  return term(r);
}

Linear IndexMath::sum(const Linear& a, const Linear& b) {
  return joined(a + b);
}

// c * (x % m) + c m * (x / m) = c x, and with a higher digit c * (x % (m n)).
Linear IndexMath::joined(Linear e) {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [a, coef] : e.terms) {
      if (atom(a).kind != Atom::Kind::remainder) continue;
      Atom low = atom(a);
      Linear above = quotient(low.of, low.by);
      if (above.constant != 0 || above.terms.size() != 1 || above.terms[0].second != 1) continue;
      int high = above.terms[0].first;
      Linear joint;
      if (auto* t = find_term(e, high); t && t->second == coef * low.by) {
        joint = low.of * coef;
        e = e + term(high, -t->second);
      } else {
        for (auto [h, high_coef] : e.terms) {
          if (high_coef != coef * low.by || atom(h).kind != Atom::Kind::remainder) continue;
          if (!(atom(h).of == above)) continue;
          int64_t by = low.by * atom(h).by;
          e = e + term(h, -high_coef);
          joint = remainder(low.of, by) * coef;
          break;
        }
        if (joint == Linear()) continue;
      }
      e = e + term(a, -coef) + joint;
      changed = true;
      break;
    }
  }
  return e;
}

Linear IndexMath::substitute(const IndexExpr& e, std::span<const Linear> at,
                             const std::function<Linear(int, int64_t)>& read) {
  auto affine = [&](const Linear& l) {
    Linear result = whole(l.constant);
    for (auto [k, coef] : l.terms) result = sum(result, at[static_cast<size_t>(k)] * coef);
    return result;
  };
  Linear result = affine(e.affine);
  for (const Digit& d : e.digits) {
    Linear digit = quotient(affine(d.of), d.div);
    if (d.mod) digit = remainder(digit, d.mod);
    result = sum(result, digit * d.coef);
  }
  if (e.read >= 0) result = sum(result, read(e.read, e.wrap));
  return result;
}

void IndexMath::visit(const Linear& e, const std::function<void(int)>& see) const {
  for (auto [a, coef] : e.terms) {
    const Atom& at = atom(a);
    if (at.kind == Atom::Kind::quotient || at.kind == Atom::Kind::remainder) {
      visit(at.of, see);
    } else {
      see(a);
    }
  }
}

std::optional<int64_t> IndexMath::stride(const Linear& e, int iterator) const {
  int64_t coef = 0;
  for (auto [a, c] : e.terms) {
    if (a == iterator) {
      coef = c;
      continue;
    }
    bool uses = false;
    visit(term(a), [&](int seen) { uses |= seen == iterator; });
    if (uses) return std::nullopt;
  }
  return coef;
}

std::string IndexMath::text(const Linear& e, const std::function<std::string(int)>& name) const {
  std::string out;
  for (auto [a, coef] : e.terms) {
    const Atom& at = atom(a);
    std::string s;
    if (at.kind == Atom::Kind::quotient) {
      s = str("(", text(at.of, name), ") / ", at.by);
    } else if (at.kind == Atom::Kind::remainder) {
      s = str("(", text(at.of, name), ") % ", at.by);
    } else {
      s = name(a);
    }
    bool digit = at.kind == Atom::Kind::quotient || at.kind == Atom::Kind::remainder;
    if (digit) s = "(" + s + ")";
    if (coef != 1) s = str(coef, " * ", s);
    out += (out.empty() ? "" : " + ") + s;
  }
  if (e.constant != 0 || out.empty()) out += str(out.empty() ? "" : " + ", e.constant);
  return out;
}

}  // namespace emend
