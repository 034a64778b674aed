// May a group write a result over one of its operands? Only if every element of the operand is read
// for the result's element that takes its place, and for no other: then whoever computes an element
// has read what it overwrites, in whatever order and on however many threads elements are computed.
#pragma once

#include "ir/graph.h"

namespace emend {

// `load` and `store` are an input and the output of the group as they lie in memory. For kernels
// that write an element of a store once, after all that it is made of: those printed from nests.
bool may_overwrite(const Graph& group, size_t load, size_t store);

}  // namespace emend
