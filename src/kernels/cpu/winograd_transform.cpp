#include "kernels/cpu/winograd_transform.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace emend {

Rational::Rational(int64_t n, int64_t d) : num(n), den(d) {
  EMEND_ASSERT(d != 0);
  int64_t common = std::gcd(n, d) * (d < 0 ? -1 : 1);
  num /= common;
  den /= common;
}
Rational operator+(Rational a, Rational b) {
  return {a.num * b.den + b.num * a.den, a.den * b.den};
}
Rational operator-(Rational a, Rational b) {
  return {a.num * b.den - b.num * a.den, a.den * b.den};
}
Rational operator*(Rational a, Rational b) {
  return {a.num * b.num, a.den * b.den};
}
Rational operator/(Rational a, Rational b) {
  return {a.num * b.den, a.den * b.num};
}

std::vector<Rational> winograd_points(int64_t n) {
  switch (n) {
    case 4:
      return {0, 1, -1};
    case 6:
      return {0, {3, 4}, {-3, 4}, {3, 2}, {-3, 2}};
    case 7:
      return {{1, 4}, {-1, 4}, {7, 8}, {-7, 8}, {7, 4}, {-7, 4}};
    case 8:
      return {0, 1, -1, 2, -2, {1, 2}, {-1, 2}};
    default:
      throw InternalError(str("no points for ", n, " multiplications"));
  }
}

namespace {

// The product of (x - p) over all points but one, lowest power first.
std::vector<Rational> monic(const std::vector<Rational>& points, size_t without) {
  std::vector<Rational> coefs = {1};
  for (size_t l = 0; l < points.size(); ++l) {
    if (l == without) continue;
    std::vector<Rational> next(coefs.size() + 1);
    for (size_t k = 0; k < coefs.size(); ++k) {
      next[k + 1] = next[k + 1] + coefs[k];
      next[k] = next[k] - coefs[k] * points[l];
    }
    coefs = std::move(next);
  }
  return coefs;
}

std::vector<Rational> powers(Rational p, int64_t count) {
  std::vector<Rational> all = {1};
  while (static_cast<int64_t>(all.size()) < count) all.push_back(all.back() * p);
  return all;
}

}  // namespace

WinogradMatrices winograd_matrices(int64_t m, int64_t r, const std::vector<Rational>& points) {
  auto n = static_cast<size_t>(m + r - 1);
  EMEND_ASSERT(points.size() + 1 == n);
  WinogradMatrices w;
  w.a.assign(static_cast<size_t>(m), std::vector<Rational>(n));
  for (size_t j = 0; j + 1 < n; ++j) {
    Rational scale = 1;
    for (size_t l = 0; l + 1 < n; ++l) {
      if (l != j) scale = scale * (points[j] - points[l]);
    }
    auto column = powers(points[j], m);
    for (size_t i = 0; i < column.size(); ++i) w.a[i][j] = column[i];
    w.g.push_back(powers(points[j], r));
    for (Rational& x : w.g.back()) x = x / scale;
    w.b.push_back(monic(points, j));
    w.b.back().resize(n);
  }
  w.a.back()[n - 1] = 1;
  w.g.emplace_back(static_cast<size_t>(r));
  w.g.back().back() = 1;
  w.b.push_back(monic(points, n));
  return w;
}

namespace {

double squares(const std::vector<Rational>& row) {
  double sum = 0;
  for (const Rational& x : row) sum += x.value() * x.value();
  return sum;
}

}  // namespace

double amplification(const WinogradMatrices& w) {
  double most = 0;
  for (const auto& row : w.a) {
    double sum = 0;
    for (size_t j = 0; j < row.size(); ++j)
      sum += row[j].value() * row[j].value() * squares(w.g[j]) * squares(w.b[j]);
    most = std::max(most, sum);
  }
  return std::sqrt(most / static_cast<double>(w.g[0].size()));
}

double weight_norm(const WinogradMatrices& w, size_t point) {
  return std::sqrt(squares(w.g[point]));
}

namespace {

// The largest eigenvalue of B' diag(d) B, from its powers: the root of the trace of a power of a
// matrix without negative eigenvalues is never below it.
double largest_eigenvalue(const RationalMatrix& b, const std::vector<double>& d) {
  const size_t n = b.size();
  std::vector<double> m(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t p = 0; p < n; ++p) m[i * n + j] += b[p][i].value() * d[p] * b[p][j].value();
    }
  }
  constexpr int kSquarings = 6;
  double logarithm = 0, power = 1;
  for (int round = 0; round <= kSquarings; ++round) {
    double trace = 0;
    for (size_t i = 0; i < n; ++i) trace += m[i * n + i];
    if (trace == 0) return 0;
    logarithm += std::log(trace) / power;
    for (double& x : m) x /= trace;
    if (round == kSquarings) break;
    std::vector<double> square(n * n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < n; ++k) {
        for (size_t j = 0; j < n; ++j) square[i * n + j] += m[i * n + k] * m[k * n + j];
      }
    }
    m = std::move(square);
    power *= 2;
  }
  return std::exp(logarithm);
}

}  // namespace

double worst_amplification(const WinogradMatrices& w) {
  double most = 0;
  for (const auto& row : w.a) {
    std::vector<double> factors;
    for (size_t j = 0; j < row.size(); ++j)
      factors.push_back(row[j].value() * row[j].value() * squares(w.g[j]));
    most = std::max(most, largest_eigenvalue(w.b, factors));
  }
  return std::sqrt(most);
}

