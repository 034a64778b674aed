#include <gtest/gtest.h>

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

}  // namespace
}  // namespace emend
