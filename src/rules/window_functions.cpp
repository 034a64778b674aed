// What rules ask of convolutions and pooling: weights are [f,c,..], pads are begins, then ends.
#include <algorithm>

#include "rules/function_args.h"

namespace emend {
namespace {

// [f,1,1,..]: one number per filter of the weights a[1]; a single number stays one.
Answer filter_shape(Facts a) {
  if (shape(a[1]).empty()) return fail("weights without filters");
  Dims out(shape(a[1]).size(), 1);
  out[0] = count(shape(a[0]));
  return AttrValue(out);
}

// [c,1,..] for the vector a[0]: its place in a result of the rank of a[1].
Answer channel_shape(Facts a) {
  if (shape(a[1]).size() < 2) return fail("no channels");
  Dims out(shape(a[1]).size() - 1, 1);
  out[0] = count(shape(a[0]));
  return AttrValue(out);
}

// Begins and ends of the spatial dimensions of pads for all dimensions.
Answer spatial(Facts a) {
  const Dims& pads = dims(a[0]);
  size_t rank = pads.size() / 2;
  if (rank < 2) return fail("no spatial dimensions");
  Dims out;
  for (size_t i = 0; i < pads.size(); ++i) {
    if (i % rank >= 2) out.push_back(pads[i]);
  }
  return AttrValue(out);
}

Answer spatial_only(Facts a) {
  const Dims& pads = dims(a[0]);
  size_t rank = pads.size() / 2;
  if (rank < 2) return AttrValue(false);
  return AttrValue(pads[0] == 0 && pads[1] == 0 && pads[rank] == 0 && pads[rank + 1] == 0);
}

// Pads (begins, then ends) of contiguous windows that leave no window without an element.
Answer below(Facts a) {
  const Dims &pads = dims(a[0]), &kernel = dims(a[1]);
  if (pads.size() != 2 * kernel.size()) return fail("other ranks");
  for (size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] < 0 || pads[i] >= kernel[i % kernel.size()]) return AttrValue(false);
  }
  return AttrValue(true);
}

Answer kernel(Facts a) {
  const Dims& w = shape(a[0]);
  if (w.size() < 2) return fail("no kernel");
  return AttrValue(Dims(w.begin() + 2, w.end()));
}

// Dilations for begins and ends, where `pads` are given.
Result<int64_t> dilation_at(const Dims& pads, const Dims& dilations, size_t i) {
  if (dilations.empty() || pads.size() != 2 * dilations.size()) return fail("other ranks");
  return dilations[i % dilations.size()];
}

Answer dilated(Facts a) {
  Dims out = dims(a[0]);
  for (size_t i = 0; i < out.size(); ++i) {
    auto d = dilation_at(out, dims(a[1]), i);
    if (!d) return Failure{d.error()};
    out[i] *= *d;
  }
  return AttrValue(out);
}

// How far a kernel reaches beyond what the pads give it. Where this is equal, and pads differ by
// multiples of the dilation, two kernels are parts of one that is larger than both.
Answer extent(Facts a) {
  const Dims &w = shape(a[0]), &pads = dims(a[1]), &dilations = dims(a[2]);
  if (w.size() != dilations.size() + 2 || pads.size() != 2 * dilations.size())
    return fail("other ranks");
  Dims out;
  for (size_t i = 0; i < dilations.size(); ++i)
    out.push_back(dilations[i] * (w[i + 2] - 1) - pads[i] - pads[i + dilations.size()]);
  return AttrValue(out);
}

Answer remainders(Facts a) {
  Dims out = dims(a[0]);
  for (size_t i = 0; i < out.size(); ++i) {
    auto d = dilation_at(out, dims(a[1]), i);
    if (!d) return Failure{d.error()};
    out[i] %= *d;
  }
  return AttrValue(out);
}

