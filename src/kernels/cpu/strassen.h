// One level of Strassen's products: a product of matrices cut into halves along rows, columns and
// k needs seven products of quarters instead of eight,
//
//   y[i][j] = sum over h of s[i][h] v[h][j]     i, j, h: 0 or 1
//
// each product being (a sum of quarters of s) times (a sum of quarters of v), added to quarters of
// y. Sums of v are made ahead of time. Which rows are the first half does not matter: every second
// one is as good as the upper ones.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace emend {

constexpr int kStrassenProducts = 7;

struct Quarter {
  int row = 0, column = 0;
  bool operator==(const Quarter&) const = default;
};

// One quarter, and a multiple (1, -1 or 0: none) of another.
struct QuarterPair {
  Quarter first, second;
  int sign = 0;
};

struct StrassenProduct {
  QuarterPair rows;            // of s: what is summed
  std::array<int, 4> weights;  // of v: factors of its quarters [k][column]
  QuarterPair results;         // of y: what the product is added to
};

const std::array<StrassenProduct, kStrassenProducts>& strassen_products();

// The quarters of v themselves, where sums of quarters lose too much (sum_bound.h): those that no
// product has stand behind the products' panels.
constexpr int kStrassenPanels = kStrassenProducts + 2;
// Factors of v's quarters, per panel.
const std::array<std::array<int, 4>, kStrassenPanels>& strassen_panels();

// The one that is a quarter of v.
int strassen_panel_of(int k, int column);

// What rounding the products makes of the norms of a pair of rows and of a panel's column.
double strassen_amplification();
// Of random signs, see sum_bound.h.
double strassen_least_bound();

// What is lost beyond a plain sum of so many products, relative to the largest result.
double strassen_error(int64_t depth);

// struct ENTRY_product, their table ENTRY_products, behind the seven the eight of plain sums, and
//   void ENTRY_add(const float* const* rows, struct ENTRY_product q, float* to):
// the sum of quarters of a pair of rows, of `depth` elements each. Results of a quarter begin after
// a row or after a register.
std::string print_strassen(int64_t depth, int64_t row_of_results, int64_t width);

}  // namespace emend
