#include "ops/even_parts.h"

#include <cmath>

namespace emend {
namespace {

constexpr int64_t kMaxDivisor = int64_t{1} << 20;  // elements
constexpr size_t kMaxEvenParts = 256;

// Slice k of a dimension with this stride, and the one before it.
bool same_slices(const Tensor& t, int64_t stride, int64_t period, int64_t k) {
  for (int64_t base = 0; base < t.count(); base += period)
    for (int64_t i = base + k * stride; i < base + (k + 1) * stride; ++i)
      if (t.real(i) != t.real(i - stride)) return false;
  return true;
}

}  // namespace

Result<std::vector<EvenPart>> even_parts(const Tensor& t) {
  if (t.count() > kMaxDivisor) return fail("a division by many values");
  const Dims& shape = t.shape();
  const Dims strides = row_major_strides(shape);
  std::vector<EvenPart> parts = {{{}, {}, 0}};
  for (size_t d = 0; d < shape.size(); ++d) {
    Dims cuts = {0};
    for (int64_t k = 1; k < shape[d]; ++k) {
      if (!same_slices(t, strides[d], strides[d] * shape[d], k)) cuts.push_back(k);
    }
    cuts.push_back(shape[d]);
    if (parts.size() * cuts.size() > kMaxEvenParts) return fail("a division by many values");
    std::vector<EvenPart> next;
    for (const EvenPart& p : parts) {
      for (size_t k = 0; k + 1 < cuts.size(); ++k) {
        next.push_back(p);
        next.back().low.push_back(cuts[k]);
        next.back().high.push_back(cuts[k + 1]);
      }
    }
    parts = std::move(next);
  }
  for (EvenPart& p : parts) {
    int64_t flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) flat += p.low[d] * strides[d];
    p.value = t.real(flat);
    if (!std::isfinite(p.value) || p.value == 0) return fail("a division by zero");
  }
  return parts;
}

}  // namespace emend
