// Hashing that is the same on every run and machine: ids and file names may be made from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace emend {

inline uint64_t hash_mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9E3779B97F4A7C15 + (h << 6) + (h >> 2);
  h *= 0xFF51AFD7ED558CCD;
  return h ^ (h >> 32);
}

inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t h = seed ^ (size * 0xC2B2AE3D27D4EB4F);
  for (; size >= 8; size -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = (h ^ word) * 0x9FB21C651E98DF25;
    h ^= h >> 29;
  }
  uint64_t tail = 0;
  if (size) std::memcpy(&tail, p, size);
  return hash_mix(h, tail);
}

inline uint64_t hash_text(std::string_view s, uint64_t seed = 0) {
  return hash_bytes(s.data(), s.size(), seed);
}

}  // namespace emend
