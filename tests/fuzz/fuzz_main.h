// What every fuzzer here shares. A harness includes this once and defines
//   std::vector<std::string> fuzz_corpus();          // well-formed inputs to start from
//   std::vector<FuzzKind> fuzz_kinds();              // ways to make bad ones of them
//   uint64_t fuzz_memory_limit(size_t input_size);   // bytes it may hold at once, its stated bound
//   bool fuzz_one(const std::string& input);         // was it accepted? throws on a finding
//
//   NAME --runs N --seconds T --seed S [--first K]   the corpus as it is, then the seeded
//   generator;
//                                                    run K depends on S and K alone
//   NAME --kind NAME ...                             inputs of this kind only
//   NAME FILE...                                     runs these inputs, for reproduction
// Built with clang and EMEND_LIBFUZZER it is libFuzzer's main instead, over the same fuzz_one.
//
// A finding is a crash, an exception out of fuzz_one, a run of over a second of processor time
// (four under the sanitizers, which slow programs down), or more memory than stated. The input is
// then in NAME.finding, and the line to repeat it on standard error. At the end it prints how many
// inputs there were of each kind, and how many of them were refused.
#pragma once

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/mutate_bytes.h"

struct FuzzKind {
  std::string name;
  std::function<std::string(emend::ByteMutator&, const std::vector<std::string>& corpus)> make;
};

std::vector<std::string> fuzz_corpus();
std::vector<FuzzKind> fuzz_kinds();
uint64_t fuzz_memory_limit(size_t input_size);
bool fuzz_one(const std::string& input);

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

#if defined(__SANITIZE_ADDRESS__)
constexpr double kMaxSeconds = 4;
#else
constexpr double kMaxSeconds = 1;
#endif

enum class Outcome { accepted, refused, finding };

// SIGPROF after so many seconds of this process, however busy the machine is; 0 for never.
inline void limit_processor(time_t seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

// One input under all limits.
inline Outcome run_one(const std::string& input) {
  current.input = &input;
  limit_processor(10);  // a mere excess over kMaxSeconds is told without dying
  const int64_t before = held;
  most_held = before;
  const std::clock_t start = std::clock();  // of this process: the machine may be busy
  std::string finding;
  bool accepted = false;
  try {
    accepted = fuzz_one(input);
  } catch (const std::exception& e) {
    finding = e.what();
  }
  const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const auto used = static_cast<uint64_t>(most_held - before);
  limit_processor(0);
  if (took > kMaxSeconds) finding = "took " + std::to_string(took) + " s";
  if (used > fuzz_memory_limit(input.size())) {
    finding =
        "held " + std::to_string(used) + " bytes for an input of " + std::to_string(input.size());
  }
  if (!finding.empty()) {
    std::fprintf(stderr, "%s", finding.c_str());
    report_finding();
  }
  current.input = nullptr;
  return !finding.empty() ? Outcome::finding : accepted ? Outcome::accepted : Outcome::refused;
}

struct Tally {
  uint64_t runs = 0, refused = 0;
  // False for a finding.
  bool add(Outcome o) {
    ++runs;
    if (o == Outcome::refused) ++refused;
    return o != Outcome::finding;
  }
};

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
// Undefined behaviour ends like everything else that breaks, so that its input is told.
__attribute__((used)) const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}
}

namespace emend::fuzz {

inline void watch() {
  for (const int signal : {SIGABRT, SIGPROF}) ::signal(signal, on_signal);
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
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGPROF}) ::signal(signal, on_signal);
}
}  // namespace emend::fuzz

#endif

int main(int argc, char** argv) {
  using namespace emend;
  fuzz::current.name = argv[0];
  fuzz::watch();
  uint64_t runs = 100'000, seconds = 600, seed = 1, first = 0;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--kind" && i + 1 < argc) {
      only = argv[++i];
      continue;
    }
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
      const std::string input(std::istreambuf_iterator<char>(in), {});
      if (fuzz::run_one(input) == fuzz::Outcome::finding) return 1;
      runs = 0;
    }
  }
  if (runs == 0) return 0;
  const std::vector<std::string> corpus = fuzz_corpus();
  std::vector<FuzzKind> kinds = fuzz_kinds();
  if (!only.empty()) std::erase_if(kinds, [&](const FuzzKind& k) { return k.name != only; });
  if (kinds.empty()) return std::fprintf(stderr, "no kind is called %s\n", only.c_str()), 2;
  std::vector<fuzz::Tally> tallies(kinds.size());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  fuzz::current.seed = seed;
  fuzz::Tally well_formed;
  for (size_t i = 0; first == 0 && i < corpus.size(); ++i) {
    if (!well_formed.add(fuzz::run_one(corpus[i]))) return 1;
  }
  uint64_t run = first;
  for (; run < first + runs && std::chrono::steady_clock::now() < end; ++run) {
    fuzz::current.run = run;
    ByteMutator random(seed, run);
    // The first kind is made as often as all others together.
    const size_t kind =
        random.below(2) || kinds.size() == 1 ? 0 : 1 + random.below(kinds.size() - 1);
    if (!tallies[kind].add(fuzz::run_one(kinds[kind].make(random, corpus)))) return 1;
  }
  const auto print = [](const std::string& name, const fuzz::Tally& t) {
    std::printf("%-20s %8llu runs %8llu refused\n", name.c_str(),
                static_cast<unsigned long long>(t.runs),
                static_cast<unsigned long long>(t.refused));
  };
  print("the corpus as it is", well_formed);
  for (size_t k = 0; k < kinds.size(); ++k) print(kinds[k].name, tallies[k]);
  std::printf("%llu runs, seed %llu: nothing found\n", static_cast<unsigned long long>(run - first),
              static_cast<unsigned long long>(seed));
}

#endif
