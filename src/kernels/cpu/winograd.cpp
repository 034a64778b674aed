// Winograd's convolutions: F(m, r) along every dimension of the window (winograd_transform.h), for
// any sum of products in which one factor depends on the sum of a tap's and an output's index, with
// channels last. A kernel, not a rule: it rounds otherwise than the sum that it stands for.
//
// A task takes a block of tiles and some panels of output channels:
//   1. every tile, channel vector by channel vector, is read, multiplied by B along all dimensions
//      and stored as v[point][tile][channel];
//   2. per point, a matrix product with the weights, which were multiplied by G ahead of time:
//      m[point][tile][output channel], in passes over some panels at a time;
//   3. the tiles of a pass are multiplied by A and go through the group's epilogue.
// Before a pass its bound is looked at (sum_bound.h): where it might not hold, the results are
// plain sums, for which the weights as they are stand behind the others, a tap like a point. What
// is read outside of the input (pads, ragged ends) is a row of zeros: pointers are made once per
// tile, so neither loads nor sums know of edges.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/sum_bound.h"
#include "kernels/cpu/winograd_printer.h"
#include "kernels/cpu/winograd_transform.h"

namespace emend {
namespace {

// What becomes of a window of weights: multiplied by G along every dimension, then as it is.
std::vector<double> windows_matrix(const WinogradSizes& s) {
  std::vector<double> all = {1};
  int64_t rows = 1, columns = 1;
  for (size_t d = 0; d < s.n.size(); ++d) {
    RationalMatrix g = winograd_matrices(s.m[d], s.taps[d], winograd_points(s.n[d])).g;
    std::vector<double> next;
    for (int64_t r = 0; r < rows; ++r) {
      for (const auto& row : g) {
        for (int64_t c = 0; c < columns; ++c) {
          for (const Rational& v : row)
            next.push_back(all[static_cast<size_t>(r * columns + c)] * v.value());
        }
      }
    }
    rows *= s.n[d];
    columns *= s.taps[d];
    all = std::move(next);
  }
  for (int64_t r = 0; r < s.plain; ++r) {
    for (int64_t c = 0; c < s.plain; ++c) all.push_back(r == c);
  }
  return all;
}

// The norms of a map's weights at every point, divided by what G can make of them at most.
ColumnNorms weight_norms(const Correlation& r, const WinogradConfig& f, const WinogradSizes& s) {
  ColumnNorms norms{s.passes, s.planes(), f.pass, r.channels, s.panel, {1}};
  for (size_t d = 0; d < s.n.size(); ++d) {
    WinogradMatrices w = winograd_matrices(s.m[d], s.taps[d], winograd_points(s.n[d]));
    std::vector<double> next;
    for (double factor : norms.factors) {
      for (size_t p = 0; p < w.g.size(); ++p) next.push_back(factor / weight_norm(w, p));
    }
    norms.factors = std::move(next);
  }
  norms.factors.resize(static_cast<size_t>(s.planes()), 0);
  return norms;
}

// The weights as [pass, point, panel, channel, output channel], multiplied by G; the taps as they
// are like further points.
std::optional<Graph> packed_weights(const Correlation& r, const Graph& group,
                                    const WinogradConfig& f, const WinogradSizes& s) {
  GraphBuilder b;
  std::vector<int> wanted = r.maps;
  wanted.push_back(r.channel);
  for (const WindowDim& d : r.window) wanted.push_back(d.tap);
  auto w = arranged_operand(b, r.c, r.w, group, wanted);
  if (!w) return std::nullopt;
  auto reshaped = [&](NodeId n, Dims shape) {
    return b.op("reshape", {n}, Attrs({{"shape", std::move(shape)}}));
  };
  size_t dims = s.n.size();
  Dims pads(2 * (dims + 2)), cut = {s.passes, f.pass, s.panel, r.channels}, perm = {0};
  pads[dims + 2] = s.passes * f.pass * s.panel - r.outputs;
  cut.insert(cut.end(), s.taps.begin(), s.taps.end());
  for (size_t d = 0; d < dims; ++d) perm.push_back(static_cast<int64_t>(4 + d));
  perm.insert(perm.end(), {1, 3, 2});
  Dims shape = {r.outputs, r.channels};
  shape.insert(shape.end(), s.taps.begin(), s.taps.end());
  NodeId x = b.op("pad", {reshaped(*w, shape)}, Attrs({{"pads", pads}}));
  x = reshaped(x, cut);
  x = b.op("transpose", {x}, Attrs({{"perm", perm}}));
  x = reshaped(x, {s.passes, s.plain, f.pass * r.channels * s.panel});
  Tensor matrix = Tensor::of_reals(DType::f32, {s.planes(), s.plain}, windows_matrix(s));
  x = b.op("matmul", {b.constant(std::move(matrix)), x});
  b.output("y", reshaped(x, {s.passes, s.planes(), f.pass, r.channels, s.panel}));
  return std::move(b).build();
}

// Fitted to 830 measured configurations of thirteen layers, from 16 channels at 55x55 to 512 at 7x7
// and 64 at 224x224: half of them within 3 %. Cycles, and lines of a cache that are moved. That was
// before transforms stayed in registers and tiles were fetched ahead (docs/decisions/0037), which
// take less than this says.
double seconds_of(const Correlation& r, const WinogradConfig& f, const WinogradSizes& s,
                  const Target& target) {
  auto real = [](int64_t x) { return static_cast<double>(x); };
  constexpr double kLine = 64;
  double threads = target.threads;
  double cycle_s = 2 * real(s.width) * threads / target.peak_flops;
  double points = real(s.points), channels = real(r.channels);
  double panels = real(s.passes_of_task * f.pass), outputs = panels * real(s.panel);
  // Of one task: sums, the lines of tiles that they read, those of a panel that is too large to
  // stay in the nearest cache, and transforms of inputs.
  constexpr double kTileLine = 3, kPanelLine = 0.6, kNearPanel = 16e3;
  double busy = std::min(1.0, real(f.rows * f.vectors) / 8);
  if (f.rows <= 4) busy *= 0.75;  // a panel is read from the second-level cache for few sums
  double calls = points * real(f.blocks) * panels;
  double step = target.costs.winograd_sum * real(f.rows * f.vectors) / busy +
                kTileLine * real(f.rows) / real(s.width);
  if (4 * channels * real(s.panel) > kNearPanel) step += kPanelLine * real(f.vectors);
  double sums = calls * channels * step;
  double in = target.costs.winograd_input * points * real(s.block * s.lanes) / real(s.width);
  // A point's tiles stay in the nearest cache while a pass goes over its panels, if they fit; all
  // of them stay near if there are few.
  constexpr double kNearest = 24e3, kNear = 250e3, kFar = 750e3, kMoved = 0.7, kFarthest = 3.5,
                   kAgain = 0.25;
  double v_bytes = 4 * points * real(s.v_plane()), m_bytes = 4 * points * real(s.m_plane());
  bool kept = f.pass > 1 && 4 * real(s.block) * real(s.v_row) < kNearest;
  double v_read = v_bytes * real(s.passes_of_task * (kept ? 1 : f.pass));
  double far = std::clamp((v_bytes + m_bytes - kNear) / (kFar - kNear), 0.0, kFarthest);
  double moved =
      (kMoved * far * (v_read + 2 * m_bytes * real(s.passes_of_task)) + kAgain * v_read) / kLine;
  // Every task reads its weights. The more there are, the less of them is still near when a
  // thread's first task does: other layers' weights have come in between.
  constexpr double kWeights = 0.1, kFirst = 4, kFewWeights = 1e6, kManyWeights = 8e6;
  double all = 4 * points * channels * real(s.passes * f.pass * s.panel);
  double weights = 4 * points * channels * outputs / kLine;
  moved += kWeights * weights;
  double cold = std::clamp((all - kFewWeights) / (kManyWeights - kFewWeights), 0.0, 1.0);
  // Wide panels ask for more lines at a time than come.
  constexpr double kWide = 0.1;
  if (f.vectors > 2) sums *= 1 + kWide * cold;
  constexpr double kSharedWeights = 24e6;  // more are a stream, see below
  double first = all > kSharedWeights ? 0 : kFirst * cold * weights;
  double rounds = std::ceil(real(s.blocks * s.splits) / threads);
  // Inputs and outputs of all tasks, which another thread may have; where output channels are
  // shared, half of the inputs are always another's, and every tile reads its neighbours' again.
  constexpr double kLarge = 6e6, kLargeOutside = 31, kCrossing = 18;
  double places = 4 * real(s.tiles_in_all * s.pixels) / kLine;
  double lines = places * (channels + real(r.outputs)) / threads;
  double outside =
      lines * (lines * threads * kLine > kLarge ? kLargeOutside : target.costs.winograd_outside);
  if (s.splits > 1) {
    double others = 1 - 1 / real(std::min<int64_t>(s.splits, target.threads));
    outside += kCrossing * others * places * channels * points / real(s.pixels);
  }
  // Outputs that are no neighbours are turned, or stored one by one.
  constexpr double kTurned = 14, kScattered = 128;
  Stores stores = stores_of(r, s.width);
  double across = stores == Stores::channels ? 0 : stores == Stores::columns ? kTurned : kScattered;
  outside += across * places * real(r.outputs) / threads;
  outside += r.c.behind.steps(target.costs) * kLine / 4 / real(s.width) * places * real(r.outputs) /
             threads;
  double seconds = (rounds * (sums + in + moved) + first + outside) * cycle_s;
  // At the least, weights are read from main memory once, and by every thread for itself if there
  // are too many to be shared.
  double reads = all > kSharedWeights ? rounds * threads / real(s.splits) : 1;
  double stream = all * reads / target.bandwidth;
  return target.launch_s + std::max(seconds, stream) + 0.2 * std::min(seconds, stream);
}

// Errors grow by what the matrices amplify, and with the root of the sum's length: within a third
// of what was measured from 64 to 512 channels.
class ExpectedErrors {
 public:
  explicit ExpectedErrors(const Correlation& r) : r_(r) {}
  double of(const Dims& products) {
    double error = std::sqrt(static_cast<double>(r_.channels)) * 0x1p-25;
    for (size_t d = 0; d < products.size(); ++d)
      error *= amplified(products[d], r_.extent(r_.window[d].tap));
    return error;
  }

