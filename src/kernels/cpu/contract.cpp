// Any contraction with any epilogue: tiles of MR x NR sums in registers over packed panels.
//
//   out = epilogue( sum over k of s[batch, m, k] * v[batch, n, k] )
//
// One operand runs along the vector registers (v: n), the other is broadcast element by element
// (s: m); which is which is part of the configuration. m, n and k stand for any number of
// iterators, so matrix products, convolutions of any dimension, stride, dilation and group, and
// einsums are one case. Panels hold k rows of NR (or MR) neighbours: of a constant they are made
// ahead of time, of other operands in the task that uses them, where bounds (pads) become zeros. An
// operand that is broadcast and has one stride along k is read where it stands or copied. This file
// says what is worth trying; what a choice means is in contract_plan.h, its text in
// contract_printer.h and tile_printer.h. Why: docs/decisions/0016, of Strassen's products 0021.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/contract_printer.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/strassen.h"

namespace emend {
namespace {

NodeId reshaped(GraphBuilder& b, NodeId n, Dims shape) {
  return b.op("reshape", {n}, Attrs({{"shape", std::move(shape)}}));
}

// An operand as [batch, side, k], with zeros up to these extents; none if it cannot be.
std::optional<NodeId> padded_operand(GraphBuilder& b, const Contraction& c, const Side& side,
                                     const Graph& group, int64_t extent, int64_t depth) {
  std::vector<int> wanted = c.batch;
  wanted.insert(wanted.end(), side.iterators.begin(), side.iterators.end());
  wanted.insert(wanted.end(), c.k.begin(), c.k.end());
  auto arranged = arranged_operand(b, c, side, group, wanted);
  if (!arranged) return std::nullopt;
  NodeId x = reshaped(b, *arranged, {c.batches, side.extent, c.depth});
  Dims pads = {0, 0, 0, 0, extent - side.extent, depth - c.depth};
  return b.op("pad", {x}, Attrs({{"pads", pads}}));
}

// From an operand to panels [batch, blocks, k, width], as a graph; none if it cannot be.
std::optional<Graph> panels(const Contraction& c, const Side& side, const Graph& group,
                            int64_t width) {
  int64_t all = blocks(side.extent, width);
  GraphBuilder b;
  auto padded = padded_operand(b, c, side, group, all * width, c.depth);
  if (!padded) return std::nullopt;
  NodeId x = reshaped(b, *padded, {c.batches, all, width, c.depth});
  b.output("y", b.op("transpose", {x}, Attrs({{"perm", Dims{0, 1, 3, 2}}})));
  return std::move(b).build();
}

// The same for products of quarters: panels [batch, blocks, product, half of k, width] of sums of
// quarters; columns go together in pairs of registers.
Graph panels_of_quarters(const Contraction& c, const Side& side, const Graph& group,
                         int64_t vectors, int64_t lanes) {
  int64_t block = 2 * vectors * lanes, all = blocks(side.extent, block), half = blocks(c.depth, 2);
  GraphBuilder b;
  NodeId x = padded_operand(b, c, side, group, all * block, 2 * half).value();
  x = reshaped(b, x, {c.batches, all, vectors, 2, lanes, 2, half});
  x = b.op("transpose", {x}, Attrs({{"perm", Dims{0, 1, 5, 3, 6, 2, 4}}}));
  std::vector<double> factors;
  for (const StrassenProduct& p : strassen_products())
    factors.insert(factors.end(), p.weights.begin(), p.weights.end());
  x = reshaped(b, x, {c.batches * all, 4, half * vectors * lanes});
  x = b.op("matmul",
           {b.constant(Tensor::of_reals(DType::f32, {kStrassenProducts, 4}, factors)), x});
  b.output("y", reshaped(b, x, {c.batches, all, kStrassenProducts, half, vectors * lanes}));
  return std::move(b).build();
}

// Buffers of a task should stay in the second-level cache, and must find room on the stack.
constexpr int64_t kTaskFloats = 160 << 10, kMostFloats = 512 << 10;

int64_t task_floats(const ContractPlan& p) {
  return p.task_rows() * p.sums_step() * (p.along_scalar ? 2 : 1) + p.held +
         (p.panels_ahead ? 0 : p.task_columns() * p.pass_depth());
}

double real(int64_t n) {
  return static_cast<double>(n);
}

// Time in multiply-adds of whole registers, which one thread does one after the other: measured
// with bench --steps on a processor that starts one of them in every cycle.
class Estimate {
 public:
  Estimate(const Contraction& c, const ContractPlan& p, const Target& target)
      : c_(c), p_(p), target_(target) {}

