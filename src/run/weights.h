// The weights of a program as its kernels read them. What is used as the model has it stays where
// it is, in the mapped file; what is repacked goes into memory of its own, and the original is let
// go as soon as it was read, so that a model is not in memory twice.
#pragma once

#include "ir/program.h"

namespace emend {

// The tensor, copied if its elements lie across the boundaries that compiled loads count on: files
// put bytes anywhere.
Tensor aligned(const Tensor& t);

// One tensor per weight; `weights` keep nothing of what was copied.
std::vector<Tensor> stored_weights(const Program& program, std::vector<Weight>& weights);

}  // namespace emend
