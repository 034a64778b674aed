// A view: elements change place, and some places have none.
//   out[i, j, ..] = x[e0, e1, ..] where that is a position of x, 0 elsewhere
// Every output dimension is read as mixed-radix digits, the first the slowest, and may be cropped
// at its end; every e is a constant plus a sum of digits times coefficients. That covers reshapes,
// transposes, slices and zero borders, tiles with a halo, phases of a dilated or strided signal,
// and mosaics of images with gaps of zeros between them: every change of layout that PET knows.
//
// As text, which is the attribute of the operator `view`: the digits of all dimensions have the
// names a, b, .. in order, and ":7" crops a dimension.
//   [1, 512, 2*15, 2*15] <- [a, b, c+2d, e+2f]     the four phases of an image, side by side
//   [1, 3, 2*4:7] <- [a, b, 4c+d-1]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/index_expr.h"

namespace emend {

struct View {
  struct Dim {
    int64_t extent = 1;  // at least 1, at most the product of the radices
    Dims radices = {1};  // at least one, each at least 1
    bool operator==(const Dim&) const = default;
  };
  std::vector<Dim> out;
  std::vector<Linear> index;  // one per dimension of x, over the digits of all of `out`
  bool operator==(const View&) const = default;
};

std::string to_text(const View& v);
// Numbers come from files: what is accepted has bounded extents and reach (see `fault`).
Result<View> parse_view(std::string_view text);
// Why it is none: an extent that its digits do not reach, a digit that is not there, numbers beyond
// kMaxElements. Empty if nothing is wrong. What the other functions get has no faults.
std::string fault(const View& v);

Dims shape_of(const View& v);
Dims radices_of(const View& v);  // of all digits, in order
// Is anything cropped? Otherwise the digits are a refinement of the shape.
bool is_cropped(const View& v);
// The place in x, inside or not, of the element at this position of the output.
Dims place(const View& v, std::span<const int64_t> position);
// Smallest and largest value of each index, crops heeded: both are reached.
std::vector<std::pair<int64_t, int64_t>> reach(const View& v);
// Does it read inside of x only?
bool is_total(const View& v, const Dims& shape);
// Is it x, where x has this shape?
bool is_identity(const View& v, const Dims& shape);
// Equal maps have equal normal forms: digits that only move together are one, no digit has one
// value only (save where it is all that a dimension has), none is longer than the crop leaves it.
View normalised(const View& v);

// The dimension of x that this dimension of the output is, element by element, wherever the other
// dimensions stand.
std::optional<size_t> passed(const View& v, size_t dim, const Dims& shape);
// The same with another extent there, and in x.
View with_extent(const View& v, size_t dim, size_t passed, int64_t extent);

// What it makes from position `low` on, before `high`. Nothing where the box cuts through digits:
// at most one digit of a dimension may have some of its values only, and those before it one.
std::optional<View> view_in_box(const View& v, const Dims& low, const Dims& high);
// The positions that read from `low` on, before `high`, of x; empty (high is low) if there are
// none. Nothing where they are no box.
struct ViewBox {
  Dims low, high;
};
std::optional<ViewBox> positions_reading(const View& v, const Dims& low, const Dims& high);

// Every dimension where it is.
View identity_view(const Dims& shape);

// --- The two primitives that PET's transforms are made of ---

// Parts of `axis` become `count` times as many slices of `into`:
//   out[.., (i,t) or (t,i) at `into`, .., j at `axis`, ..] = x[.., t, .., i*step + j*stride +
//   offset, ..]
// Phases of dilation d: count d, step 1, stride d. Tiles with a halo: step T*s, stride 1, offset
// -pad.
struct SplitView {
  size_t axis = 0, into = 0;
  int64_t count = 1, step = 1, stride = 1;
  int64_t size = 1;  // extent of `axis` in the result
  int64_t offset = 0;
  bool slow = true;  // (i,t): the part is the slower digit of `into`
};
View split_view(const Dims& shape, const SplitView& how);

// `count` slices of `from` are laid along `axis`:
//   out[.., t at `from`, .., w at `axis`, ..] = x[.., (i,t) or (t,i), .., j, ..]
// as blocks of `period` elements (i = w / period, j = w % period: beyond the extent of x, a gap of
// zeros), or interleaved (period 0: i = w % count, j = w / count).
struct JoinView {
  size_t axis = 0, from = 0;
  int64_t count = 1;
  int64_t period = 0;
  int64_t size = 1;  // extent of `axis` in the result: crops
  bool slow = true;
};
View join_view(const Dims& shape, const JoinView& how);

}  // namespace emend
