// What this machine can do at most: multiply-adds per second on registers, bytes per second read
// from memory, by `peak THREADS` threads at once, as one line of JSON.
//   cc -O3 -march=native -ffp-contract=fast -pthread peak.c -o peak
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / 4)
typedef float vec __attribute__((vector_size(BYTES)));

enum {
  kAccumulators = 12,  // enough chains to hide the latency, few enough for 16 registers
  kSteps = 400000,     // of them in a burst, which then fits between two interruptions
  kBursts = 100,
  kParts = 16,  // of the memory that is read; a burst reads one
  kSweeps = 4,
  kMostThreads = 1024,
};

static int threads;
static size_t part_bytes;  // of each thread
static pthread_barrier_t barrier;
static double starts[kMostThreads], ends[kMostThreads];
static double fma_seconds = 1e30, read_seconds = 1e30;
static volatile float opaque = 0.999f, sink;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void multiply_add(void) {
  vec a[kAccumulators], x, y;
  for (int l = 0; l < LANES; ++l) x[l] = opaque, y[l] = 1 - opaque;
  for (int i = 0; i < kAccumulators; ++i) a[i] = x + (float)i;
  for (long s = 0; s < kSteps; ++s)
    for (int i = 0; i < kAccumulators; ++i) a[i] = a[i] * x + y;
  for (int i = 1; i < kAccumulators; ++i) a[0] += a[i];
  sink = a[0][0];
}

static void read_part(const vec* data) {
  vec a[8] = {{0}};
  for (size_t i = 0; i + 8 <= part_bytes / BYTES; i += 8)
    for (size_t j = 0; j < 8; ++j) a[j] += data[i + j];
  for (int j = 1; j < 8; ++j) a[0] += a[j];
  sink = a[0][0];
}

// A burst of all threads: from the first that begins to the last that ends, since one that comes
// late would have the memory for itself.
static void burst(int thread, const vec* data, double* fastest) {
  pthread_barrier_wait(&barrier);
  starts[thread] = now();
  data ? read_part(data) : multiply_add();
  ends[thread] = now();
  pthread_barrier_wait(&barrier);
  if (thread != 0) return;
  double start = starts[0], end = ends[0];
  for (int t = 1; t < threads; ++t) {
    start = starts[t] < start ? starts[t] : start;
    end = ends[t] > end ? ends[t] : end;
  }
  if (end - start < *fastest) *fastest = end - start;
}

static void* work(void* number) {
  int thread = (int)(size_t)number;
  char* data = aligned_alloc(4096, part_bytes * kParts);
  if (!data) exit(1);
  memset(data, 0, part_bytes * kParts);
  for (int b = 0; b < kBursts; ++b) burst(thread, NULL, &fma_seconds);
  // When a part is read again, the others have driven it out of every cache.
  for (int p = 0; p < kParts * kSweeps; ++p)
    burst(thread, (const vec*)(data + part_bytes * (size_t)(p % kParts)), &read_seconds);
  free(data);
  return NULL;
}

int main(int argc, char** argv) {
  threads = argc > 1 ? atoi(argv[1]) : 1;
  if (threads < 1) threads = 1;
  if (threads > kMostThreads) threads = kMostThreads;
  size_t all = (size_t)512 << 20;
  part_bytes = all / kParts / (size_t)threads / 4096 * 4096;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  pthread_t others[kMostThreads];
  for (int t = 1; t < threads; ++t)
    if (pthread_create(&others[t], NULL, work, (void*)(size_t)t)) return 1;
  work(NULL);
  for (int t = 1; t < threads; ++t) pthread_join(others[t], NULL);
  double operations = 2.0 * LANES * kAccumulators * kSteps * threads;
  printf("{\"threads\": %d, \"vector_bytes\": %d, \"gflops\": %.4g, \"gbytes\": %.4g}\n", threads,
         BYTES, operations / fma_seconds * 1e-9,
         (double)part_bytes * threads / read_seconds * 1e-9);
  return 0;
}
