#include "kernels/cpu/window.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/error.h"
#include "ops/build.h"

namespace emend {
namespace {

bool has(const Linear& e, int iterator) {
  return std::ranges::any_of(e.terms, [&](auto t) { return t.first == iterator; });
}

int64_t coefficient(const Linear& e, int iterator) {
  for (auto [a, coef] : e.terms) {
    if (a == iterator) return coef;
  }
  return 0;
}

bool is_linear(const Nest& nest, const Linear& e) {
  return std::ranges::all_of(
      e.terms, [&](auto t) { return nest.math.atom(t.first).kind == Atom::Kind::iterator; });
}

// Groups and filters as one iterator, in all that is computed from the sums.
class LaneMerger {
 public:
  LaneMerger(Window& w, int filter) : w_(w), filter_(filter) {
    if (w.group < 0 || filter < 0) {
      w.lane = w.group < 0 ? filter : w.group;
    } else {
      w.lane = w.nest.math.iterator(w.lanes());
    }
  }

  // False if something tells groups from filters in another way.
  bool run() {
    std::vector<bool> inner = below_sum();
    for (size_t v = 0; v < w_.nest.values.size(); ++v) {
      NestValue& u = w_.nest.values[v];
      if (inner[v]) continue;
      if (!merge(u.at)) return false;
      for (Bound& b : u.bounds) {
        if (!merge(b.at)) return false;
      }
    }
    for (NestStore& s : w_.nest.stores) {
      if (!merge(s.at)) return false;
    }
    auto& space = w_.nest.space;
    std::erase_if(space, [&](int a) { return a == w_.group || a == filter_; });
    space.push_back(w_.lane);
    // Others compute the sum; that it is one number per lane is all that is left of it.
    NestValue& sum = w_.nest.values[static_cast<size_t>(w_.sum)];
    sum = {.kind = NestValue::Kind::load, .buffer = 0, .at = term(w_.lane)};
    return true;
  }

 private:
  std::vector<bool> below_sum() const {
    std::vector<bool> inner(w_.nest.values.size());
    inner[static_cast<size_t>(w_.sum)] = true;
    for (size_t v = inner.size(); v-- > 0;) {
      if (!inner[v]) continue;
      for (int a : w_.nest.values[v].args) inner[static_cast<size_t>(a)] = true;
    }
    return inner;
  }

  bool merge(Linear& e) const {
    if (!is_linear(w_.nest, e)) return false;
    if (w_.group < 0 || filter_ < 0) return true;
    int64_t step = coefficient(e, filter_);
    if (coefficient(e, w_.group) != step * w_.filters) return false;
    if (step == 0) return true;
    std::erase_if(e.terms, [&](auto t) { return t.first == filter_ || t.first == w_.group; });
    e = e + term(w_.lane, step);
    return true;
  }