  double seconds() const {
    double rate = target_.peak_flops / (2 * real(p_.width) * target_.threads);
    double computing = (busiest_thread() + packing() / target_.threads) / rate;
    double weights = 0;
    if (p_.panels_ahead) weights += real(p_.vector.extent);
    if (p_.rows == Rows::ahead) weights += real(p_.scalar.extent);
    double reading = 4 * weights * real(c_.batches * c_.depth) / target_.memory_bandwidth();
    if (p_.config.strassen) reading *= kProducts / 4;
    // Both at once, but for a part; and one thread alone does not get all that memory gives.
    constexpr double kApart = 0.2;
    int64_t tasks = c_.batches * p_.tasks_m * p_.tasks_n;
    if (tasks < target_.threads) reading *= 2 - real(tasks) / real(target_.threads);
    return target_.launch_s + std::max(computing, reading) + kApart * std::min(computing, reading);
  }

 private:
  static constexpr double kProducts = kStrassenProducts;

  // A tile with few sums waits for each of them; a call costs something; so do sums without a
  // register to spare.
  double tile(int64_t rows, int64_t vectors) const {
    constexpr double kLatency = 4, kCall = 20, kVector = 0.15, kUpdate = 4;
    double sums = real(rows * vectors), loads = real(rows + vectors) / 2;
    double crowded = rows * vectors + vectors > 29 ? 1.06 : 1.0;
    double passes = std::ceil(real(p_.outer) / real(p_.step));
    double each = std::max({sums * crowded * collisions(rows), kLatency, loads});
    double depth = real(c_.depth) / real(p_.halves());
    double last = p_.config.strassen ? kUpdate * sums : sums;
    return depth * (each + kVector * real(vectors)) + passes * (kCall + last);
  }

  // Rows that meet in the same sets of the first-level cache, of eight lines each, push one another
  // out of it.
  double collisions(int64_t rows) const {
    if (p_.rows != Rows::direct) return 1;
    constexpr int64_t kPointers = 10;  // that registers hold
    if (p_.pointers && rows > kPointers) return 1.7;
    if (p_.k_step != 1) return 1.04;  // a new line for every k
    constexpr int64_t kLineBytes = 64, kSetsBytes = 4096, kWays = 8;
    int64_t apart = std::gcd(4 * p_.row_step, kSetsBytes);
    int64_t sets = kSetsBytes / std::max(apart, kLineBytes);
    if (rows > kWays * sets) return 4;
    constexpr double kCrowded = 0.004;  // for every line more than half of a set
    return 1 + kCrowded * std::max(0.0, real(rows) / real(sets) - real(kWays) / 2);
  }

  double task(int64_t rows, int64_t columns) const {
    int64_t blocks_m = rows / p_.mr, last_rows = blocks(rows % p_.mr, p_.halves());
    int64_t blocks_n = columns / p_.nr,
            last_vectors = blocks(columns % p_.nr, p_.width * p_.halves());
    auto row_of_tiles = [&](int64_t r) {
      return real(blocks_n) * tile(r, p_.config.vectors) +
             (last_vectors ? tile(r, last_vectors) : 0);
    };
    double work =
        real(blocks_m) * row_of_tiles(p_.config.rows) + (last_rows ? row_of_tiles(last_rows) : 0);
    // Panels come from far away, again for every task of other rows.
    double again = (1 - 1 / real(p_.tasks_m)) * real(c_.depth * columns);
    if (p_.config.strassen) {
      work = kProducts * work + sums_of_rows(rows);
      again *= kProducts / 4;
    }
    if (p_.panels_ahead) work += far(p_.vector) * again;
    return work + far_rows(rows, columns) + epilogue(rows, columns);
  }

  // Of all products: two rows are read and one is written, from and to the second-level cache.
  double sums_of_rows(int64_t rows) const {
    constexpr double kSum = 0.4, kRow = 20;  // per element, per row
    return kProducts * real(blocks(rows, 2)) * (kSum * real(blocks(c_.depth, 2)) + kRow);
  }

  // An element of a constant that is read again: the last cache may not hold all of them.
  double far(const Side& side) const {
    constexpr double kShared = 0.02, kMemory = 0.3, kHeld = 16e6;  // bytes
    return 4 * real(c_.batches * c_.depth * side.extent) > kHeld ? kMemory : kShared;
  }

  // Rows that the second-level cache does not hold are read again for every panel.
  double far_rows(int64_t rows, int64_t columns) const {
    constexpr double kCached = 450e3, kWait = 0.01;  // bytes; per element
    double elements = real(rows * c_.depth);
    if (p_.held || 4 * elements < kCached) return 0;
    double each = p_.rows == Rows::ahead ? far(p_.scalar) : kWait;
    return elements * real(blocks(columns, p_.nr)) * each;
  }

