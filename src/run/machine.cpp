#include "run/machine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

namespace emend {
namespace {

using Clock = std::chrono::steady_clock;

// The best of some bursts: whatever else runs here can only make one slower.
template <class Burst>
double fastest_seconds(int bursts, const Burst& burst) {
  double best = 1e30;
  for (int b = 0; b < bursts; ++b) {
    auto start = Clock::now();
    burst();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

constexpr int kChains = 12;  // as many as hide the latency of a multiply-add
constexpr int kRounds = 20'000;

// One text for every width; the compiler is told the instructions per copy.
#define EMEND_MULTIPLY_ADD(name, bytes, instructions)                    \
  __attribute__((target(instructions), noinline)) float name(float by) { \
    typedef float Lanes __attribute__((vector_size(bytes)));             \
    Lanes sums[kChains], factor = Lanes{} + by;                          \
    for (Lanes & s : sums) s = Lanes{};                                  \
    for (int r = 0; r < kRounds; ++r) {                                  \
      _Pragma("GCC unroll 12") for (int c = 0; c < kChains; ++c) {       \
        sums[c] = sums[c] * factor + factor;                             \
      }                                                                  \
    }                                                                    \
    float all = 0;                                                       \
    for (const Lanes& s : sums) all += s[0];                             \
    return all;                                                          \
  }
#if defined(__x86_64__)
EMEND_MULTIPLY_ADD(multiply_add_512, 64, "avx512f,fma")
EMEND_MULTIPLY_ADD(multiply_add_256, 32, "avx2,fma")
EMEND_MULTIPLY_ADD(multiply_add_128, 16, "sse2")
#endif
#undef EMEND_MULTIPLY_ADD

double flops_of_a_thread() {
#if defined(__x86_64__)
  auto* burst = vector_bytes() == 64   ? multiply_add_512
                : vector_bytes() == 32 ? multiply_add_256
                                       : multiply_add_128;
  volatile float sink = 0;
  double seconds = fastest_seconds(8, [&] { sink = burst(0.5f); });
  return 2.0 * kChains * kRounds * vector_bytes() / 4 / seconds;
#else
  return 1e10;
#endif
}

double bytes_of_a_thread() {
  // More than a core's own caches hold, less than the shared one does.
  constexpr size_t kWords = size_t{4} << 17;
  std::vector<uint64_t> words(kWords, 1);
  volatile uint64_t sink = 0;
  double seconds = fastest_seconds(8, [&] {
    uint64_t sums[8] = {};
    for (size_t i = 0; i < kWords; i += 8) {
      for (size_t k = 0; k < 8; ++k) sums[k] += words[i + k];
    }
    sink = sums[0] + sums[7];
  });
  return static_cast<double>(kWords * sizeof(uint64_t)) / seconds;
}

double rounded(double rate) {
  return std::round(std::exp2(std::round(std::log2(rate) * 4) / 4));
}

}  // namespace

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line;
  }
  return "";
}

size_t shared_cache_bytes() {
  long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : size_t{32} << 20;
}

namespace {

int widest_register() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return 64;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 32;
#endif
  return 16;
}

}  // namespace

int vector_bytes() {
  const int widest = widest_register();
  const char* asked = std::getenv("EMEND_VECTOR_BYTES");
  const int bytes = asked ? std::atoi(asked) : 0;
  return bytes == 16 || bytes == 32 ? std::min(bytes, widest) : widest;
}

bool has_byte_dots() {
#if defined(__x86_64__)
  return vector_bytes() == 64 && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

bool has_bf16_dots() {
#if defined(__x86_64__)
  return vector_bytes() == 64 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

MachineRates measured_rates() {
  return {rounded(flops_of_a_thread()), rounded(bytes_of_a_thread())};
}

MachineRates machine_rates(const std::filesystem::path& folder) {
  static std::mutex lock;
  static std::map<std::filesystem::path, MachineRates> known;
  std::lock_guard guard(lock);
  auto [it, fresh] = known.try_emplace(folder);
  MachineRates& rates = it->second;
  if (!fresh) return rates;
  auto file = folder / str("machine-", hash_text(str(processor_name(), vector_bytes())));
  std::ifstream in(file);
  bool read = in >> rates.flops >> rates.bytes && std::isfinite(rates.flops + rates.bytes) &&
              rates.flops > 1e6 && rates.bytes > 1e6;
  if (read) return rates;
  rates = measured_rates();
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    AtomicFile out(file);
    out.write(str(static_cast<int64_t>(rates.flops), " ", static_cast<int64_t>(rates.bytes), "\n"));
    out.commit();
  } catch (const Error&) {
    // Where nothing can be kept, every process measures.
  }
  return rates;
}

}  // namespace emend