// Pads for weights whose convolution pads by a[0], so that it may pad by a[1].
Answer enlarging(Facts a) {
  const Dims &from = dims(a[0]), &to = dims(a[1]), &dilations = dims(a[2]);
  if (from.size() != to.size() || from.size() != 2 * dilations.size()) return fail("other ranks");
  Dims out;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i % dilations.size() == 0) out.insert(out.end(), {0, 0});
    int64_t more = to[i] - from[i], d = dilations[i % dilations.size()];
    if (more < 0 || more % d != 0) return fail("pads do not differ by whole taps");
    out.push_back(more / d);
  }
  return AttrValue(out);
}

// The largest, item by item, of the lists of a starred variable or of several.
Answer largest(Facts a) {
  std::vector<Dims> lists;
  for (const Fact& f : a) {
    if (auto* many = std::get_if<std::vector<AttrValue>>(&f)) {
      for (const AttrValue& v : *many) {
        if (!v.as<Dims>()) return fail("no list");
        lists.push_back(*v.as<Dims>());
      }
    } else {
      lists.push_back(dims(f));
    }
  }
  Dims out = lists[0];
  for (const Dims& l : lists) {
    if (l.size() != out.size()) return fail("lists of different length");
    for (size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], l[i]);
  }
  return AttrValue(out);
}

// Pads, weights, dilations: the kernel's middle stands on the element it computes, and the result
// is as large as the operand where strides are one.
Answer centred(Facts a) {
  const Dims &pads = dims(a[0]), &w = shape(a[1]), &dilations = dims(a[2]);
  size_t n = dilations.size();
  if (w.size() != n + 2 || pads.size() != 2 * n) return fail("other ranks");
  for (size_t i = 0; i < n; ++i) {
    int64_t begin = dilations[i] * ((w[i + 2] - 1) / 2);
    if (pads[i] != begin || pads[i + n] != dilations[i] * (w[i + 2] - 1) - begin)
      return AttrValue(false);
  }
  return AttrValue(true);
}

// Weights in g groups as pairs of groups: [g/2, 2, filters of a group, channels, ..].
Answer group_pairs(Facts a) {
  const Dims& w = shape(a[0]);
  int64_t g = integer(a[1]);
  if (w.size() < 2 || g < 2 || g % 2 != 0 || w[0] % g != 0) return fail("no pairs of groups");
  Dims out = {g / 2, 2, w[0] / g};
  out.insert(out.end(), w.begin() + 1, w.end());
  return AttrValue(out);
}

// Pads that leave zeros for the other group's channels, behind (side 0) or before (side 1).
Answer pair_pads(Facts a) {
  const Dims& w = shape(a[0]);
  size_t rank = w.size() + 2;
  Dims out(2 * rank, 0);
  out[3 + (integer(a[1]) == 0 ? rank : 0)] = w[1];
  return AttrValue(out);
}

}  // namespace

std::vector<RuleFunction> window_functions() {
  // clang-format off
  return {
      {"filter_shape", 2, 2, filter_shape, "[f,1,..] for per-filter factors of weights"},
      {"channel_shape", 2, 2, channel_shape, "[c,1,..]: where a vector stands in a result of the rank of weights"},
      {"kernel", 1, 1, kernel, "of weights [f,c,..]: their spatial sizes"},
      {"spatial", 1, 1, spatial, "pads without those of the first two dimensions"},
      {"dilated", 2, 2, dilated, "pads of weights, dilations: pads of their operand"},
      {"extent", 3, 3, extent, "weights, pads, dilations: how far the kernel reaches beyond the pads"},
      {"remainders", 2, 2, remainders, "of pads by dilations"},
      {"enlarging", 3, 3, enlarging, "pads, larger pads, dilations: pads for the weights that make up for it"},
      {"largest", 1, -1, largest, "item by item, of lists"},
      {"group_pairs", 2, 2, group_pairs, "weights, groups: their shape as pairs of groups"},
      {"pair_pads", 2, 2, pair_pads, "weights, side: zeros in place of the other group's channels"},

      {"below", 2, 2, below, "pads that are smaller than the kernel everywhere"},
      {"spatial_only", 1, 1, spatial_only, "pads nothing of the first two dimensions"},
      {"centred", 3, 3, centred, "pads, weights, dilations: the middle tap meets the element itself"},
  };
  // clang-format on
}

}  // namespace emend
