// The one tight loop of the reference: c[i][j] += sum over k of a[i][k] * b[k][j] on packed panels.
// Real kernels are generated elsewhere; this one only keeps whole networks within seconds.
#pragma once

#include <cstddef>

namespace emend {

inline constexpr size_t kPanel = 32;  // columns of a packed panel of b
inline constexpr size_t kRows = 4;    // rows of a handled at once

// a: kRows rows of k elements, row-major. b: k rows of kPanel elements. c: kRows x kPanel.
void gemm_panel(size_t k, const float* a, const float* b, float* c);
void gemm_panel(size_t k, const double* a, const double* b, double* c);

// Any other kind of number.
template <class T>
void gemm_panel(size_t k, const T* a, const T* b, T* c) {
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t p = 0; p < k; ++p) {
      const T x = a[i * k + p];
      for (size_t j = 0; j < kPanel; ++j)
        c[i * kPanel + j] = c[i * kPanel + j] + x * b[p * kPanel + j];
    }
  }
}

}  // namespace emend
