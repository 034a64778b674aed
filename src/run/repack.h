// Constants as kernels read them: the strided copies of ir/program.h, done at the speed of memory.
#pragma once

#include "ir/program.h"

namespace emend {

// To be raised with every change of what is written: verdicts about kernels count on it.
inline constexpr int kRepackingVersion = 2;

// Writes what `r` makes of `from` to `out`, which holds zeros; on several threads if it is large.
// What was read of a mapped file is dropped again.
void repack(const Tensor& from, const Repacking& r, std::byte* out);

// Writes the norms of what was packed behind it.
void write_norms(const ColumnNorms& norms, std::byte* packed);

}  // namespace emend