  double epilogue(int64_t rows, int64_t columns) const {
    constexpr double kTask = 200, kLine = 40, kElement = 0.3, kTurned = 0.8, kFar = 0.2;
    constexpr int64_t kNear = 48 << 10;  // sums
    int64_t lines = p_.along_scalar ? columns : rows;
    double each = (p_.along_scalar ? kTurned : kElement) + (rows * columns > kNear ? kFar : 0);
    return kTask + real(lines) * kLine + real(rows * columns) * each;
  }

  double busiest_thread() const {
    int64_t rows = std::min(p_.scalar.extent, p_.task_rows()),
            columns = std::min(p_.vector.extent, p_.task_columns());
    int64_t last_rows = p_.scalar.extent - (p_.tasks_m - 1) * rows,
            last_columns = p_.vector.extent - (p_.tasks_n - 1) * columns;
    double full = task(rows, columns), by_n = task(rows, last_columns),
           by_m = task(last_rows, columns), both = task(last_rows, last_columns);
    int64_t per_batch = p_.tasks_m * p_.tasks_n, tasks = c_.batches * per_batch;
    constexpr int64_t kFew = 64;
    if (tasks > kFew * target_.threads) {
      double m = real(p_.tasks_m - 1), n = real(p_.tasks_n - 1);
      return real(c_.batches) * (m * n * full + m * by_n + n * by_m + both) / target_.threads;
    }
    double most = 0;
    for (int thread = 0; thread < target_.threads; ++thread) {
      double own = 0;
      for (int64_t t = tasks * thread / target_.threads; t < tasks * (thread + 1) / target_.threads;
           ++t) {
        bool last_m =
            (p_.rows_first() ? t % p_.tasks_m : t / p_.tasks_n % p_.tasks_m) + 1 == p_.tasks_m;
        bool last_n =
            (p_.rows_first() ? t / p_.tasks_m % p_.tasks_n : t % p_.tasks_n) + 1 == p_.tasks_n;
        own += last_m ? (last_n ? both : by_m) : (last_n ? by_n : full);
      }
      most = std::max(most, own);
    }
    return most;
  }

  // Of all threads: what is packed or copied, as often as it is.
  double packing() const {
    constexpr double kTurn = 0.5, kCopy = 0.3, kRow = 0.6, kGather = 2;
    double work = 0;
    if (!p_.panels_ahead) {
      bool neighbours = !p_.vector.iterators.empty() &&
                        c_.nest.math.stride(c_.load(p_.vector).at, p_.vector.iterators.back()) == 1;
      double each = neighbours ? kCopy : p_.turns_panels ? kTurn : kGather;
      work += real(p_.vector.extent) * each * times(p_.rows_first(), p_.tasks_n, p_.tasks_m);
    }
    if (p_.rows == Rows::copied || p_.rows == Rows::packed) {
      double each = p_.rows == Rows::copied ? kRow : kGather;
      work += real(p_.scalar.extent) * each * times(!p_.rows_first(), p_.tasks_m, p_.tasks_n);
    }
    return work * real(c_.batches * c_.depth);
  }

  // A side that is cut into `own` pieces per batch is packed once if what was packed is kept for
  // the tasks that differ in the other side only, but by every thread that has such a task.
  double times(bool kept, int64_t own, int64_t other) const {
    if (!kept || !p_.one_pass()) return real(other);
    double sharing = real(target_.threads) / real(c_.batches * own);
    return std::clamp(sharing, 1.0, real(other));
  }

