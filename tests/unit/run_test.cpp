// Compiled programs at work: a hundred thousand runs without an allocation, a lock or growth, and
// several threads at once.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "equiv/compare.h"
#include "ops/evaluate.h"
#include "pipeline/compile.h"
#include "support/scratch.h"
#include "text/text.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EMEND_COUNTS_CALLS 0  // sanitizers have these functions for themselves
#else
#define EMEND_COUNTS_CALLS 1
#endif

namespace {

std::atomic<long> g_allocations{0}, g_locks{0};

}  // namespace

#if EMEND_COUNTS_CALLS
// Whoever allocates or locks in this process comes by here.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) {
  ++g_allocations;
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t size) {
  ++g_allocations;
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t n) {
  ++g_allocations;
  return __libc_realloc(p, n);
}
void* aligned_alloc(size_t alignment, size_t n) {
  ++g_allocations;
  return __libc_memalign(alignment, n);
}
int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static const Lock next = reinterpret_cast<Lock>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++g_locks;
  return next(m);
}
}
#endif

namespace emend {
namespace {

constexpr int kManyRuns = EMEND_COUNTS_CALLS ? 100'000 : 2'000;

size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  size_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// A product with an epilogue, a row reduction and a value that lives in between.
Graph small_model() {
  return parse_graph(R"(graph(x: f32[16,32], w: f32[32,32], b: f32[32]) {
    return softmax(relu(add(matmul(x, w), b)))
  })");
}

CpuProgram compiled(const Graph& g, int threads, const Scratch& scratch) {
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  options.cpu.threads = threads;
  return compile(g, options);
}

// Inputs and outputs where run_into wants them.
struct Memory {
  std::vector<Value> values;
  std::vector<std::vector<std::byte>> results;
  std::vector<std::span<const std::byte>> inputs;
  std::vector<std::span<std::byte>> outputs;

  Memory(const Graph& g, uint64_t seed) : values(random_inputs(g, seed)) {
    for (const Value& v : values) inputs.push_back(v.tensor.bytes());
    for (const auto& o : g.outputs) {
      const Type& t = g.type(o.node);
      results.emplace_back(storage_bytes(t.dtype, static_cast<uint64_t>(count(t.shape))).value());
    }
    for (auto& r : results) outputs.push_back(r);
  }
};

TEST(Run, AHundredThousandTimesWithoutAllocationLockOrGrowth) {
  Graph g = small_model();
  Scratch scratch;
  for (int threads : {1, 2}) {
    CpuProgram program = compiled(g, threads, scratch);
    ASSERT_TRUE(program.is_plain());
    Memory m(g, 1);
    program.run_into(m.inputs, m.outputs);  // makes its buffers
    auto first = m.results;
    size_t before = resident_bytes();
    long allocations = g_allocations, locks = g_locks;
    // Threads that spin for one another take long where others want the machine too.
    for (int r = 0; r < kManyRuns / (threads * threads); ++r) program.run_into(m.inputs, m.outputs);
    EXPECT_EQ(g_allocations - allocations, 0) << threads << " threads";
    EXPECT_EQ(g_locks - locks, 0) << threads << " threads";
    // Sanitizers keep for a while what is freed.
    if (EMEND_COUNTS_CALLS) {
      EXPECT_LE(resident_bytes(), before + (64 << 10)) << threads << " threads";
    }
    EXPECT_EQ(m.results, first);
  }
#if EMEND_COUNTS_CALLS
  // The counters do count.
  long allocations = g_allocations;
  compiled(g, 1, scratch).run(random_inputs(g, 1));
  EXPECT_GT(g_allocations, allocations);
#endif
}

TEST(Run, SeveralThreadsShareOneProgram) {
  Graph g = small_model();
  Scratch scratch;
  CpuProgram program = compiled(g, 2, scratch);
  constexpr int kCallers = 4, kRuns = 100;
  std::vector<Memory> memory;
  std::vector<std::vector<Value>> expected;
  for (int c = 0; c < kCallers; ++c) {
    memory.emplace_back(g, static_cast<uint64_t>(c + 1));
    expected.push_back(program.run(memory.back().values));
    auto worst = worst_difference(g, evaluate(g, memory.back().values), expected.back());
    EXPECT_LT(worst.rel, 1e-6);
  }
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> callers;
    for (int c = 0; c < kCallers; ++c) {
      callers.emplace_back([&, c] {
        auto k = static_cast<size_t>(c);
        Memory& m = memory[k];
        for (int r = 0; r < kRuns; ++r) {
          std::memset(m.results[0].data(), 0xff, m.results[0].size());
          program.run_into(m.inputs, m.outputs);
          auto want = expected[k][0].tensor.bytes();
          wrong += !std::equal(want.begin(), want.end(), m.results[0].begin(), m.results[0].end());
          wrong += program.run(m.values) != expected[k];
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Run, MemoryOfTheWrongSizeIsRefused) {
  Graph g = small_model();
  Scratch scratch;
  CpuProgram program = compiled(g, 1, scratch);
  Memory m(g, 1);
  auto inputs = m.inputs;
  inputs[1] = inputs[1].first(8);
  EXPECT_THROW(program.run_into(inputs, m.outputs), Error);
  EXPECT_THROW(program.run_into(std::span(m.inputs).first(2), m.outputs), Error);
  auto outputs = m.outputs;
  outputs[0] = outputs[0].first(4);
  EXPECT_THROW(program.run_into(m.inputs, outputs), Error);
  program.run_into(m.inputs, m.outputs);
}

// A step of the host reads an input that only run_into's caller has.
TEST(Run, StepsOfTheHostReadTheCallersMemory) {
  Graph g = parse_graph(
      "graph(x: f32[8,16]) { return neg(bit_cast[to=i32](relu(x))), bit_cast[to=i32](x) }");
  Scratch scratch;
  CpuProgram program = compiled(g, 1, scratch);
  Memory m(g, 1);
  program.run_into(m.inputs, m.outputs);
  auto expected = evaluate(g, m.values);
  for (size_t k = 0; k < expected.size(); ++k) {
    auto want = expected[k].tensor.bytes();
    EXPECT_TRUE(std::equal(want.begin(), want.end(), m.results[k].begin(), m.results[k].end()));
  }
}

}  // namespace
}  // namespace emend