namespace {

std::string c_float(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  std::string s = text;
  if (s.find_first_of(".e") == std::string::npos) s += ".";
  return s + "f";
}

// A sum of names with factors; "" if there is none.
std::string sum_text(const std::vector<Rational>& factors, const std::vector<std::string>& in) {
  std::string text;
  // A term without a factor first: then every other one is a multiplication and addition at once.
  for (bool plain : {true, false}) {
    for (size_t k = 0; k < factors.size(); ++k) {
      const Rational& f = factors[k];
      bool one = f.den == 1 && (f.num == 1 || f.num == -1);
      if (f.num == 0 || one != plain) continue;
      bool minus = f.num < 0;
      text += text.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
      text += one ? in[k] : str(c_float((minus ? Rational(0) - f : f).value()), " * ", in[k]);
    }
  }
  return text;
}

// Two rows as the sum and the difference of a pair that has no column in common.
struct EvenOdd {
  std::vector<Rational> even, odd;
};
std::optional<EvenOdd> split(const std::vector<Rational>& x, const std::vector<Rational>& y) {
  EvenOdd s;
  for (size_t k = 0; k < x.size(); ++k) {
    s.even.push_back((x[k] + y[k]) / 2);
    s.odd.push_back((x[k] - y[k]) / 2);
    if (s.even.back().num != 0 && s.odd.back().num != 0) return std::nullopt;
  }
  return s;
}

int64_t terms(const std::vector<Rational>& row) {
  return std::ranges::count_if(row, [](const Rational& r) { return r.num != 0; });
}

// If that is less work than one after the other.
std::optional<EvenOdd> shared(const std::vector<Rational>& x, const std::vector<Rational>& y) {
  auto pair = split(x, y);
  bool less = pair && terms(pair->even) + terms(pair->odd) + 2 < terms(x) + terms(y);
  return less ? pair : std::nullopt;
}

RationalMatrix transposed(const RationalMatrix& m) {
  RationalMatrix t(m[0].size(), std::vector<Rational>(m.size()));
  for (size_t i = 0; i < m.size(); ++i) {
    for (size_t j = 0; j < m[i].size(); ++j) t[j][i] = m[i][j];
  }
  return t;
}

class ProductPrinter {
 public:
  std::string print(const RationalMatrix& matrix, std::vector<std::string> in,
                    const std::vector<std::string>& names) {
    RationalMatrix columns = transposed(matrix);
    share_columns(columns, in, names[0]);
    RationalMatrix rows = transposed(columns);
    for (size_t i = 0; i < rows.size(); ++i) {
      auto pair = i + 1 < rows.size() ? shared(rows[i], rows[i + 1]) : std::nullopt;
      if (!pair) {
        declare(names[i], sum_text(rows[i], in));
        continue;
      }
      std::string even = names[i] + "e", odd = names[i] + "o";
      declare(even, sum_text(pair->even, in));
      declare(odd, sum_text(pair->odd, in));
      declare(names[i], str(even, " + ", odd));
      declare(names[i + 1], str(even, " - ", odd));
      ++i;
    }
    return std::move(text_);
  }

 private:
  void declare(const std::string& name, const std::string& value) {
    text_ += str("const em_v ", name, " = ", value.empty() ? "(em_v){0}" : value, ";\n");
  }

  // Two columns that differ in signs only: their sum and difference are made once.
  void share_columns(RationalMatrix& columns, std::vector<std::string>& in,
                     const std::string& prefix) {
    for (size_t j = 0; j + 1 < columns.size(); ++j) {
      auto pair = split(columns[j], columns[j + 1]);
      if (!pair) continue;
      int64_t even = terms(pair->even), odd = terms(pair->odd);
      int64_t shared = even + (even > 0) + odd + (odd > 0);
      if (shared >= terms(columns[j]) + terms(columns[j + 1])) continue;
      std::string sum = str(prefix, "s", j), difference = str(prefix, "d", j);
      if (even > 0) declare(sum, str(in[j], " + ", in[j + 1]));
      if (odd > 0) declare(difference, str(in[j], " - ", in[j + 1]));
      in[j] = sum;
      in[j + 1] = difference;
      columns[j] = std::move(pair->even);
      columns[j + 1] = std::move(pair->odd);
      ++j;
    }
  }

  std::string text_;
};

}  // namespace

std::string product_text(const RationalMatrix& matrix, const std::vector<std::string>& in,
                         const std::vector<std::string>& names) {
  return ProductPrinter().print(matrix, in, names);
}

std::vector<std::vector<size_t>> rows_together(const RationalMatrix& matrix, int64_t most) {
  std::vector<std::vector<size_t>> all;
  // Rows of outputs see opposite points alike, or opposite, every other one.
  bool outputs = matrix.size() < matrix[0].size();
  for (size_t first = 0; first < (outputs ? 2 : matrix.size());) {
    std::vector<size_t> next = {first};
    if (outputs) {
      for (size_t i = first + 2; i < matrix.size(); i += 2) next.push_back(i);
      ++first;
    } else {
      bool pair = first + 1 < matrix.size() && shared(matrix[first], matrix[first + 1]);
      if (pair) next.push_back(first + 1);
      first += next.size();
    }
    if (!all.empty() && std::ssize(all.back()) + std::ssize(next) <= most)
      all.back().insert(all.back().end(), next.begin(), next.end());
    else
      all.push_back(std::move(next));
  }
  return all;
}

}  // namespace emend
