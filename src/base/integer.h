// Arithmetic on integers that may be negative, and steps through boxes of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace emend {

// Rounded down, and up; b > 0.
constexpr int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return floor_div(a + b - 1, b);
}

// The next point of low <= point < high, the last dimension first; false after the last one, at
// which it begins again.
inline bool next_point(int64_t* point, std::span<const int64_t> low,
                       std::span<const int64_t> high) {
  for (size_t k = low.size(); k-- > 0;) {
    if (++point[k] < high[k]) return true;
    point[k] = low[k];
  }
  return false;
}

// Of 0 <= point < extents.
inline bool next_point(int64_t* point, std::span<const int64_t> extents) {
  for (size_t k = extents.size(); k-- > 0;) {
    if (++point[k] < extents[k]) return true;
    point[k] = 0;
  }
  return false;
}

}  // namespace emend
