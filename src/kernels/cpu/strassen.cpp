#include "kernels/cpu/strassen.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

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
      "struct ENTRY_product { int row, at, other_row, other_at, sign, to, other_to, sign_to; };\n"
      "static const struct ENTRY_product ENTRY_products[] = {\n";
  for (const StrassenProduct& p : strassen_products()) {
    const QuarterPair &s = p.rows, &y = p.results;
    auto to = [&](Quarter q) { return q.row * row_of_results + q.column * width; };
    text += str("{", s.first.row, ", ", s.first.column * half, ", ", s.second.row, ", ",
                s.second.column * half, ", ", s.sign, ", ", to(y.first), ", ", to(y.second), ", ",
                y.sign, "},\n");
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
