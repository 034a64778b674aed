// A convolution whose outputs' channels lie side by side, seen as a window that slides over the
// columns of a row:
//
//   out[row, column, lane] = epilogue( sum over (window, tap, channel) of
//                                      x[row + window, column + tap, of(lane, channel)] *
//                                      w[lane, window, tap, channel] )
//
// Lanes are output channels: groups times the filters of one. Rows stand for every other iterator
// of the space (images, planes, rows of a plane), the window for every summed one that is neither
// tap nor channel. Where x is bounded (pads), taps are the ones bounded along columns and the
// windows those bounded along rows; taps and windows beyond the borders are left out, which changes
// no sum.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cpu/contraction.h"
#include "kernels/in_memory.h"

namespace emend {

struct Window {
  Contraction whole;
  Side weights;
  Nest nest;  // what is left: lanes are one iterator of the space, `sum` is only named
  int sum = -1;
  NestValue x, w;
  // Lane number l reads x at the channels of its group: group l / filters.
  int lane = -1, group = -1;
  int64_t groups = 1, filters = 1;
  int64_t group_stride = 0;  // of x
  std::vector<int> rows, window;
  int column = -1, tap = -1, channel = -1;  // -1: there is one only
  // Lanes that are neighbours read channels that are neighbours, `filters` of a group, and a vector
  // holds whole groups. Otherwise a vector of lanes reads one number.
  bool shuffled = false;

  int64_t extent(int iterator) const { return iterator < 0 ? 1 : nest.math.extent(iterator); }
  int64_t lanes() const { return groups * filters; }
  int64_t depth() const;  // products of one sum
  int64_t row_count() const;
  // How far x is from one to the next.
  int64_t x_stride(int iterator) const;
  // Whether a tap of a column is inside.
  bool inside(int64_t column, int64_t tap) const;
  // The share of all products that is inside.
  double share_inside() const;
  // Bounds of x that windows have along rows.
  std::vector<Bound> row_bounds() const;
};

// Nothing if the group is something else. Input `constant[i]` is known ahead of time; a vector has
// `width` lanes.
std::optional<Window> window_in(const GroupInMemory& group, const std::vector<bool>& constant,
                                int64_t width);

// From the weights to panels [blocks of lanes, window, tap, channel, lanes of a block].
Graph window_packing(const Window& window, const Graph& group, int64_t block);

}  // namespace emend