  Window& w_;
  int filter_;
};

// Which of the summed iterators is which; false if bounds tie them together otherwise.
bool name_summed(Window& w, const std::vector<int>& summed) {
  std::set<int> bounded;
  for (const Bound& b : w.x.bounds) {
    if (!is_linear(w.nest, b.at)) return false;
    int of = -1;
    for (int k : summed) {
      if (!has(b.at, k)) continue;
      if (of >= 0 || coefficient(b.at, k) <= 0 || !bounded.insert(k).second) return false;
      of = k;
    }
    bool along = w.column >= 0 && has(b.at, w.column);
    if (along) {
      // Nothing else than the column and its tap.
      if (b.at.terms.size() != (of >= 0 ? 2u : 1u) || (of >= 0 && w.tap >= 0)) return false;
      if (of >= 0) w.tap = of;
      continue;
    }
    if (of < 0) return false;
    for (auto [a, coef] : b.at.terms) {
      if (a != of && std::ranges::find(w.rows, a) == w.rows.end()) return false;
    }
  }
  std::vector<int> free;
  for (int k : summed) {
    if (!bounded.count(k)) free.push_back(k);
  }
  auto x_steps = [&](int a, int b) { return w.x_stride(a) < w.x_stride(b); };
  if (w.shuffled) {
    auto it = std::ranges::find_if(
        free, [&](int k) { return w.x_stride(k) == 1 && w.extent(k) == w.filters; });
    if (w.filters > 1 && it == free.end()) return false;
    if (w.filters > 1) w.channel = *it, free.erase(it);
    // Taps that neighbours share are read once.
    auto tap = std::ranges::min_element(free, x_steps);
    if (w.tap < 0 && tap != free.end()) w.tap = *tap;
  } else if (!free.empty()) {
    auto w_steps = [&](int a, int b) { return coefficient(w.w.at, a) < coefficient(w.w.at, b); };
    w.channel = *std::ranges::max_element(free, w_steps);
  }
  for (int k : summed) {
    if (k != w.tap && k != w.channel) w.window.push_back(k);
  }
  return true;
}

}  // namespace

int64_t Window::depth() const {
  return extent_of(nest, window) * extent(tap) * extent(channel);
}
int64_t Window::row_count() const {
  return extent_of(nest, rows);
}
int64_t Window::x_stride(int iterator) const {
  return iterator < 0 ? 0 : coefficient(x.at, iterator);
}

bool Window::inside(int64_t c, int64_t t) const {
  return std::ranges::all_of(x.bounds, [&](const Bound& b) {
    bool ours = (column >= 0 && has(b.at, column)) || (tap >= 0 && has(b.at, tap));
    if (!ours) return true;
    int64_t at = b.at.constant;
    if (column >= 0) at += c * coefficient(b.at, column);
    if (tap >= 0) at += t * coefficient(b.at, tap);
    return at >= 0 && at < b.extent;
  });
}

double Window::share_inside() const {
  double share = 1;
  for (const Bound& b : x.bounds) {
    // Of all points of its iterators, seldom more than two.
    std::vector<int> over;
    for (auto [a, coef] : b.at.terms) over.push_back(a);
    int64_t points = extent_of(nest, over), within = 0;
    for (int64_t p = 0; p < points; ++p) {
      int64_t at = b.at.constant, rest = p;
      for (auto [a, coef] : b.at.terms) {
        at += coef * (rest % nest.math.extent(a));
        rest /= nest.math.extent(a);
      }
      within += at >= 0 && at < b.extent;
    }
    share *= static_cast<double>(within) / static_cast<double>(points);
  }
  return share;
}

std::vector<Bound> Window::row_bounds() const {
  std::vector<Bound> all;
  for (const Bound& b : x.bounds) {
    if (std::ranges::any_of(window, [&](int k) { return has(b.at, k); })) all.push_back(b);
  }
  return all;
}

std::optional<Window> window_in(const GroupInMemory& group, const std::vector<bool>& constant,
                                int64_t width) {
  auto c = f32_contraction_in(group.nest);
  if (!c || c->k.empty()) return std::nullopt;
  auto is_weights = [&](const Side& s) {
    std::vector<int> all = c->batch;
    all.insert(all.end(), s.iterators.begin(), s.iterators.end());
    all.insert(all.end(), c->k.begin(), c->k.end());
    GraphBuilder b;
    return constant[static_cast<size_t>(c->load(s).buffer)] &&
           arranged_operand(b, *c, s, group.graph, all);
  };
  bool second = is_weights(c->second);
  if (!second && !is_weights(c->first)) return std::nullopt;
  const Side &xs = second ? c->first : c->second, &ws = second ? c->second : c->first;
  if (c->batch.size() > 1 || ws.iterators.size() > 1 || xs.iterators.empty()) return std::nullopt;
  if (c->batch.empty() && ws.iterators.empty()) return std::nullopt;
  Window w{*c, ws, c->nest, c->sum, c->load(xs), c->load(ws)};
  int filter = ws.iterators.empty() ? -1 : ws.iterators[0];
  w.group = c->batch.empty() ? -1 : c->batch[0];
  w.groups = w.extent(w.group);
  w.filters = w.extent(filter);
  w.group_stride = w.x_stride(w.group);
  w.shuffled = w.group >= 0 && w.group_stride == w.filters && w.filters < width &&
               std::has_single_bit(static_cast<uint64_t>(w.filters));
  w.rows = xs.iterators;
  w.column = w.rows.back();
  w.rows.pop_back();
  if (!name_summed(w, c->k) || !LaneMerger(w, filter).run()) return std::nullopt;
  // One row and no window is a product of matrices.
  if (w.rows.empty() && w.window.empty() && w.tap < 0) return std::nullopt;
  return w;
}

Graph window_packing(const Window& w, const Graph& group, int64_t block) {
  std::vector<int> wanted = w.whole.batch;
  wanted.insert(wanted.end(), w.weights.iterators.begin(), w.weights.iterators.end());
  wanted.insert(wanted.end(), w.window.begin(), w.window.end());
  for (int a : {w.tap, w.channel}) {
    if (a >= 0) wanted.push_back(a);
  }
  GraphBuilder b;
  auto reshaped = [&](NodeId n, Dims shape) {
    return b.op("reshape", {n}, Attrs({{"shape", std::move(shape)}}));
  };
  auto operand = arranged_operand(b, w.whole, w.weights, group, wanted);
  EMEND_ASSERT(operand, "weights that were found to be dense");
  int64_t blocks = (w.lanes() + block - 1) / block;
  NodeId x = reshaped(*operand, {w.lanes(), w.depth()});
  x = b.op("pad", {x}, Attrs({{"pads", Dims{0, 0, blocks * block - w.lanes(), 0}}}));
  x = reshaped(x, {blocks, block, w.depth()});
  b.output("y", b.op("transpose", {x}, Attrs({{"perm", Dims{0, 2, 1}}})));
  return std::move(b).build();
}

}  // namespace emend