 private:
  double amplified(int64_t n, int64_t taps) {
    auto [it, fresh] = known_.try_emplace({n, taps});
    if (fresh)
      it->second = amplification(winograd_matrices(n - taps + 1, taps, winograd_points(n)));
    return it->second;
  }
  const Correlation& r_;
  std::map<std::pair<int64_t, int64_t>, double> known_;
};

// Seven only where neither six nor eight come to fewer in all: at 13, 14 or 55 outputs of three
// taps.
bool worth_trying(int64_t n, int64_t outputs, int64_t taps) {
  auto in_all = [&](int64_t k) { return k * blocks(outputs, k - taps + 1); };
  return n != 7 || in_all(7) < std::min(in_all(6), in_all(8));
}

// Which products to try along every dimension.
std::vector<Dims> product_choices(const Correlation& r) {
  std::vector<Dims> all = {{}};
  for (const WindowDim& d : r.window) {
    std::vector<Dims> next;
    for (const Dims& before : all) {
      int64_t covered = 0;
      for (int64_t n : {4, 6, 7, 8}) {
        int64_t taps = r.extent(d.tap), outputs = r.extent(d.out), m = n - taps + 1;
        if (m < 2 || covered >= outputs || !worth_trying(n, outputs, taps)) continue;
        covered = m;
        next.push_back(before);
        next.back().push_back(n);
      }
    }
    all = std::move(next);
  }
  constexpr int64_t kPoints = 256;
  std::erase_if(all, [](const Dims& n) { return count(n) > kPoints; });
  return all;
}

struct Choice {
  WinogradConfig config;
  double seconds = 0, error = 0;
};

// The best by estimate, best first; what would need too much memory is left out.
std::vector<Choice> best_of(const Correlation& r, std::vector<WinogradConfig> configs, size_t kept,
                            const Target& target) {
  constexpr int64_t kScratch = 8 << 20;  // bytes of a thread
  std::vector<Choice> all;
  for (WinogradConfig& f : configs) {
    WinogradSizes s(r, f, target);
    bool empty = f.blocks > 1 && s.block - f.rows >= s.tiles_in_all;
    if (empty || s.scratch() * 4 > kScratch) continue;
    double seconds = seconds_of(r, f, s, target);
    all.push_back({std::move(f), seconds});
  }
  std::ranges::stable_sort(all, {}, &Choice::seconds);
  if (all.size() > kept) all.resize(kept);
  return all;
}

// First the register block, then what a task takes of tiles and panels.
std::vector<Choice> choices(const Correlation& r, const Dims& products, const Wanted& wanted,
                            const Target& target) {
  int64_t registers = target.vector_bytes == 64 ? 32 : 16;
  std::set<int64_t> split = {1, target.threads};
  std::vector<WinogradConfig> blocks, tasks;
  for (int64_t vectors : {1, 2, 3, 4}) {
    for (int64_t rows = 4; (rows + 1) * vectors < registers; ++rows) {
      for (int64_t splits : split) blocks.push_back({products, rows, vectors, 1, 1, splits});
    }
  }
  for (const Choice& c :
       best_of(r, std::move(blocks), std::max<size_t>(12, 12 * wanted.wide), target)) {
    WinogradConfig f = c.config;
    int64_t panels = emend::blocks(r.outputs, f.vectors * target.vector_bytes / 4);
    for (int64_t blocks_of_task : {1, 2, 3, 4, 5, 6, 7, 8}) {
      f.blocks = blocks_of_task;
      for (int64_t pass : std::set<int64_t>{1, 2, 4, emend::blocks(panels, f.splits)}) {
        f.pass = pass;
        if (pass <= panels) tasks.push_back(f);
      }
    }
  }
  return best_of(r, std::move(tasks), wanted.kept(3), target);
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  const Graph& group = wanted.in_memory.graph;
  auto r = correlation_in(wanted.in_memory.nest);
  // What fills no vector is read under a mask, which not all processors have.
  bool masks = target.vector_bytes == 64;
  if (!r || (!masks && r->channels % (target.vector_bytes / 4) != 0)) return {};
  auto weights = static_cast<size_t>(r->c.load(r->w).buffer);
  if (!wanted.constant[weights]) return {};
  std::vector<Choice> all;
  ExpectedErrors errors(*r);
  for (const Dims& products : product_choices(*r)) {
    double error = errors.of(products);
    for (Choice& c : choices(*r, products, wanted, target)) {
      c.error = error;
      all.push_back(std::move(c));
    }
  }
  // Slower is worth trying only with fewer products: others may be too large or lose too much.
  std::ranges::stable_sort(all, {}, &Choice::seconds);
  std::vector<Candidate> found;
  int64_t fewest = INT64_MAX;
  for (const Choice& c : all) {
    int64_t products = count(c.config.products);
    if (products > fewest) continue;
    fewest = products;
    WinogradSizes s(*r, c.config, target);
    found.push_back({.kernel = "winograd",
                     .config = to_attrs(c.config),
                     .layouts = wanted.layouts,
                     .estimate_s = c.seconds,
                     .error = c.error,
                     .least_bound = winograd_least_bound(s)});
    auto packing = packed_weights(*r, group, c.config, s);
    if (!packing) return {};
    found.back().packing.resize(group.inputs.size());
    found.back().packing[weights] = std::move(*packing);
    found.back().norms.resize(group.inputs.size());
    found.back().norms[weights] = weight_norms(*r, c.config, s);
  }
  return found;
}

double estimate(const Wanted& wanted, const Candidate& c, const Target& target) {
  Correlation r = *correlation_in(wanted.in_memory.nest);
  auto f = c.config.as<WinogradConfig>();
  return seconds_of(r, f, WinogradSizes(r, f, target), target);
}

KernelCode emit(const Graph& logical, const Candidate& candidate, const Target& target) {
  GroupInMemory group(logical, candidate.layouts);
  Correlation r = *correlation_in(group.nest);
  return print_winograd(r, group.graph, candidate.config.as<WinogradConfig>(), target);
}

}  // namespace

Kernel winograd_kernel() {
  return {.name = "winograd",
          .stores_anywhere = true,
          .candidates = candidates,
          .emit = emit,
          .estimate = estimate};
}

}  // namespace emend
