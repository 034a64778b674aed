#include "ir/index_expr.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace emend {

Linear operator+(const Linear& a, const Linear& b) {
  Linear sum = a;
  sum.constant += b.constant;
  for (const auto& term : b.terms) {
    auto it = std::find_if(sum.terms.begin(), sum.terms.end(),
                           [&](const auto& t) { return t.first == term.first; });
    if (it == sum.terms.end()) {
      sum.terms.push_back(term);
    } else {
      it->second += term.second;
    }
  }
  std::erase_if(sum.terms, [](const auto& t) { return t.second == 0; });
  std::sort(sum.terms.begin(), sum.terms.end());
  return sum;
}

Linear operator*(const Linear& a, int64_t by) {
  if (by == 0) return {};
  Linear product = a;
  product.constant *= by;
  for (auto& [iterator, coef] : product.terms) coef *= by;
  return product;
}

IndexExpr operator+(const IndexExpr& a, const IndexExpr& b) {
  EMEND_ASSERT(a.read < 0 || b.read < 0);
  IndexExpr sum = a;
  sum.affine = a.affine + b.affine;
  sum.digits.insert(sum.digits.end(), b.digits.begin(), b.digits.end());
  if (b.read >= 0) {
    sum.read = b.read;
    sum.wrap = b.wrap;
  }
  return sum;
}

IndexExpr index_of(int iterator, int64_t coef, int64_t constant) {
  IndexExpr e;
  e.affine.constant = constant;
  if (coef != 0) e.affine.terms = {{iterator, coef}};
  return e;
}

IndexExpr index_constant(int64_t value) {
  IndexExpr e;
  e.affine.constant = value;
  return e;
}

IndexExpr index_from_read(int read, int64_t extent) {
  IndexExpr e;
  e.read = read;
  e.wrap = extent;
  return e;
}

namespace {

// (of / div) % mod as an expression, reduced to a linear form where that is exact: terms whose
// coefficient is a multiple of div * mod vanish, and if all that is left below div cannot carry,
// the division acts term by term.
IndexExpr digit(const Linear& of, int64_t div, int64_t mod, std::span<const int64_t> extents) {
  Linear high, low, rest;
  low.constant = of.constant % div;
  high.constant = of.constant / div;
  for (auto [iterator, coef] : of.terms) {
    if (mod && coef % (div * mod) == 0) continue;
    (coef % div == 0 ? high : low)
        .terms.emplace_back(iterator, coef % div == 0 ? coef / div : coef);
    rest.terms.emplace_back(iterator, coef);
  }
  rest.constant = of.constant;
  IndexExpr e;
  if (range(low, extents).second < div) {
    if (!mod || range(high, extents).second < mod) {
      e.affine = high;
    } else {
      e.digits = {{.coef = 1, .of = high, .div = 1, .mod = mod}};
    }
  } else {
    e.digits = {{.coef = 1, .of = rest, .div = div, .mod = mod}};
  }
  return e;
}

}  // namespace

std::vector<IndexExpr> reshape_index(std::span<const int64_t> from, std::span<const int64_t> to,
                                     int first_iterator) {
  Dims to_strides = row_major_strides(to), from_strides = row_major_strides(from);
  Dims extents(static_cast<size_t>(first_iterator), 1);
  extents.insert(extents.end(), to.begin(), to.end());
  Linear flat;
  for (size_t k = 0; k < to.size(); ++k) {
    if (to[k] != 1) flat.terms.emplace_back(first_iterator + static_cast<int>(k), to_strides[k]);
  }
  std::vector<IndexExpr> indices;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1 || count(to) == 0) {
      indices.push_back(index_constant(0));
    } else {
      bool outermost = from_strides[d] * from[d] >= count(from);
      indices.push_back(digit(flat, from_strides[d], outermost ? 0 : from[d], extents));
    }
  }
  return indices;
}

int64_t evaluate(const Linear& e, const int64_t* iterators) {
  int64_t v = e.constant;
  for (auto [iterator, coef] : e.terms) v += coef * iterators[iterator];
  return v;
}

int64_t evaluate(const IndexExpr& e, const int64_t* iterators, const int64_t* reads) {
  int64_t v = evaluate(e.affine, iterators);
  for (const Digit& d : e.digits) {
    int64_t digit = evaluate(d.of, iterators) / d.div;
    v += d.coef * (d.mod ? digit % d.mod : digit);
  }
  if (e.read >= 0) v += reads[e.read] + (reads[e.read] < 0 ? e.wrap : 0);
  return v;
}

std::pair<int64_t, int64_t> range(const Linear& e, std::span<const int64_t> extents) {
  std::pair<int64_t, int64_t> r{e.constant, e.constant};
  for (auto [iterator, coef] : e.terms) {
    int64_t reach = coef * std::max<int64_t>(extents[static_cast<size_t>(iterator)] - 1, 0);
    (reach < 0 ? r.first : r.second) += reach;
  }
  return r;
}

namespace {

std::string linear_text(const Linear& e) {
  std::string out;
  for (auto [iterator, coef] : e.terms) {
    if (!out.empty())
      out += coef < 0 ? " - " : " + ";
    else if (coef < 0)
      out += "-";
    if (coef != 1 && coef != -1) out += str(coef < 0 ? -coef : coef, "*");
    out += str("i", iterator);
  }
  if (e.constant || out.empty()) {
    if (!out.empty())
      out += e.constant < 0 ? " - " : " + ";
    else if (e.constant < 0)
      out += "-";
    out += str(e.constant < 0 ? -e.constant : e.constant);
  }
  return out;
}

}  // namespace

std::string to_text(const IndexExpr& e) {
  std::string out;
  if (!e.affine.terms.empty() || e.affine.constant || (e.digits.empty() && e.read < 0)) {
    out = linear_text(e.affine);
  }
  for (const Digit& d : e.digits) {
    if (!out.empty()) out += " + ";
    if (d.coef != 1) out += str(d.coef, "*");
    out += str("(", linear_text(d.of), ")");
    if (d.div != 1) out += str("/", d.div);
    if (d.mod) out += str("%", d.mod);
  }
  if (e.read >= 0) out += str(out.empty() ? "" : " + ", "r", e.read);
  return out;
}

}  // namespace emend
