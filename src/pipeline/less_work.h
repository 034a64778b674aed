// Whether one program is less work than another for whoever runs it. Prices are those of kernels,
// and kernels differ from runtime to runtime; but a program that has no more nodes, arithmetic,
// traffic or weights than another, and fewer of one of them, is no slower anywhere.
#pragma once

#include "ir/graph.h"

namespace emend {

bool is_less_work(const Graph& a, const Graph& than);

}  // namespace emend
