// What mutations ask: convolutions whose images were cut, laid side by side, or read phase by phase
// (ir/view.h), and the views and pads that go with it. Operands are x[n,c,..] and w[f,c/g,..];
// strides, dilations and pads are the convolution's as it was. A gap or halo that is too small is
// no failure: the mutant is wrong somewhere then, which is for others to find out.
#include "base/integer.h"
#include "ir/view.h"
#include "rules/function_args.h"

namespace emend {
namespace {

// One spatial axis of a convolution.
struct Along {
  int64_t size, taps, stride, dilation, before, after;
  int64_t reach() const { return (taps - 1) * dilation; }
  int64_t outputs() const { return (size + before + after - reach() - 1) / stride + 1; }

  // Phases of a dilated axis: phase i holds the elements i + dilation * j + offset, j = 0, 1, ..;
  // a border of `pad` zeros stands before each.
  int64_t pad() const { return before / dilation; }
  int64_t offset() const { return dilation * pad() - before; }
  int64_t phase() const { return ceil_div(size - offset(), dilation); }
  int64_t phase_outputs() const { return ceil_div(outputs(), dilation); }
  int64_t period(int64_t gap) const { return std::max(phase(), phase_outputs()) + gap; }
};

// x, w, strides, dilations, pads.
Result<std::vector<Along>> axes_of(Facts a) {
  const Dims &x = shape(a[0]), &w = shape(a[1]);
  const Dims &strides = dims(a[2]), &dilations = dims(a[3]), &pads = dims(a[4]);
  size_t n = strides.size();
  if (x.size() != n + 2 || w.size() != n + 2 || dilations.size() != n || pads.size() != 2 * n)
    return fail("other ranks");
  std::vector<Along> axes;
  for (size_t d = 0; d < n; ++d)
    axes.push_back({x[d + 2], w[d + 2], strides[d], dilations[d], pads[d], pads[d + n]});
  return axes;
}

// Dimension by dimension: how it is read as digits, and where the operand is read.
class ViewBuilder {
 public:
  explicit ViewBuilder(size_t rank) { view_.index.resize(rank); }
  // The first of the dimension's digits.
  int dim(Dims radices, int64_t extent = 0) {
    int first = digits_;
    digits_ += static_cast<int>(radices.size());
    view_.out.push_back({extent ? extent : count(radices), std::move(radices)});
    return first;
  }
  void read(size_t at, int digit, int64_t coef = 1) {
    Linear& e = view_.index[at];
    e = e + Linear{0, {{digit, coef}}};
  }
  void shift(size_t at, int64_t by) { view_.index[at].constant += by; }
  Answer text() const {
    std::string wrong = fault(view_);
    if (!wrong.empty()) return fail(wrong);
    return AttrValue(to_text(normalised(view_)));
  }

