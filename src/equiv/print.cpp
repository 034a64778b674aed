#include "equiv/print.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"

namespace emend {

Print print_of(const Value& v) {
  constexpr int64_t kSamples = 24, kBlocks = 32;
  Print p;
  if (!v.is_tensor() || v.tensor.dtype() == DType::string || is_complex(v.tensor.dtype())) return p;
  const int64_t n = v.tensor.count();
  p.seen = true;
  for (int64_t k = 0; k < kSamples && n > 0; ++k) {
    auto at =
        static_cast<int64_t>(hash_mix(17, static_cast<uint64_t>(k)) % static_cast<uint64_t>(n));
    double x = v.tensor.real(at);
    p.samples.push_back(x);
    if (std::isfinite(x)) p.largest = std::max(p.largest, std::abs(x));
  }
  const int64_t blocks = std::min(n, kBlocks);
  p.sums.assign(static_cast<size_t>(blocks), 0);
  p.sizes.assign(static_cast<size_t>(blocks), 0);
  for (int64_t i = 0; i < n; ++i) {
    double x = v.tensor.real(i);
    if (!std::isfinite(x)) continue;
    auto block = static_cast<size_t>(i % blocks);
    p.sums[block] += hash_mix(19, static_cast<uint64_t>(i)) & 1 ? x : -x;
    p.sizes[block] += std::abs(x);
  }
  return p;
}

bool alike(const Print& a, const Print& b, double within) {
  if (!a.seen || !b.seen || a.samples.size() != b.samples.size()) return false;
  for (size_t i = 0; i < a.samples.size(); ++i) {
    double x = a.samples[i], y = b.samples[i];
    bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= within * a.largest;
    if (!same) return false;
  }
  for (size_t i = 0; i < a.sums.size(); ++i)
    if (!(std::abs(a.sums[i] - b.sums[i]) <= within * a.sizes[i])) return false;
  return true;
}

}  // namespace emend
