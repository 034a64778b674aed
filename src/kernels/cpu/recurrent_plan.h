// What the recurrent kernel decides about its group, for its estimate and its printer alike.
#pragma once

#include <optional>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/recurrence.h"

namespace emend {

struct RecurrentConfig {
  int64_t vectors = 1;  // of units in a block, for every gate
  int64_t rows = 0;     // of a task, which has all units; 0: tasks are blocks of units, of all rows
  EMEND_FIELDS(vectors, rows)
};

// A recurrence in its group: constants that are matrices may be seen through views.
struct Cell {
  Recurrence r;
  NodeId loop;
  std::vector<NodeId> operands;  // of the loop
  std::vector<int> results;      // of the loop, which output of the group; -1: nobody wants it
};

std::optional<Cell> cell_in(const Graph& group);
// The group's input that an operand is, or is a view of; -1: it is a constant of one element.
int input_of(const Graph& group, NodeId n);

// How a matrix lies in blocks of units: [block][k][gate][unit] where products take all gates at
// once, [block][gate][k][unit] where they take some.
struct Panels {
  int64_t depth = 0, gates = 0, block = 0, blocks = 0;
  bool split = false;
  int64_t floats() const { return depth * gates * block; }  // of one block
};

Panels panels_of(const Recurrence& r, size_t matrix, int64_t block);
// Registers of one product's row of sums: those of all gates, or of one where gates lie apart.
int64_t sums_of_a_row(const Panels& p, int64_t width);

// Tiles of equal size, as nearly as that is possible: many rows first, because every pass over a
// panel is paid to the second-level cache.
struct TileShape {
  int64_t rows = 1, vectors = 1;
};
TileShape tile_of(int64_t rows, int64_t vectors, const Target& target);

KernelCode print_recurrent(const Graph& group, const Candidate& chosen, const Target& target);

}  // namespace emend
