#include "rules/draw_map.h"

#include <algorithm>
#include <numeric>

namespace emend {
namespace {

// Dimensions in another order, some read in parts or from the end, some beyond it.
View windows(const Dims& shape, bool borders, Rng& rng) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1 && rng.between(0, 2) == 0; --i)
    std::swap(order[i - 1],
              order[static_cast<size_t>(rng.between(0, static_cast<int64_t>(i) - 1))]);
  View v;
  v.index.resize(shape.size());
  for (size_t d : order) {
    const int64_t n = shape[d], reach = borders ? 1 : 0;
    int64_t first = 0, size = n, step = 1;
    if (rng.between(0, 1)) {
      first = rng.between(-reach, n - 1);
      step = rng.pick(Dims{1, 1, 2, -1});
      int64_t most = step > 0 ? (n - 1 + reach - first) / step + 1 : (first + reach) / -step + 1;
      size = rng.between(1, std::max<int64_t>(1, most));
    }
    v.index[d] = {.constant = first, .terms = {{static_cast<int>(v.out.size()), step}}};
    v.out.push_back({size, {size}});
  }
  return v;
}

// Neighbours as digits of one dimension.
View merged(const Dims& shape, Rng& rng) {
  View v = identity_view(shape);
  for (size_t d = v.out.size(); d-- > 1;) {
    if (rng.between(0, 1)) continue;
    View::Dim& to = v.out[d - 1];
    to.extent *= v.out[d].extent;
    to.radices.insert(to.radices.end(), v.out[d].radices.begin(), v.out[d].radices.end());
    v.out.erase(v.out.begin() + static_cast<std::ptrdiff_t>(d));
  }
  return v;
}

// The same shape, one dimension in another order: its two digits swapped, or from the end.
View reordered(const Dims& shape, size_t axis) {
  View v = identity_view(shape);
  const int64_t n = shape[axis];
  const auto digit = static_cast<int>(axis);
  v.index[axis] = {.constant = n - 1, .terms = {{digit, -1}}};
  if (n % 2 != 0 || n < 4) return v;
  v.out[axis].radices = {2, n / 2};
  for (size_t k = axis + 1; k < shape.size(); ++k) ++v.index[k].terms[0].first;
  v.index[axis] = {.constant = 0, .terms = {{digit, 1}, {digit + 1, 2}}};
  return v;
}

View split(const Dims& shape, size_t axis, size_t other, Rng& rng) {
  SplitView s{
      .axis = axis, .into = other, .count = rng.between(1, 3), .slow = rng.between(0, 1) == 0};
  s.size = rng.between(1, shape[axis]);
  if (rng.between(0, 1)) {  // phases
    s.stride = s.count;
    s.size = (shape[axis] + s.count - 1) / s.count + rng.between(0, 1);
  } else {  // tiles with a halo
    s.step = rng.between(1, 3);
    s.offset = rng.between(-1, 0);
  }
  return split_view(shape, s);
}

View join(const Dims& shape, size_t axis, size_t other, Rng& rng) {
  JoinView j{.axis = axis, .from = other, .slow = rng.between(0, 1) == 0};
  Dims counts;
  for (int64_t k : {1, 2, 3})
    if (shape[other] % k == 0) counts.push_back(k);
  j.count = rng.pick(counts);
  j.period = rng.between(0, 1) ? shape[axis] + rng.between(0, 2) : 0;
  const int64_t whole = j.count * (j.period ? j.period : shape[axis]);
  j.size = rng.between(0, 1) ? whole : rng.between(1, whole);
  return join_view(shape, j);
}

}  // namespace

View some_view(const Dims& shape, Rng& rng) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (rank == 0 || count(shape) == 0)
    return View{.out = {}, .index = std::vector<Linear>(shape.size())};
  const auto axis = static_cast<size_t>(rng.between(0, rank - 1));
  const size_t other =
      (axis + static_cast<size_t>(rng.between(1, std::max<int64_t>(1, rank - 1)))) % shape.size();
  switch (rng.between(axis == other ? 3 : 0, 7)) {
    case 0:
    case 1:
      return split(shape, axis, other, rng);
    case 2:
      return join(shape, axis, other, rng);
    case 3:
      return merged(shape, rng);
    case 4:
      return windows(shape, true, rng);
    case 5:
      return windows(shape, false, rng);
    case 6:
      return reordered(shape, axis);
    default: {
      View v = identity_view(shape);
      if (shape[axis] % 2 == 0) {  // the same in other words
        View::Dim& d = v.out[axis];
        d.radices = {2, d.extent / 2};
        for (size_t k = axis; k < shape.size(); ++k) {
          int digit = v.index[k].terms[0].first;
          v.index[k].terms = {{digit + 1, 1}};
          if (k == axis) v.index[k].terms = {{digit, d.extent / 2}, {digit + 1, 1}};
        }
      }
      return v;
    }
  }
}

std::optional<View> resized(const View& v, const Dims& from, const Dims& to) {
  if (from.size() != to.size()) return std::nullopt;
  View out = normalised(v);
  Dims now = from;
  for (size_t i = 0; i < to.size(); ++i) {
    if (now[i] == to[i]) continue;
    std::optional<size_t> dim;
    for (size_t d = 0; d < out.out.size(); ++d)
      if (passed(out, d, now) == i) dim = d;
    if (!dim) return std::nullopt;
    out = with_extent(out, *dim, i, to[i]);
    now[i] = to[i];
  }
  return out;
}

}  // namespace emend
