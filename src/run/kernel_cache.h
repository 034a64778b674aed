// The folder of compiled kernels, seen from outside: whether it may be used, what lies in it, and
// how it is emptied. Only files that carry names of ours are counted as ours or removed.
#pragma once

#include <cstdint>
#include <filesystem>

namespace emend {

// A folder, no link to one, that its owner alone (and that is us) can enter and write.
bool is_private_folder(const std::filesystem::path& folder);

struct FileUse {
  uint64_t count = 0, bytes = 0;
};

struct KernelCacheUse {
  FileUse kernels;    // libraries, with their sums
  FileUse verdicts;   // kernels that passed their check here
  FileUse leftovers;  // of processes that ended half way
  FileUse foreign;    // not ours
};

KernelCacheUse kernel_cache_use(const std::filesystem::path& folder);

// What others are making at the moment stays. Running programs do not notice.
KernelCacheUse clear_kernel_cache(const std::filesystem::path& folder);

}  // namespace emend
