#include "ops/gemm.h"

#include <cstring>

// One text for every x86 generation: the loader picks the version that fits the machine.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define EMEND_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EMEND_CLONES
#endif

namespace emend {
namespace {

typedef float F16 __attribute__((vector_size(64), aligned(4)));
typedef double D8 __attribute__((vector_size(64), aligned(8)));

}  // namespace

EMEND_CLONES void gemm_panel(size_t k, const float* a, const float* b, float* c) {
  F16 sum[kRows][2] = {};
  for (size_t p = 0; p < k; ++p) {
    F16 b0, b1;
    std::memcpy(&b0, b + p * kPanel, 64);
    std::memcpy(&b1, b + p * kPanel + 16, 64);
    for (size_t i = 0; i < kRows; ++i) {
      sum[i][0] += a[i * k + p] * b0;
      sum[i][1] += a[i * k + p] * b1;
    }
  }
  for (size_t i = 0; i < kRows; ++i) std::memcpy(c + i * kPanel, sum[i], 128);
}

EMEND_CLONES void gemm_panel(size_t k, const double* a, const double* b, double* c) {
  for (size_t half = 0; half < kPanel; half += 16) {
    D8 sum[kRows][2] = {};
    for (size_t p = 0; p < k; ++p) {
      D8 b0, b1;
      std::memcpy(&b0, b + p * kPanel + half, 64);
      std::memcpy(&b1, b + p * kPanel + half + 8, 64);
      for (size_t i = 0; i < kRows; ++i) {
        sum[i][0] += a[i * k + p] * b0;
        sum[i][1] += a[i * k + p] * b1;
      }
    }
    for (size_t i = 0; i < kRows; ++i) std::memcpy(c + i * kPanel + half, sum[i], 128);
  }
}

}  // namespace emend
