#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/cpu/winograd_transform.h"

namespace emend {
namespace {

// sum over j of A[i][j] G[j][k] B[j][t] is 1 where t = i + k, else 0: the transforms are the
// correlation, exactly.
TEST(Winograd, TransformsAreExact) {
  int checked = 0;
  for (int64_t n : {4, 6, 7, 8}) {
    for (int64_t r = 2; r < n; ++r) {
      int64_t m = n - r + 1;
      WinogradMatrices w = winograd_matrices(m, r, winograd_points(n));
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t k = 0; k < r; ++k) {
          for (int64_t t = 0; t < n; ++t) {
            Rational sum;
            for (int64_t j = 0; j < n; ++j) {
              auto at = [](const RationalMatrix& x, int64_t row, int64_t column) {
                return x[static_cast<size_t>(row)][static_cast<size_t>(column)];
              };
              sum = sum + at(w.a, i, j) * at(w.g, j, k) * at(w.b, j, t);
            }
            EXPECT_EQ(sum, Rational(t == i + k)) << "F(" << m << ", " << r << ")";
            ++checked;
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 500);
}

// Parts of a transform are all of it: every row once. Opposite points, which share work, stay
// together.
TEST(Winograd, RowsAreTakenTogether) {
  for (int64_t n : {4, 6, 7, 8}) {
    WinogradMatrices w = winograd_matrices(n - 2, 3, winograd_points(n));
    for (const RationalMatrix& m : {w.a, w.b}) {
      for (int64_t most : {0, 1, 3, 8}) {
        std::vector<size_t> rows;
        for (const auto& part : rows_together(m, most))
          rows.insert(rows.end(), part.begin(), part.end());
        std::ranges::sort(rows);
        std::vector<size_t> all(m.size());
        std::iota(all.begin(), all.end(), size_t{0});
        EXPECT_EQ(rows, all);
      }
    }
  }
  WinogradMatrices w = winograd_matrices(6, 3, winograd_points(8));
  using Parts = std::vector<std::vector<size_t>>;
  EXPECT_EQ(rows_together(w.b, 2), (Parts{{0}, {1, 2}, {3, 4}, {5, 6}, {7}}));
  EXPECT_EQ(rows_together(w.a, 2), (Parts{{0, 2, 4}, {1, 3, 5}}));
}

}  // namespace
}  // namespace emend
