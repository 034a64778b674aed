// NumPy's file format for one tensor (.npy, versions 1 to 3), so that values travel to and from
// Python. Types that NumPy lacks (bf16, 8-bit floats, 4-bit integers) are written as what holds
// them: bf16 as its bits in uint16, narrow floats and packed integers as float32 and int8.
#pragma once

#include <filesystem>

#include "ir/tensor.h"

namespace emend {

// Throw Error naming the file and the reason.
Tensor read_npy(const std::filesystem::path& path);
void write_npy(const Tensor& t, const std::filesystem::path& path);

}  // namespace emend