 private:
  View view_;
  int digits_ = 0;
};

Dims pads_of(const std::vector<std::pair<int64_t, int64_t>>& each) {
  Dims pads;
  for (auto [before, after] : each) pads.push_back(before);
  for (auto [before, after] : each) pads.push_back(after);
  return pads;
}

// --- Phases of a dilated convolution side by side, with gaps ---

Answer mosaic(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  const Dims& x = shape(a[0]);
  ViewBuilder v(x.size());
  v.read(0, v.dim({x[0]}));
  v.read(1, v.dim({x[1]}));
  for (size_t d = 0; d < axes->size(); ++d) {
    const Along& l = (*axes)[d];
    if (l.dilation == 1) {
      v.read(d + 2, v.dim({l.size}));
      continue;
    }
    int phase = v.dim({l.dilation, l.period(integer(a[5]))});
    v.read(d + 2, phase);
    v.read(d + 2, phase + 1, l.dilation);
    v.shift(d + 2, l.offset());
  }
  return v.text();
}

Answer mosaic_pads(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  std::vector<std::pair<int64_t, int64_t>> pads;
  for (const Along& l : *axes) {
    if (l.dilation == 1) {
      pads.emplace_back(l.before, l.after);
    } else if (l.taps - 1 < l.pad()) {
      return fail("a border wider than the kernel");
    } else {
      pads.emplace_back(l.pad(), l.taps - 1 - l.pad());
    }
  }
  return AttrValue(pads_of(pads));
}

Answer mosaic_back(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  const Dims &x = shape(a[0]), &w = shape(a[1]);
  ViewBuilder v(x.size());
  v.read(0, v.dim({x[0]}));
  v.read(1, v.dim({w[0]}));
  for (size_t d = 0; d < axes->size(); ++d) {
    const Along& l = (*axes)[d];
    if (l.dilation == 1) {
      v.read(d + 2, v.dim({l.outputs()}));
      continue;
    }
    int place = v.dim({l.phase_outputs(), l.dilation}, l.outputs());
    v.read(d + 2, place);
    v.read(d + 2, place + 1, l.period(integer(a[5])));
  }
  return v.text();
}

// --- Phases as images of their own ---

// Elements of a phase that its outputs see.
int64_t phase_size(const Along& l) {
  return std::min(l.phase(), l.phase_outputs() + l.taps - 1 - l.pad());
}

// The batch with one slower digit per axis that `parts` says is cut.
int batch_of(ViewBuilder& v, const Dims& parts, int64_t batch) {
  Dims radices = parts;
  radices.push_back(batch);
  return v.dim(radices);
}

Dims dilations_of(const std::vector<Along>& axes) {
  Dims d;
  for (const Along& l : axes) d.push_back(l.dilation);
  return d;
}

Answer phases(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  const Dims& x = shape(a[0]);
  ViewBuilder v(x.size());
  int batch = batch_of(v, dilations_of(*axes), x[0]);
  v.read(0, batch + static_cast<int>(axes->size()));
  v.read(1, v.dim({x[1]}));
  for (size_t d = 0; d < axes->size(); ++d) {
    const Along& l = (*axes)[d];
    v.read(d + 2, batch + static_cast<int>(d));
    v.read(d + 2, v.dim({l.dilation == 1 ? l.size : phase_size(l)}), l.dilation);
    v.shift(d + 2, l.dilation == 1 ? 0 : l.offset());
  }
  return v.text();
}

Answer phase_pads(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  std::vector<std::pair<int64_t, int64_t>> pads;
  for (const Along& l : *axes) {
    if (l.dilation == 1) {
      pads.emplace_back(l.before, l.after);
    } else {
      pads.emplace_back(l.pad(), l.phase_outputs() + l.taps - 1 - phase_size(l) - l.pad());
    }
  }
  return AttrValue(pads_of(pads));
}

Answer phases_back(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  const Dims &x = shape(a[0]), &w = shape(a[1]);
  ViewBuilder v(x.size());
  v.read(0, v.dim({x[0]}));
  v.read(1, v.dim({w[0]}));
  int64_t weight = x[0] * count(dilations_of(*axes));
  for (size_t d = 0; d < axes->size(); ++d) {
    const Along& l = (*axes)[d];
    weight /= l.dilation;
    int place = v.dim({l.phase_outputs(), l.dilation}, l.outputs());
    v.read(d + 2, place);
    v.read(0, place + 1, weight);
  }
  return v.text();
}

// --- Images of a batch side by side: a[5] the axis among the spatial ones, a[6] how many, a[7] gap

struct Merged {
  std::vector<Along> axes;
  size_t axis;
  int64_t count, period;
};

Result<Merged> merged(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  int64_t axis = integer(a[5]), n = integer(a[6]);
  if (axis < 0 || axis >= static_cast<int64_t>(axes->size())) return fail("no such axis");
  const Along& l = (*axes)[place(axis)];
  if (n < 2 || shape(a[0])[0] % n) return fail("the batch does not fall into parts");
  int64_t period = ceil_div(l.size + integer(a[7]), l.stride) * l.stride;
  if (period / l.stride < l.outputs()) return fail("too few outputs");
  return Merged{*axes, place(axis), n, period};
}

Answer merged_batch(Facts a) {
  auto m = merged(a);
  if (!m) return Failure{m.error()};
  const Dims& x = shape(a[0]);
  ViewBuilder v(x.size());
  v.read(0, v.dim({x[0] / m->count}), m->count);
  v.read(1, v.dim({x[1]}));
  for (size_t d = 0; d < m->axes.size(); ++d) {
    if (d != m->axis) {
      v.read(d + 2, v.dim({m->axes[d].size}));
      continue;
    }
    int image = v.dim({m->count, m->period});
    v.read(0, image);
    v.read(d + 2, image + 1);
  }
  return v.text();
}

Answer merged_pads(Facts a) {
  auto m = merged(a);
  if (!m) return Failure{m.error()};
  std::vector<std::pair<int64_t, int64_t>> pads;
  for (size_t d = 0; d < m->axes.size(); ++d) {
    const Along& l = m->axes[d];
    int64_t after = d == m->axis ? l.reach() + 1 - l.stride - l.before : l.after;
    if (after < 0) return fail("a border wider than the kernel");
    pads.emplace_back(l.before, after);
  }
  return AttrValue(pads_of(pads));
}

Answer merged_back(Facts a) {
  auto m = merged(a);
  if (!m) return Failure{m.error()};
  const Dims &x = shape(a[0]), &w = shape(a[1]);
  ViewBuilder v(x.size());
  int image = v.dim({x[0] / m->count, m->count});
  v.read(0, image);
  v.read(1, v.dim({w[0]}));
  for (size_t d = 0; d < m->axes.size(); ++d) {
    const Along& l = m->axes[d];
    v.read(d + 2, v.dim({l.outputs()}));
    if (d == m->axis) v.read(d + 2, image + 1, m->period / l.stride);
  }
  return v.text();
}

// --- Tiles of an image as images: a[5] how many along each axis, a[6] the halo ---

Result<Dims> tiles_of(Facts a, const std::vector<Along>& axes) {
  const Dims& tiles = dims(a[5]);
  if (tiles.size() != axes.size()) return fail("other ranks");
  for (size_t d = 0; d < tiles.size(); ++d) {
    int64_t outputs = axes[d].outputs();
    if (tiles[d] < 1 || ceil_div(outputs, ceil_div(outputs, tiles[d])) != tiles[d])
      return fail("so many tiles are not needed");
  }
  return tiles;
}

Answer tiles(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  auto parts = tiles_of(a, *axes);
  if (!parts) return Failure{parts.error()};
  const Dims& x = shape(a[0]);
  ViewBuilder v(x.size());
  int batch = batch_of(v, *parts, x[0]);
  v.read(0, batch + static_cast<int>(axes->size()));
  v.read(1, v.dim({x[1]}));
  for (size_t d = 0; d < axes->size(); ++d) {
    const Along& l = (*axes)[d];
    if ((*parts)[d] == 1) {
      v.read(d + 2, v.dim({l.size}));
      continue;
    }
    int64_t step = ceil_div(l.outputs(), (*parts)[d]) * l.stride;
    v.read(d + 2, batch + static_cast<int>(d), step);
    v.read(d + 2, v.dim({step + integer(a[6])}));
    v.shift(d + 2, -l.before);
  }
  return v.text();
}

Answer tile_pads(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  auto parts = tiles_of(a, *axes);
  if (!parts) return Failure{parts.error()};
  std::vector<std::pair<int64_t, int64_t>> pads;
  for (size_t d = 0; d < axes->size(); ++d) {
    bool whole = (*parts)[d] == 1;
    pads.emplace_back(whole ? (*axes)[d].before : 0, whole ? (*axes)[d].after : 0);
  }
  return AttrValue(pads_of(pads));
}

Answer tiles_back(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  auto parts = tiles_of(a, *axes);
  if (!parts) return Failure{parts.error()};
  const Dims &x = shape(a[0]), &w = shape(a[1]);
  ViewBuilder v(x.size());
  v.read(0, v.dim({x[0]}));
  v.read(1, v.dim({w[0]}));
  int64_t weight = x[0] * count(*parts);
  for (size_t d = 0; d < axes->size(); ++d) {
    const Along& l = (*axes)[d];
    weight /= (*parts)[d];
    int tile = v.dim({(*parts)[d], ceil_div(l.outputs(), (*parts)[d])}, l.outputs());
    v.read(0, tile, weight);
    v.read(d + 2, tile + 1);
  }
  return v.text();
}

// --- Phases of a strided convolution as channels ---

// Channels with a faster digit for every axis.
int channels_of(ViewBuilder& v, int64_t channels, const std::vector<Along>& axes) {
  Dims radices = {channels};
  for (const Along& l : axes) radices.push_back(l.stride);
  return v.dim(radices);
}

Answer stride_phases(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  const Dims& x = shape(a[0]);
  ViewBuilder v(x.size());
  v.read(0, v.dim({x[0]}));
  int channel = channels_of(v, x[1], *axes);
  v.read(1, channel);
  for (size_t d = 0; d < axes->size(); ++d) {
    const Along& l = (*axes)[d];
    v.read(d + 2, channel + 1 + static_cast<int>(d));
    v.read(d + 2, v.dim({l.outputs() + ceil_div(l.taps, l.stride) - 1}), l.stride);
    v.shift(d + 2, -l.before);
  }
  return v.text();
}

Answer stride_taps(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  const Dims& w = shape(a[1]);
  ViewBuilder v(w.size());
  v.read(0, v.dim({w[0]}));
  int channel = channels_of(v, w[1], *axes);
  v.read(1, channel);
  for (size_t d = 0; d < axes->size(); ++d) {
    const Along& l = (*axes)[d];
    v.read(d + 2, channel + 1 + static_cast<int>(d));
    v.read(d + 2, v.dim({ceil_div(l.taps, l.stride)}), l.stride);
  }
  return v.text();
}

// --- Channels among the elements of an axis: a[1] the axis among the spatial ones, a[2] how many

Answer channels_along(Facts a) {
  const Dims& x = shape(a[0]);
  int64_t axis = integer(a[1]), k = integer(a[2]);
  if (axis < 0 || axis + 2 >= static_cast<int64_t>(x.size()) || k < 2 || x[1] % k)
    return fail("channels do not fall into parts");
  ViewBuilder v(x.size());
  v.read(0, v.dim({x[0]}));
  v.read(1, v.dim({x[1] / k}), k);
  for (size_t d = 2; d < x.size(); ++d) {
    bool here = d == place(axis) + 2;
    int at = here ? v.dim({x[d], k}) : v.dim({x[d]});
    v.read(d, at);
    if (here) v.read(1, at + 1);
  }
  return v.text();
}

// A list with the item of an axis multiplied; where it has two parts, begins and ends, both.
Answer scaled_along(Facts a) {
  Dims list = dims(a[0]);
  int64_t axis = integer(a[1]), rank = integer(a[3]) - 2;
  for (size_t i = place(axis); i < list.size(); i += place(rank)) list[i] *= integer(a[2]);
  return AttrValue(list);
}

// --- Products at every place, added where taps put them ---

// [n, f, .., taps] from products [f*taps, n.. ]: see mutations/conv.cpp. x, w, strides, dilations,
// pads as ever; the operand is [n, f, taps.., places..].
Answer tap_offsets(Facts a) {
  auto axes = axes_of(a);
  if (!axes) return Failure{axes.error()};
  const Dims &x = shape(a[0]), &w = shape(a[1]);
  size_t n = axes->size();
  ViewBuilder v(2 + 2 * n);
  v.read(0, v.dim({x[0]}));
  v.read(1, v.dim({w[0]}));
  for (size_t d = 0; d < n; ++d) {
    const Along& l = (*axes)[d];
    v.read(2 + n + d, v.dim({l.outputs()}), l.stride);
    v.shift(2 + n + d, -l.before);
  }
  for (size_t d = 0; d < n; ++d) {
    const Along& l = (*axes)[d];
    int tap = v.dim({l.taps});
    v.read(2 + d, tap);
    v.read(2 + n + d, tap, l.dilation);
  }
  return v.text();
}

// --- What to choose from ---

Answer ones_but(Facts a) {
  Dims out(place(integer(a[2])), 1);
  if (integer(a[0]) < 0 || integer(a[0]) >= integer(a[2])) return fail("no such axis");
  out[place(integer(a[0]))] = integer(a[1]);
  return AttrValue(out);
}

Answer divisors(Facts a) {
  Dims out;
  for (int64_t k = 2; k <= integer(a[0]) && k <= integer(a[1]); ++k)
    if (integer(a[0]) % k == 0) out.push_back(k);
  return AttrValue(out);
}

}  // namespace

std::vector<RuleFunction> canvas_functions() {
  // clang-format off
  return {
      {"mosaic", 6, 6, mosaic, "x, w, strides, dilations, pads, gap: all phases of x side by side, a gap of zeros after each"},
      {"mosaic_pads", 5, 5, mosaic_pads, "pads of the convolution of a mosaic, which keeps its size"},
      {"mosaic_back", 6, 6, mosaic_back, "from that convolution's result to the one of x"},
      {"phases", 5, 5, phases, "x, w, strides, dilations, pads: each phase of x an image of its own"},
      {"phase_pads", 5, 5, phase_pads, "pads of the convolution of phases"},
      {"phases_back", 5, 5, phases_back, "from that convolution's result to the one of x"},
      {"merged_batch", 8, 8, merged_batch, "x, w, strides, dilations, pads, axis, count, gap: that many images side by side, a gap of zeros after each"},
      {"merged_pads", 8, 8, merged_pads, "pads of the convolution of merged images"},
      {"merged_back", 8, 8, merged_back, "from that convolution's result to the one of x"},
      {"tiles", 7, 7, tiles, "x, w, strides, dilations, pads, counts, halo: tiles of x as images, each with a halo"},
      {"tile_pads", 7, 7, tile_pads, "pads of the convolution of tiles"},
      {"tiles_back", 7, 7, tiles_back, "from that convolution's result to the one of x"},
      {"stride_phases", 5, 5, stride_phases, "x, w, strides, dilations, pads: every phase of x by the strides as channels"},
      {"stride_taps", 5, 5, stride_taps, "the weights that go with stride_phases"},
      {"channels_along", 3, 3, channels_along, "operand, axis, count: that many channels interleaved along the axis"},
      {"scaled_along", 4, 4, scaled_along, "list, axis, factor, rank: the axis' items of a list of one or two per spatial axis, multiplied"},
      {"tap_offsets", 5, 5, tap_offsets, "x, w, strides, dilations, pads: of products [n,f,taps..,places..] those that each output sums, taps last"},
      {"ones_but", 3, 3, ones_but, "axis, number, length: a list of ones, but for the number at the axis"},
      {"divisors", 2, 2, divisors, "n, most: the divisors of n from 2 to that"},
  };
  // clang-format on
}

}  // namespace emend
