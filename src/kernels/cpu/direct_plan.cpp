#include "kernels/cpu/direct_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

namespace emend {

bool rows_first(const Window& w) {
  constexpr int64_t kKept = 128 << 10;  // floats
  return w.depth() * w.lanes() <= kKept;
}

std::vector<Piece> pieces(int64_t lanes, int64_t width) {
  std::vector<Piece> all;
  for (int64_t at = 0; at < lanes; at += all.back().width) {
    auto left = static_cast<uint64_t>(lanes - at);
    all.push_back({at, std::min(width, static_cast<int64_t>(std::bit_floor(left)))});
  }
  return all;
}

namespace {

double number(int64_t n) {
  return static_cast<double>(n);
}

double bytes_of(const Graph& group) {
  double bytes = 0;
  for (const auto& i : group.inputs) bytes += static_cast<double>(count(group.type(i.node).shape));
  for (const auto& o : group.outputs) bytes += static_cast<double>(count(group.type(o.node).shape));
  return bytes * 4;
}

// Inputs of a tile that are loaded for one step of the window.
int64_t places(const Window& w, int64_t columns) {
  std::set<int64_t> all;
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t t = 0; t < w.extent(w.tap); ++t)
      all.insert(c * w.x_stride(w.column) + t * w.x_stride(w.tap));
  }
  return static_cast<int64_t>(all.size());
}

// How many steps of the window the next row is away.
double row_step(const Window& w) {
  if (w.rows.empty() || w.window.empty() || w.x_stride(w.window.back()) == 0) return 1;
  return std::max(1.0, static_cast<double>(w.x_stride(w.rows.back())) /
                           static_cast<double>(w.x_stride(w.window.back())));
}

// What is lost where inputs push each other out of the first-level cache: columns whose distance is
// a multiple of its ways' size, or several vectors of columns that are wider still.
double crowding(const Window& w, const DirectConfig& f, int64_t width, const Costs& costs) {
  constexpr int64_t kWay = 4096, kWays = 8;
  int64_t apart = std::gcd(w.x_stride(w.column) * 4, kWay);
  if (!w.shuffled) return f.columns * apart > kWay * kWays ? 2 : 1;
  return f.vectors > 1 && f.vectors * width < w.lanes() ? costs.direct_crowded : 1;
}

// Steps that a tile waits for inputs of which every one is for all lanes, for one product of each
// of its sums. Channels that are no neighbours are in lines of the cache of their own; once they
// are too many, none is still near when the next tile comes.
double broadcasts(const Window& w, const DirectConfig& f, const Costs& costs) {
  constexpr int64_t kLineBytes = 64, kSetsBytes = 4096, kWays = 8;
  if (w.shuffled) return 0;
  const double read = costs.direct_broadcast * number(f.columns);
  const int64_t apart = 4 * w.x_stride(w.channel);
  if (w.extent(w.channel) <= kUnrolled || apart == 4) return read;
  const double lines =
      std::min(number(f.columns),
               1 + number((f.columns - 1) * w.x_stride(w.column)) * 4 / number(kLineBytes));
  const int64_t sets = kSetsBytes / std::max(std::gcd(apart, kSetsBytes), kLineBytes);
  const bool far = number(w.depth()) * (lines + number(f.vectors)) >= number(sets * kWays);
  return far ? read + costs.direct_miss * lines : read;
}

// Of all chunks of a row, one after the other, in steps of one vector's multiply-add, of which a
// core does one at a time.
std::vector<double> chunk_steps(const Window& w, const DirectConfig& f, const Target& target) {
  const Costs& costs = target.costs;
  const double of_sum = costs.direct_sum + w.whole.behind.steps(costs);
  int64_t width = target.vector_bytes / 4, block = f.vectors * width;
  double products = number(w.depth()) * w.share_inside();
  double loads = number(w.depth());
  if (w.shuffled) loads *= number(places(w, f.columns)) / number(w.extent(w.tap)) + 1;
  double crowd = crowding(w, f, width, costs), waits = broadcasts(w, f, costs);
  int64_t each = block * blocks(blocks(w.lanes(), block), f.chunks);
  std::vector<double> chunks(static_cast<size_t>(blocks(w.lanes(), each)));
  for (int64_t at = 0; at < w.lanes(); at += block) {
    double vectors = 0;
    for (const Piece& p : pieces(std::min(block, w.lanes() - at), width))
      vectors += p.width < width && target.vector_bytes == 64 ? costs.direct_narrow : 1;
    for (int64_t c = 0; c < w.extent(w.column); c += f.columns) {
      double sums = vectors * number(std::min(f.columns, w.extent(w.column) - c));
      // Fewer sums than the pipeline is deep leave it waiting.
      chunks[static_cast<size_t>(at / each)] +=
          (std::max(sums, costs.direct_deep) * crowd + waits) * products + of_sum * sums +
          costs.direct_load * vectors * loads + costs.direct_tile;
    }
  }
  return chunks;
}

// Threads share the tasks evenly, by their number: chunks may be of different sizes.
double busiest_thread(const Window& w, const std::vector<double>& chunks, int threads) {
  auto rows = w.row_count(), count = std::ssize(chunks);
  std::vector<double> before = {0};
  for (double steps : chunks) before.push_back(before.back() + steps);
  auto first = [&](int64_t tasks) {  // what the first so many take
    auto at = [](const std::vector<double>& list, int64_t i) {
      return list[static_cast<size_t>(i)];
    };
    if (rows_first(w)) return number(tasks / count) * before.back() + at(before, tasks % count);
    int64_t whole = tasks / rows, rest = tasks % rows;
    return number(rows) * at(before, whole) + (rest ? number(rest) * at(chunks, whole) : 0);
  };
  double most = 0;
  int64_t tasks = rows * count;
  for (int t = 0; t < threads; ++t)
    most = std::max(most, first(tasks * (t + 1) / threads) - first(tasks * t / threads));
  return most;
}

}  // namespace

double direct_seconds(const Window& w, const Graph& group, const DirectConfig& f,
                      const Target& target) {
  constexpr double kFirstLevel = 16 << 10;
  std::vector<double> chunks = chunk_steps(w, f, target);
  int64_t width = target.vector_bytes / 4, block = f.vectors * width;
  double step_s = 2 * number(width) * target.threads / target.peak_flops;
  double tasks = number(w.row_count() * std::ssize(chunks)), threads = target.threads;
  double seconds = busiest_thread(w, chunks, target.threads) * step_s +
                   std::ceil(tasks / threads) * target.costs.direct_task;
  // Rows that the next row of a chunk does not find in the first-level cache are fetched again, in
  // pieces unless a tile takes whole columns.
  double bytes = bytes_of(group);
  double window = number(extent_of(w.nest, w.window));
  double in =
      4 * number(count(group.type(group.inputs[static_cast<size_t>(w.x.buffer)].node).shape));
  double again = std::max(0.0, window / row_step(w) - 1) * (block < w.lanes() ? 0.5 : 0.25);
  if (in / number(w.row_count() * f.chunks) * window > kFirstLevel) bytes += in * again;
  // Most of it is in caches nearer than the one that the machine's rate is of.
  return target.launch_s + seconds + bytes / (target.bandwidth * target.costs.direct_near);
}

}  // namespace emend
