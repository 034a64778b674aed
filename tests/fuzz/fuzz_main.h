// What every fuzzer here shares. A harness includes this once and defines
//   std::vector<std::string> fuzz_corpus();          // well-formed inputs to start from
//   uint64_t fuzz_memory_limit(size_t input_size);   // bytes it may hold at once, its stated bound
//   void fuzz_one(const std::string& input);         // returns, or crashes, or throws on a finding
//
//   NAME --runs N --seconds T --seed S [--first K]   the seeded generator; run K depends on S and K
//   NAME FILE...                                     runs these inputs, for reproduction
// Built with clang and EMEND_LIBFUZZER it is libFuzzer's main instead, over the same fuzz_one.
//
// A finding is a crash, an exception out of fuzz_one, a run of over a second, or more memory than
// stated. The input is then in NAME.finding, and the line to repeat it on standard error.
#pragma once

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/mutate_bytes.h"

std::vector<std::string> fuzz_corpus();
uint64_t fuzz_memory_limit(size_t input_size);
void fuzz_one(const std::string& input);

#ifdef EMEND_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_one(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

#else

namespace emend::fuzz {

// Bytes held, now and at most since the last reset.
inline std::atomic<int64_t> held = 0, most_held = 0;

inline void count_allocated(size_t size) {
  const int64_t now = held += static_cast<int64_t>(size);
  if (now > most_held) most_held = now;
}

inline void count_freed(size_t size) {
  held -= static_cast<int64_t>(size);
}

struct Current {
  std::string name;
  uint64_t seed = 0, run = 0;
  const std::string* input = nullptr;
};
inline Current current;

// Only what a signal handler may call: the process may be broken.
inline void report_finding() {
  static bool reported = false;
  if (reported || !current.input) return;
  reported = true;
  char line[200];
  const int n = std::snprintf(
      line, sizeof line, "\nfinding: repeat with --seed %llu --first %llu --runs 1\n",
      static_cast<unsigned long long>(current.seed), static_cast<unsigned long long>(current.run));
  if (::write(2, line, static_cast<size_t>(n)) < 0) return;
  const int fd = ::open((current.name + ".finding").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd >= 0 && ::write(fd, current.input->data(), current.input->size()) >= 0) ::close(fd);
}

inline void on_signal(int signal) {
  report_finding();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// One input under all limits; false for a finding.
inline bool run_one(const std::string& input) {
  current.input = &input;
  constexpr unsigned kHang = 60;  // seconds; a mere excess over one is told without dying
  ::alarm(kHang);
  const int64_t before = held;
  most_held = before;
  const std::clock_t start = std::clock();  // of this process: the machine may be busy
  std::string finding;
  try {
    fuzz_one(input);
  } catch (const std::exception& e) {
    finding = e.what();
  }
  const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const auto used = static_cast<uint64_t>(most_held - before);
  ::alarm(0);
  if (took > 1) finding = "took " + std::to_string(took) + " s";
  if (used > fuzz_memory_limit(input.size())) {
    finding =
        "held " + std::to_string(used) + " bytes for an input of " + std::to_string(input.size());
  }
  if (!finding.empty()) {
    std::fprintf(stderr, "%s", finding.c_str());
    report_finding();
  }
  current.input = nullptr;
  return finding.empty();
}

}  // namespace emend::fuzz

// Every allocation is counted, whichever way it is asked for. The sanitizers have hooks for that,
// and signals of their own to tell where something broke; elsewhere the program has a malloc of its
// own around glibc's.
#if defined(__SANITIZE_ADDRESS__)

extern "C" {
void __sanitizer_set_death_callback(void (*callback)());
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                              void (*on_free)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void*);
}

namespace emend::fuzz {

inline void watch() {
  for (const int signal : {SIGABRT, SIGALRM}) ::signal(signal, on_signal);
  __sanitizer_set_death_callback(report_finding);
  __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, size_t size) { count_allocated(size); },
      [](const volatile void* p) { count_freed(p ? __sanitizer_get_allocated_size(p) : 0); });
}

}  // namespace emend::fuzz

#else

extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* p, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* p);

static void* counted(void* p) {
  if (p) emend::fuzz::count_allocated(::malloc_usable_size(p));
  return p;
}

void* malloc(size_t size) noexcept {
  return counted(__libc_malloc(size));
}
void* calloc(size_t count, size_t size) noexcept {
  return counted(__libc_calloc(count, size));
}
void* realloc(void* p, size_t size) noexcept {
  const size_t before = p ? ::malloc_usable_size(p) : 0;
  void* const moved = __libc_realloc(p, size);
  if (moved || size == 0) emend::fuzz::count_freed(before);
  return counted(moved);
}
void* memalign(size_t alignment, size_t size) noexcept {
  return counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return memalign(alignment, size);
}
int posix_memalign(void** p, size_t alignment, size_t size) noexcept {
  *p = memalign(alignment, size);
  return *p ? 0 : ENOMEM;
}
void free(void* p) noexcept {
  if (!p) return;
  emend::fuzz::count_freed(::malloc_usable_size(p));
  __libc_free(p);
}

}  // extern "C"

namespace emend::fuzz {
inline void watch() {
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGALRM}) ::signal(signal, on_signal);
}
}  // namespace emend::fuzz

#endif

int main(int argc, char** argv) {
  using namespace emend;
  fuzz::current.name = argv[0];
  fuzz::watch();
  uint64_t runs = 100'000, seconds = 600, seed = 1, first = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    uint64_t* const option = arg == "--runs"      ? &runs
                             : arg == "--seconds" ? &seconds
                             : arg == "--seed"    ? &seed
                             : arg == "--first"   ? &first
                                                  : nullptr;
    if (option && i + 1 < argc) {
      *option = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::ifstream in(arg, std::ios::binary);
      if (!in) return std::fprintf(stderr, "cannot read %s\n", argv[i]), 2;
      if (!fuzz::run_one(std::string(std::istreambuf_iterator<char>(in), {}))) return 1;
      runs = 0;
    }
  }
  const std::vector<std::string> corpus = fuzz_corpus();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t run = first;
  for (; run < first + runs && std::chrono::steady_clock::now() < end; ++run) {
    fuzz::current.seed = seed;
    fuzz::current.run = run;
    if (!fuzz::run_one(ByteMutator(seed, run).mutate(corpus))) return 1;
  }
  std::printf("%llu runs from %zu inputs, seed %llu: nothing found\n",
              static_cast<unsigned long long>(run - first), corpus.size(),
              static_cast<unsigned long long>(seed));
}

#endif
