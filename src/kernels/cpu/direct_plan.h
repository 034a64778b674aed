// How a direct convolution (direct.cpp) is cut into tiles and tasks, and what that takes.
#pragma once

#include <vector>

#include "ir/attrs.h"
#include "kernels/cpu/window.h"
#include "kernels/kernel.h"

namespace emend {

struct DirectConfig {
  int64_t columns = 8;  // of a tile
  int64_t vectors = 1;  // of a tile
  int64_t chunks = 1;   // of lanes; a task is a row of one chunk
  EMEND_FIELDS(columns, vectors, chunks)
};

constexpr int64_t kUnrolled = 4;  // channels of a broadcast input that are not worth a loop

// Chunks of a row go one after the other, so that a thread's rows are its own: it finds its inputs
// where it wrote them, and so will the next layer. Weights that the second-level cache does not
// hold are kept instead, those of a chunk while all its rows go by.
bool rows_first(const Window& w);

// Vectors of one block of lanes: full ones, then halves for what is left.
struct Piece {
  int64_t first = 0, width = 0;
};
std::vector<Piece> pieces(int64_t lanes, int64_t width);

double direct_seconds(const Window& w, const Graph& group, const DirectConfig& f,
                      const Target& target);

}  // namespace emend
