#include "kernels/cpu/winograd_shape.h"

#include <algorithm>
#include <functional>

namespace emend {
namespace {

// The load depends on the two iterators by their sum only.
bool moves_with(const Nest& nest, const NestValue& load, int a, int b) {
  auto same = [&](const Linear& e) {
    auto x = nest.math.stride(e, a), y = nest.math.stride(e, b);
    return x && y && *x == *y;
  };
  return same(load.at) &&
         std::ranges::all_of(load.bounds, [&](const Bound& bound) { return same(bound.at); });
}

// The one that is stored one after the other, else the longest, last.
std::vector<int> maps_in_order(const Nest& nest, std::vector<int> maps) {
  auto badness = [&](int a) {
    bool neighbours = std::ranges::all_of(
        nest.stores, [&](const NestStore& s) { return nest.math.stride(s.at, a) == 1; });
    return neighbours ? INT64_MIN : -nest.math.extent(a);
  };
  std::ranges::stable_sort(maps, std::greater(), badness);
  return maps;
}

Stores stores_in(const Correlation& r) {
  const Nest& nest = r.nest();
  auto along = [&](int iterator) {
    return std::ranges::all_of(
        nest.stores, [&](const NestStore& to) { return nest.math.stride(to.at, iterator) == 1; });
  };
  if (along(r.maps.back())) return Stores::channels;
  int column = r.window.back().out;
  bool alone = std::ranges::all_of(nest.values, [&](const NestValue& v) {
    bool other = v.kind == NestValue::Kind::load && &v != &r.input();
    return !other || nest.math.stride(v.at, column) == 0;
  });
  bool turned = r.maps.size() == 1 && nest.stores.size() == 1 &&
                nest.values[static_cast<size_t>(nest.stores[0].value)].dtype == DType::f32;
  return alone && turned && along(column) ? Stores::columns : Stores::scattered;
}

std::optional<Correlation> correlation_of(const Contraction& c, bool swapped) {
  Correlation r{.c = c};
  const Nest& nest = r.nest();
  r.x = swapped ? r.c.second : r.c.first;
  r.w = swapped ? r.c.first : r.c.second;
  r.images = r.x.iterators;
  for (int tap : r.c.k) {
    auto out =
        std::ranges::find_if(r.images, [&](int o) { return moves_with(nest, r.input(), tap, o); });
    if (out != r.images.end()) {
      r.window.push_back({*out, tap});
      r.images.erase(out);
    } else if (r.channel < 0) {
      r.channel = tap;
    } else {
      return std::nullopt;
    }
  }
  if (r.window.empty() || r.window.size() > 3 || r.channel < 0 || r.w.iterators.empty())
    return std::nullopt;
  // As the output has them.
  std::ranges::sort(r.window, {}, [&](const WindowDim& d) {
    return std::ranges::find(nest.space, d.out) - nest.space.begin();
  });
  r.maps = maps_in_order(nest, r.w.iterators);
  r.channels = r.extent(r.channel);
  r.outputs = r.w.extent;
  bool in_lanes = nest.math.stride(r.input().at, r.channel) == 1 &&
                  std::ranges::all_of(r.input().bounds, [&](const Bound& b) {
                    return nest.math.stride(b.at, r.channel) == 0;
                  });
  if (!in_lanes) return std::nullopt;
  r.stores = stores_in(r);
  return r;
}

}  // namespace

std::optional<Correlation> correlation_in(const Result<Nest>& nest) {
  auto c = f32_contraction_in(nest);
  if (!c || c->batches != 1) return std::nullopt;
  auto r = correlation_of(*c, false);
  return r ? r : correlation_of(*c, true);
}

Stores stores_of(const Correlation& r, int64_t width) {
  return r.stores == Stores::columns && r.outputs % width != 0 ? Stores::scattered : r.stores;
}

WinogradSizes::WinogradSizes(const Correlation& r, const WinogradConfig& f, const Target& target) {
  n = f.products;
  for (size_t d = 0; d < r.window.size(); ++d) {
    taps.push_back(r.extent(r.window[d].tap));
    m.push_back(n[d] - taps[d] + 1);
    tiles.push_back(emend::blocks(r.extent(r.window[d].out), m[d]));
    points *= n[d];
    pixels *= m[d];
    plain *= taps.back();
    tiles_in_all *= tiles[d];
  }
  for (int i : r.images) tiles_in_all *= r.extent(i);
  width = target.vector_bytes / 4;
  panel = f.vectors * width;
  passes = emend::blocks(r.outputs, panel * f.pass);
  passes_of_task = emend::blocks(passes, f.splits);
  splits = emend::blocks(passes, passes_of_task);
  block = f.rows * f.blocks;
  blocks = emend::blocks(tiles_in_all, block);
  last_rows = tiles_in_all % f.rows;
  lanes = emend::blocks(r.channels, width) * width;
  streams = tiles_in_all * pixels * (r.channels + r.outputs) > target.cached;
  // Rows that lie a power of two apart share few places of the cache.
  v_row = lanes + 16;
  m_row = f.pass * panel + (f.pass > 1 ? 16 : 0);
  if (stores_of(r, width) == Stores::columns) columns = std::min(block, tiles.back()) * m.back();
}

}  // namespace emend
