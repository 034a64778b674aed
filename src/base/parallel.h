// parallel_for over index ranges. Work is cut by size only, so results do not depend on the number
// of threads as long as chunks are independent.
#pragma once

#include <cstdint>
#include <functional>

namespace emend {

// 0 means: as many as the machine has. Also set by EMEND_THREADS and --threads.
void set_thread_count(int n);
int thread_count();

// Calls body(begin, end) for disjoint chunks that cover [0, n), each of at least `grain` items.
// The first exception thrown by a chunk is rethrown here.
void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace emend
