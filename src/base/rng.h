// Counter-based random numbers: the value depends only on (seed, stream, counter), so results do
// not depend on evaluation order, tiling or recomputation (the law of state and randomness).
// Philox-4x32-10 (Salmon et al., SC'11), the generator the field agreed on.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace emend {

inline std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t counter) {
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

inline uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t counter) {
  auto r = philox(seed, stream, counter);
  return (uint64_t{r[1]} << 32) | r[0];
}

// In [0, 1), 53 bits.
inline double random_uniform(uint64_t seed, uint64_t stream, uint64_t counter) {
  return static_cast<double>(random_bits(seed, stream, counter) >> 11) * 0x1p-53;
}

// Standard normal by Box and Muller.
inline double random_normal(uint64_t seed, uint64_t stream, uint64_t counter) {
  auto r = philox(seed, stream, counter);
  double u = (static_cast<double>((uint64_t{r[1]} << 32 | r[0]) >> 11) + 1.0) * 0x1p-53;
  double v = static_cast<double>((uint64_t{r[3]} << 32 | r[2]) >> 11) * 0x1p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

// A sequential view of one stream, for tests and generators.
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  uint64_t bits() { return random_bits(seed_, stream_, counter_++); }
  double uniform() { return random_uniform(seed_, stream_, counter_++); }
  double normal() { return random_normal(seed_, stream_, counter_++); }
  // In [lo, hi], both included.
  int64_t between(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(bits() % static_cast<uint64_t>(hi - lo + 1));
  }
  template <class Items>
  const auto& pick(const Items& items) {
    return items[static_cast<size_t>(between(0, static_cast<int64_t>(items.size()) - 1))];
  }

 private:
  uint64_t seed_, stream_, counter_ = 0;
};

}  // namespace emend