  const Contraction& c_;
  const ContractPlan& p_;
  const Target& target_;
};

// Blocks of one task, for numbers of tasks worth trying.
std::vector<int64_t> cuts(int64_t all) {
  std::vector<int64_t> found;
  for (int64_t pieces : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{6}, int64_t{8},
                         int64_t{12}, int64_t{16}, int64_t{32}, int64_t{64}, all}) {
    int64_t cut = blocks(all, std::min(pieces, all));
    if (found.empty() || cut < found.back()) found.push_back(cut);
  }
  return found;
}

// The best way to cut a plan into tasks, and the time it takes; none if no task is small enough.
std::optional<double> cut_into_tasks(ContractPlan& plan, const Contraction& c,
                                     const Target& target) {
  plan.cut(1, 1);
  int64_t most = std::max(kTaskFloats, task_floats(plan));
  if (most > kMostFloats) return std::nullopt;
  std::optional<double> best;
  ContractConfig chosen;
  const auto cuts_n = cuts(plan.blocks_n);
  for (int64_t m : cuts(plan.blocks_m)) {
    for (int64_t n : cuts_n) {
      plan.cut(m, n);
      if (task_floats(plan) > most) continue;
      double seconds = Estimate(c, plan, target).seconds();
      if (best && *best <= seconds) continue;
      best = seconds;
      chosen = plan.config;
    }
  }
  plan.cut(chosen.blocks_m, chosen.blocks_n);
  return best;
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  Graph group = laid_out(wanted.group, wanted.layouts);
  auto c = contraction_in(group);
  if (!c || c->depth < 4) return {};
  std::vector<Candidate> all, fewer;
  int64_t width = target.vector_bytes / 4;
  int64_t registers = target.vector_bytes == 64 ? 32 : 16;
  auto can_pack = [&](const Side& s) {
    return wanted.constant[static_cast<size_t>(c->load(s).buffer)] && panels(*c, s, group, 1);
  };
  auto offer = [&](const ContractConfig& config, bool panels_ahead, bool rows_ahead) {
    ContractPlan plan = contract_plan(*c, config, panels_ahead, rows_ahead, target);
    auto seconds = cut_into_tasks(plan, *c, target);
    if (!seconds) return;
    (config.strassen ? fewer : all)
        .push_back({.kernel = "contract",
                    .config = to_attrs(plan.config),
                    .layouts = wanted.layouts,
                    .estimate_s = *seconds,
                    .packing = {},
                    .growth = 0,
                    .error = config.strassen ? strassen_error(c->depth) : 0});
  };
  const bool first_ahead = can_pack(c->first), second_ahead = can_pack(c->second);
  for (bool swapped : {false, true}) {
    const Side& scalar = swapped ? c->second : c->first;
    bool rows_ahead = swapped ? second_ahead : first_ahead;
    bool panels_ahead = swapped ? first_ahead : second_ahead;
    for (int64_t vectors : {1, 2, 3, 4}) {
      for (int64_t rows : {1, 2, 3, 4, 6, 7, 8, 10, 12, 13, 14, 16, 20, 24, 28}) {
        if (rows * vectors + vectors + 1 > registers || rows > scalar.extent) continue;
        for (bool copied : {false, true}) {
          if (copied && (rows_ahead || !can_be_copied(*c, scalar))) continue;
          offer({swapped, rows, vectors, 1, 1, copied, false}, panels_ahead, rows_ahead);
        }
        if (panels_ahead && !rows_ahead && 2 * rows <= scalar.extent + 1 &&
            can_be_summed(*c, scalar))
          offer({swapped, rows, vectors, 1, 1, false, true}, panels_ahead, rows_ahead);
      }
    }
  }
  auto keep_best = [](std::vector<Candidate>& some, size_t most) {
    std::ranges::stable_sort(some, {}, &Candidate::estimate_s);
    if (some.size() > most) some.resize(most);
  };
  keep_best(all, 8);
  keep_best(fewer, 4);
  std::ranges::move(fewer, std::back_inserter(all));
  keep_best(all, all.size());
  // Graphs only for those that are left.
  for (Candidate& candidate : all) {
    auto f = candidate.config.as<ContractConfig>();
    candidate.packing.resize(group.inputs.size());
    auto pack = [&](const Side& side, bool ahead, int64_t to) {
      if (!ahead) return;
      candidate.packing[static_cast<size_t>(c->load(side).buffer)] =
          f.strassen ? panels_of_quarters(*c, side, group, f.vectors, width)
                     : panels(*c, side, group, to).value();
    };
    pack(c->first, first_ahead, f.swapped ? f.vectors * width : f.rows);
    pack(c->second, second_ahead, f.swapped ? f.rows : f.vectors * width);
  }
  return all;
}

KernelCode emit(const Graph& logical, const Candidate& candidate, const Target& target) {
  Graph group = laid_out(logical, candidate.layouts);
  Contraction c = *contraction_in(group);
  auto config = candidate.config.as<ContractConfig>();
  auto ahead = [&](const Side& s) {
    auto b = static_cast<size_t>(c.load(s).buffer);
    return b < candidate.packing.size() && !candidate.packing[b].outputs.empty();
  };
  const Side& scalar = config.swapped ? c.second : c.first;
  const Side& vector = config.swapped ? c.first : c.second;
  return print_contract(c, group, contract_plan(c, config, ahead(vector), ahead(scalar), target));
}

}  // namespace

Kernel contract_kernel() {
  return {.name = "contract", .candidates = candidates, .emit = emit};
}

}  // namespace emend
