// What Winograd's kernel is for, and how it cuts the work: see winograd.cpp.
#pragma once

#include "kernels/cpu/contraction.h"
#include "kernels/kernel.h"

namespace emend {

struct WindowDim {
  int out = -1, tap = -1;  // iterators
};

// What is stored one after the other. Columns: as many channels as fill vectors, and nothing else
// is read along them.
enum class Stores : uint8_t { channels, columns, scattered };

// out[image, o, n] = sum over taps and channel of x[image, o + tap, channel] * w[n, channel, tap]
// where n, the maps, may be several iterators: phases of a transposed convolution are some.
struct Correlation {
  Contraction c;
  Side x, w;
  std::vector<WindowDim> window;
  std::vector<int> images;  // iterators of the output besides the window's and its channels
  int channel = -1;
  std::vector<int> maps;  // the last is the one that vectors are stored along
  int64_t channels = 1, outputs = 1;
  Stores stores = Stores::scattered;  // if outputs fill vectors
  const Nest& nest() const { return c.nest; }
  const NestValue& input() const { return c.load(x); }
  int64_t extent(int iterator) const { return c.nest.math.extent(iterator); }
};

std::optional<Correlation> correlation_in(const Result<Nest>& nest);

// With vectors of so many lanes.
Stores stores_of(const Correlation& r, int64_t width);

struct WinogradConfig {
  Dims products;        // n of F(n - r + 1, r), per dimension of the window
  int64_t rows = 14;    // tiles of a register block
  int64_t vectors = 2;  // of output channels of a register block: a panel
  int64_t blocks = 1;   // register blocks of tiles of one task
  int64_t pass = 1;     // panels of one pass
  int64_t splits = 1;   // tasks that share the passes of a block of tiles
  double bound = 1e-4;  // of errors, see sum_bound.h
  EMEND_FIELDS(products, rows, vectors, blocks, pass, splits, bound)
};

// What follows from a configuration.
struct WinogradSizes {
  Dims n, m, taps, tiles;                            // per dimension of the window
  int64_t points = 1, pixels = 1, tiles_in_all = 1;  // a tile's products and outputs
  int64_t plain = 1;                                 // taps in all: products of a plain sum
  int64_t width = 16, panel = 32;                    // lanes; output channels
  int64_t passes = 1, passes_of_task = 1, splits = 1;
  int64_t block = 14, blocks = 1;  // tiles of a task
  int64_t last_rows = 0;           // of the last register block, if there are fewer tiles for it
  int64_t lanes = 16;              // channels in whole vectors
  bool streams = false;            // inputs and outputs are more than caches hold
  int64_t v_row = 0, m_row = 0;    // elements from one tile to the next
  // Of a row of neighbouring tiles whose results are turned before they are stored; 0: they are
  // stored along channels.
  int64_t columns = 0;

  WinogradSizes(const Correlation& r, const WinogradConfig& f, const Target& target);
  // Points of one tile lie an odd number of lines apart.
  static int64_t plane(int64_t elements) { return (emend::blocks(elements, 16) | 1) * 16; }
  int64_t v_plane() const { return plane(block * v_row); }
  int64_t m_plane() const { return plane(block * m_row); }
  int64_t rows() const { return pixels / m.back(); }  // of a tile's outputs
  int64_t turned() const { return panel * rows() * columns; }
  int64_t planes() const { return points + plain; }  // of weights
  int64_t scratch() const {
    return points * (v_plane() + m_plane()) + v_plane() + turned();
  }  // elements
};

}  // namespace emend
