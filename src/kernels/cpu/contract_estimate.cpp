#include "kernels/cpu/contract_estimate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/strassen.h"

namespace emend {
namespace {

constexpr double kProducts = kStrassenProducts;

double real(int64_t n) {
  return static_cast<double>(n);
}

}  // namespace

double work_seconds(double work, const Target& target) {
  double width = target.vector_bytes / 4.0;
  return work * 2 * width * target.threads / target.peak_flops;
}

double ContractEstimate::seconds() const {
  double read = reading();
  // One thread alone does not get all that memory gives.
  int64_t tasks = c_.batches * p_.tasks_m * p_.tasks_n;
  if (tasks < target_.threads) read *= 2 - real(tasks) / real(target_.threads);
  return seconds(busiest_thread() + packing() / target_.threads + crossing(), read);
}

// All tiles and the least that becomes of their sums, shared evenly: tasks are whole tiles, and
// nothing is packed less often than by one task.
double ContractEstimate::least_seconds() const {
  double rows = real(p_.scalar.extent), columns = real(p_.vector.extent);
  double work = products(p_.scalar.extent, p_.vector.extent) + rows * columns * epilogue_of_sum();
  return seconds((real(c_.batches) * work + packing()) / target_.threads, reading());
}

double ContractEstimate::seconds(double work, double reading) const {
  double computing = work_seconds(work, target_);
  return target_.launch_s + std::max(computing, reading) +
         target_.costs.contract_apart * std::min(computing, reading);
}

// Weights, from memory.
double ContractEstimate::reading() const {
  double weights = 0;
  if (p_.panels_ahead) weights += real(p_.vector.extent);
  if (p_.rows == Rows::ahead) weights += real(p_.scalar.extent);
  double seconds = 4 * weights * real(c_.batches * p_.depth) / target_.memory_bandwidth();
  return p_.config.strassen ? seconds * (kProducts / 4) : seconds;
}

// Rows that threads share by columns: each reads what the others wrote, all but its own part.
double ContractEstimate::crossing() const {
  constexpr double kLine = 12;
  int64_t parts = c_.batches * p_.tasks_m;
  if (p_.rows == Rows::ahead || parts >= target_.threads) return 0;
  double others = 1 / real(parts) - 1 / real(target_.threads);
  return kLine * others * real(c_.batches * p_.scalar.extent * p_.depth) / real(kLineFloats);
}

// A tile with few sums waits for each of them; a call costs something; so do sums without a
// register to spare.
double ContractEstimate::tile(int64_t rows, int64_t vectors) const {
  constexpr double kUpdate = 12;
  const Costs& costs = target_.costs;
  double sums = real(rows * vectors), loads = real(rows + vectors) / 2;
  double crowded = rows * vectors + vectors > 29 ? 1.06 : 1.0;
  double passes = std::ceil(real(p_.outer) / real(p_.step));
  double each =
      std::max({sums * crowded * collisions(rows) * instructions(), costs.contract_latency, loads});
  double depth = real(p_.depth) / real(p_.halves());
  double last = p_.config.strassen ? kUpdate * sums : sums;
  each += costs.contract_broadcast * real(rows) + misses(rows, vectors);
  return depth * (each + costs.contract_vector * real(vectors)) +
         passes * (costs.contract_call + last);
}

// Of a product of words.
double ContractEstimate::instructions() const {
  constexpr double kBytes = 4, kPairs = 2.5;
  if (p_.arithmetic.plain() || p_.arithmetic.dots) return 1;
  return c_.product == Product::bytes ? kBytes : kPairs;
}

// Rows that meet in the same sets of the first-level cache, of eight lines each, push one another
// out of it.
double ContractEstimate::collisions(int64_t rows) const {
  if (p_.rows != Rows::direct) return 1;
  constexpr int64_t kPointers = 10;  // that registers hold
  if (p_.pointers && rows > kPointers) return 1.7;
  if (p_.k_step * p_.unit != 4) return 1.04;  // a new line for every k
  constexpr int64_t kLineBytes = 64, kSetsBytes = 4096, kWays = 8;
  int64_t apart = std::gcd(p_.unit * p_.row_step, kSetsBytes);
  int64_t sets = kSetsBytes / std::max(apart, kLineBytes);
  if (rows > kWays * sets) return 4;
  constexpr double kCrowded = 0.004;  // for every line more than half of a set
  return 1 + kCrowded * std::max(0.0, real(rows) / real(sets) - real(kWays) / 2);
}

// For one step of depth: rows of which every k is in other lines of the cache than the one before,
// so many that none is still near when the next tile of these rows comes.
double ContractEstimate::misses(int64_t rows, int64_t vectors) const {
  constexpr int64_t kLineBytes = 64, kSetsBytes = 4096, kWays = 8;
  if (p_.rows != Rows::direct || p_.k_step * p_.unit == 4) return 0;
  const bool neighbours = p_.row_step * p_.unit == 4;
  const double lines = neighbours ? 1 + real(rows - 1) * 4 / kLineBytes : real(rows);
  const int64_t sets = kSetsBytes / std::max(std::gcd(p_.k_step * p_.unit, kSetsBytes), kLineBytes);
  if (real(p_.pass_depth()) * (lines + real(vectors)) < real(sets * kWays)) return 0;
  return lines * target_.costs.contract_miss;
}

double ContractEstimate::products(int64_t rows, int64_t columns) const {
  int64_t blocks_m = rows / p_.mr, last_rows = blocks(rows % p_.mr, p_.halves());
  int64_t blocks_n = columns / p_.nr,
          last_vectors = blocks(columns % p_.nr, p_.width * p_.halves());
  auto row_of_tiles = [&](int64_t r) {
    return real(blocks_n) * tile(r, p_.config.vectors) + (last_vectors ? tile(r, last_vectors) : 0);
  };
  double work =
      real(blocks_m) * row_of_tiles(p_.config.rows) + (last_rows ? row_of_tiles(last_rows) : 0);
  return p_.config.strassen ? kProducts * work + sums_of_rows(rows) : work;
}

double ContractEstimate::task(int64_t rows, int64_t columns) const {
  double work = products(rows, columns);
  // Panels come from far away, again for every task of other rows.
  double again = (1 - 1 / real(p_.tasks_m)) * real(p_.depth * columns);
  if (p_.config.strassen) again *= kProducts / 4;
  if (p_.panels_ahead) work += far(p_.vector) * again;
  if (p_.sums_columns()) work += real(blocks(columns, p_.nr)) * tile(1, p_.config.vectors);
  if (p_.sums_rows()) work += real(rows * p_.depth) / 4;
  return work + far_rows(rows, columns) + epilogue(rows, columns);
}

// Of all products: two rows are read and one is written, from and to the second-level cache.
double ContractEstimate::sums_of_rows(int64_t rows) const {
  constexpr double kSum = 0.4, kRow = 20;  // per element, per row
  return kProducts * real(blocks(rows, 2)) * (kSum * real(blocks(c_.depth, 2)) + kRow);
}

// An element of a constant that is read again: the last cache may not hold all of them.
double ContractEstimate::far(const Side& side) const {
  constexpr double kShared = 0.02, kMemory = 0.3, kHeld = 16e6;  // bytes
  return 4 * real(c_.batches * p_.depth * side.extent) > kHeld ? kMemory : kShared;
}

// Rows that the second-level cache does not hold are read again for every panel.
double ContractEstimate::far_rows(int64_t rows, int64_t columns) const {
  constexpr double kCached = 450e3, kWait = 0.01;  // bytes; per element
  double elements = real(rows * p_.depth);
  if (p_.held || 4 * elements < kCached) return 0;
  double each = p_.rows == Rows::ahead ? far(p_.scalar) : kWait;
  return elements * real(blocks(columns, p_.nr)) * each;
}

double ContractEstimate::epilogue_of_sum() const {
  const Costs& costs = target_.costs;
  return (p_.along_scalar ? costs.contract_turned : costs.contract_element) +
         c_.behind.steps(costs) / real(p_.width);
}

double ContractEstimate::epilogue(int64_t rows, int64_t columns) const {
  const Costs& costs = target_.costs;
  constexpr int64_t kNear = 48 << 10;  // sums
  int64_t lines = p_.along_scalar ? columns : rows;
  double each = epilogue_of_sum() + (rows * columns > kNear ? costs.contract_far : 0);
  return costs.contract_task + real(lines) * costs.contract_line + real(rows * columns) * each;
}

double ContractEstimate::busiest_thread() const {
  int64_t rows = std::min(p_.scalar.extent, p_.task_rows()),
          columns = std::min(p_.vector.extent, p_.task_columns());
  int64_t last_rows = p_.scalar.extent - (p_.tasks_m - 1) * rows,
          last_columns = p_.vector.extent - (p_.tasks_n - 1) * columns;
  const bool even_m = last_rows == rows, even_n = last_columns == columns;
  double full = task(rows, columns), by_n = even_n ? full : task(rows, last_columns),
         by_m = even_m ? full : task(last_rows, columns),
         both = even_m   ? by_n
                : even_n ? by_m
                         : task(last_rows, last_columns);
  // Tasks go along one side first: the last of every so many is short along it, and the last so
  // many of every batch along the other.
  const bool m_first = p_.rows_first();
  int64_t inner = m_first ? p_.tasks_m : p_.tasks_n, outer = m_first ? p_.tasks_n : p_.tasks_m;
  double by_inner = m_first ? by_m : by_n, by_outer = m_first ? by_n : by_m;
  auto first = [&](int64_t n) {  // what the first n tasks take
    int64_t batches = n / (inner * outer), rest = n % (inner * outer);
    double short_inner = real(batches * (outer - 1) + rest / inner),
           short_outer =
               real(batches * (inner - 1) + std::max<int64_t>(0, rest - (outer - 1) * inner));
    return full * (real(n - batches) - short_inner - short_outer) + by_inner * short_inner +
           by_outer * short_outer + both * real(batches);
  };
  int64_t tasks = c_.batches * inner * outer;
  double most = 0;
  for (int thread = 0; thread < target_.threads; ++thread) {
    most = std::max(most, first(tasks * (thread + 1) / target_.threads) -
                              first(tasks * thread / target_.threads));
  }
  return most;
}

double ContractEstimate::packing() const {
  constexpr double kTurn = 0.5, kRow = 0.6, kGather = 2;
  double work = 0;
  if (!p_.panels_ahead) {
    double each = p_.turns_panels ? kTurn : gathering(p_.vector);
    work += (real(p_.vector.extent) * each + runs(p_.vector, p_.nr)) *
            times(p_.rows_first(), p_.tasks_n, p_.tasks_m);
  }
  if (p_.rows == Rows::copied || p_.rows == Rows::packed) {
    double each = p_.rows == Rows::copied      ? kRow
                  : c_.product == Product::f32 ? kGather
                                               : gathering(p_.scalar);
    work += real(p_.scalar.extent) * each * times(!p_.rows_first(), p_.tasks_m, p_.tasks_n);
  }
  return work * real(c_.batches * p_.depth);
}

// A word of a panel: a row of it copied, or word by word, or put together from its factors.
double ContractEstimate::gathering(const Side& side) const {
  constexpr double kCopy = 0.3, kWord = 2, kCombined = 1.2, kFactor = 4;
  const IndexMath& math = c_.nest.math;
  const Linear& at = c_.load(side).at;
  bool neighbours = !side.iterators.empty() && math.stride(at, side.iterators.back()) == 1;
  if (c_.product == Product::f32) return neighbours ? kCopy : kWord;
  if (!has_whole_words(c_)) return kFactor * real(p_.per_word);
  return math.stride(at, c_.k.back()) == 1 ? 2 * kWord : kCombined * (neighbours ? 1 : 4);
}

// The steps that beginning with neighbours takes, for one k.
double ContractEstimate::runs(const Side& side, int64_t block) const {
  if (p_.turns_panels || side.iterators.empty()) return 0;
  const int64_t run = c_.nest.math.extent(side.iterators.back());
  return target_.costs.contract_run * real(blocks(side.extent, std::min(run, block)));
}

// A side that is cut into `own` pieces per batch is packed once if what was packed is kept for
// the tasks that differ in the other side only, but by every thread that has such a task.
double ContractEstimate::times(bool kept, int64_t own, int64_t other) const {
  if (!kept || !p_.one_pass()) return real(other);
  double sharing = real(target_.threads) / real(c_.batches * own);
  return std::clamp(sharing, 1.0, real(other));
}

}  // namespace emend
