// Cutting tensors along an axis and putting them together again, for host functions. Elements are
// moved as they are stored, whatever they mean: right in every arithmetic and for every dtype.
#pragma once

#include <span>
#include <vector>

#include "ir/tensor.h"

namespace emend {

// Do these sizes cut a dimension of that extent into parts, with nothing left?
bool cuts(const Dims& sizes, int64_t extent);

// Positions [begin, begin + size) of dimension `axis`. The caller has checked the bounds.
Tensor part_of(const Tensor& t, int64_t axis, int64_t begin, int64_t size);

// One position of dimension `axis`, which disappears.
Tensor slice_of(const Tensor& t, int64_t axis, int64_t position);

// One after the other along `axis`; throws Error when dtypes or other dimensions differ.
Tensor joined(std::span<const Tensor> parts, int64_t axis);

// Side by side along a new dimension `axis`.
Tensor stacked(std::span<const Tensor> parts, int64_t axis);

}  // namespace emend
