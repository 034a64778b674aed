#include "kernels/cpu/strassen.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "kernels/cpu/sum_bound.h"

namespace emend {

const std::array<StrassenProduct, kStrassenProducts>& strassen_products() {
  // clang-format off
  static const std::array<StrassenProduct, kStrassenProducts> kProducts = {{
      {{{0, 0}, {1, 1}, +1}, {+1, 0, 0, +1}, {{0, 0}, {1, 1}, +1}},
      {{{1, 0}, {1, 1}, +1}, {+1, 0, 0,  0}, {{1, 0}, {1, 1}, -1}},
      {{{0, 0}, {0, 0},  0}, {0, +1, 0, -1}, {{0, 1}, {1, 1}, +1}},
      {{{1, 1}, {1, 1},  0}, {-1, 0, +1, 0}, {{0, 0}, {1, 0}, +1}},
      {{{0, 0}, {0, 1}, +1}, {0, 0, 0,  +1}, {{0, 1}, {0, 0}, -1}},
      {{{1, 0}, {0, 0}, -1}, {+1, +1, 0, 0}, {{1, 1}, {1, 1},  0}},
      {{{0, 1}, {1, 1}, -1}, {0, 0, +1, +1}, {{0, 0}, {0, 0},  0}},
  }};
  // clang-format on
  return kProducts;
}

namespace {

bool takes_part(const QuarterPair& p, Quarter q) {
  return p.first == q || (p.sign != 0 && p.second == q);
}

}  // namespace

const std::array<std::array<int, 4>, kStrassenPanels>& strassen_panels() {
  static const auto kPanels = [] {
    std::array<std::array<int, 4>, kStrassenPanels> all{};
    for (size_t p = 0; p < kStrassenProducts; ++p) all[p] = strassen_products()[p].weights;
    all[kStrassenProducts] = {0, 1, 0, 0};
    all[kStrassenProducts + 1] = {0, 0, 1, 0};
    return all;
  }();
  return kPanels;
}

int strassen_panel_of(int k, int column) {
  std::array<int, 4> wanted{};
  wanted[static_cast<size_t>(2 * k + column)] = 1;
  auto found = std::ranges::find(strassen_panels(), wanted);
  return static_cast<int>(found - strassen_panels().begin());
}

// Per quarter of the result, the squares of the sums of rows that products add to it: a sum of two
// has at most twice the squares of both.
double strassen_amplification() {
  double most = 0;
  for (Quarter y : {Quarter{0, 0}, Quarter{0, 1}, Quarter{1, 0}, Quarter{1, 1}}) {
    std::array<double, 4> squares{};
    for (const StrassenProduct& p : strassen_products()) {
      if (!takes_part(p.results, y)) continue;
      double times = p.rows.sign ? 2 : 1;
      squares[static_cast<size_t>(2 * p.rows.first.row + p.rows.first.column)] += times;
      if (p.rows.sign)
        squares[static_cast<size_t>(2 * p.rows.second.row + p.rows.second.column)] += times;
    }
    most = std::max(most, *std::ranges::max_element(squares));
  }
  return std::sqrt(most);
}

double strassen_least_bound() {
  constexpr double kMean = 0.64;  // of a magnitude, by the root of the mean square
  return least_bound(std::sqrt(2.0) / kMean, strassen_amplification());
}

// As Winograd's: in the mean square of independent elements, for the quarter of the result that
// the largest products go into, times the root of the sum's length. Sums have half the length, and
// errors of sums grow faster than they do.
double strassen_error(int64_t depth) {
  double most = 0;
  for (Quarter y : {Quarter{0, 0}, Quarter{0, 1}, Quarter{1, 0}, Quarter{1, 1}}) {
    double squares = 0;
    for (const StrassenProduct& p : strassen_products()) {
      if (!takes_part(p.results, y)) continue;
      double rows = p.rows.sign ? 2 : 1, weights = 0;
      for (int f : p.weights) weights += f * f;
      squares += rows * weights;
    }
    most = std::max(most, squares);
  }
  return std::sqrt(most / 4 * static_cast<double>(depth)) * 0x1p-25;
}

// Of an odd number of k's the second half is one shorter: it ends with a zero.
std::string print_strassen(int64_t depth, int64_t row_of_results, int64_t width) {
  const int64_t half = (depth + 1) / 2, both = depth - half;
  std::string text =
      "struct ENTRY_product { int row, at, other_row, other_at, sign, to, other_to, sign_to, "
      "panel; };\n"
      "static const struct ENTRY_product ENTRY_products[] = {\n";
  auto add = [&](const QuarterPair& s, const QuarterPair& y, int panel) {
    auto to = [&](Quarter q) { return q.row * row_of_results + q.column * width; };
    text += str("{", s.first.row, ", ", s.first.column * half, ", ", s.second.row, ", ",
                s.second.column * half, ", ", s.sign, ", ", to(y.first), ", ", to(y.second), ", ",
                y.sign, ", ", panel, "},\n");
  };
  int panel = 0;
  for (const StrassenProduct& p : strassen_products()) add(p.rows, p.results, panel++);
  for (int k : {0, 1}) {
    for (int column : {0, 1}) {
      for (int row : {0, 1}) {
        Quarter from{row, k}, to{row, column};
        add({from, from, 0}, {to, to, 0}, strassen_panel_of(k, column));
      }
    }
  }
  auto loop = [&](const char* sign) {
    return str("for (int64_t k = 0; k < ", both, "; ++k) to[k] = a[k] ", sign, " b[k];\n");
  };
  text += str("};\nstatic void ENTRY_add(const float* const* rows, struct ENTRY_product q, ",
              "float* restrict to) {\nconst float* const a = rows[q.row] + q.at;\n",
              "const float* const b = rows[q.other_row] + q.other_at;\n",
              "if (q.sign == 0) memcpy(to, a, sizeof(float) * ", both, ");\nelse if (q.sign > 0) ",
              loop("+"), "else ", loop("-"));
  if (half > both) {
    text += str("to[", both, "] = (q.at ? 0 : a[", both,
                "]) + (q.sign && !q.other_at ? q.sign * b[", both, "] : 0);\n");
  }
  return text + "}\n";
}

}  // namespace emend
