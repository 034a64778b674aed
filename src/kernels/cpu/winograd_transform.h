// The matrices of Winograd's F(m, r): m outputs of a correlation with r taps from n = m + r - 1
// multiplications,
//
//   y = A ((G g) * (B d))     y[i] = sum over k of g[k] d[i + k]
//
// made from n - 1 points and infinity. Exact: rational numbers, rounded only when they are printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emend {

struct Rational {
  int64_t num = 0, den = 1;  // in lowest terms, den > 0
  Rational() = default;
  Rational(int64_t num, int64_t den = 1);
  double value() const { return static_cast<double>(num) / static_cast<double>(den); }
  bool operator==(const Rational&) const = default;
};
Rational operator+(Rational a, Rational b);
Rational operator-(Rational a, Rational b);
Rational operator*(Rational a, Rational b);
Rational operator/(Rational a, Rational b);

using RationalMatrix = std::vector<std::vector<Rational>>;  // rows

struct WinogradMatrices {
  RationalMatrix a, g, b;  // m x n, n x r, n x n
};

// The points that lose least, in pairs of opposites; n is 4, 6, 7 or 8.
std::vector<Rational> winograd_points(int64_t n);
WinogradMatrices winograd_matrices(int64_t m, int64_t r, const std::vector<Rational>& points);

// How much larger rounding errors of independent inputs come out than those of the plain sum.
double amplification(const WinogradMatrices& w);

// The most that rounding the products makes of the norms of inputs and of weights, where a point's
// weights are counted divided by what G can make of them (`weight_norm`): the root of
//   max over i of the largest eigenvalue of B' diag(a[i][j]^2 |g[j]|^2) B
double worst_amplification(const WinogradMatrices& w);
double weight_norm(const WinogradMatrices& w, size_t point);

// Statements that multiply a matrix with vectors that have names, one vector per column and row.
// Opposite points share their work: `names` of results are declared as constants of type em_v.
std::string product_text(const RationalMatrix& matrix, const std::vector<std::string>& in,
                         const std::vector<std::string>& names);

// The matrix's rows, those together that share work if they are multiplied at once; no more than
// `most` unless they share.
std::vector<std::vector<size_t>> rows_together(const RationalMatrix& matrix, int64_t most);

}  // namespace emend
