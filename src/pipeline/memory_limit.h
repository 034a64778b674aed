// A few bytes of a file can name tensors of any size. What a program needs at once is compared with
// what the machine has before any of it is allocated; too much is an Error that says both.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "ir/program.h"

namespace emend {

uint64_t machine_memory();  // bytes

// As the caller meets it: inputs and outputs together.
void require_memory(const Graph& g, uint64_t limit = machine_memory());
// As the reference runs it: besides, every value alone.
void require_memory_to_evaluate(const Graph& g, uint64_t limit = machine_memory());
// As it is compiled: inputs, outputs, weights as they are stored and the arena.
void require_memory(const Program& p, uint64_t limit = machine_memory());

}  // namespace emend
