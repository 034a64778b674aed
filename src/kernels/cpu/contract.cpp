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

#include "kernels/cpu/contract_estimate.h"
#include "kernels/cpu/contract_printer.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/strassen.h"
#include "kernels/cpu/sum_bound.h"

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

// From an operand to panels [batch, blocks, k, width], as a graph; none if it cannot be. Narrow
// factors stand in words: [batch, blocks, words of k, width, k's of a word].
std::optional<Graph> panels(const Contraction& c, const Side& side, const Graph& group,
                            int64_t width) {
  int64_t all = blocks(side.extent, width);
  int64_t per_word = factors_per_word(c.product), words = blocks(c.depth, per_word);
  GraphBuilder b;
  auto padded = padded_operand(b, c, side, group, all * width, words * per_word);
  if (!padded) return std::nullopt;
  if (per_word == 1) {
    NodeId x = reshaped(b, *padded, {c.batches, all, width, c.depth});
    b.output("y", b.op("transpose", {x}, Attrs({{"perm", Dims{0, 1, 3, 2}}})));
  } else {
    NodeId x = reshaped(b, *padded, {c.batches, all, width, words, per_word});
    b.output("y", b.op("transpose", {x}, Attrs({{"perm", Dims{0, 1, 3, 2, 4}}})));
  }
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
  for (const auto& p : strassen_panels()) factors.insert(factors.end(), p.begin(), p.end());
  x = reshaped(b, x, {c.batches * all, 4, half * vectors * lanes});
  x = b.op("matmul", {b.constant(Tensor::of_reals(DType::f32, {kStrassenPanels, 4}, factors)), x});
  b.output("y", reshaped(b, x, {c.batches, all, kStrassenPanels, half, vectors * lanes}));
  return std::move(b).build();
}
ColumnNorms norms_of_quarters(const Contraction& c, const Side& side, int64_t vectors,
                              int64_t lanes) {
  int64_t all = blocks(side.extent, 2 * vectors * lanes);
  ColumnNorms norms{c.batches * all, kStrassenPanels, 1, blocks(c.depth, 2), vectors * lanes, {}};
  norms.factors.assign(kStrassenProducts, 1);
  norms.factors.resize(kStrassenPanels, 0);
  return norms;
}

// Buffers of a task should stay in the second-level cache, and must find room on the stack.
constexpr int64_t kTaskFloats = 160 << 10, kMostFloats = 512 << 10;

int64_t task_floats(const ContractPlan& p) {
  return p.task_rows() * p.sums_step() * (p.along_scalar ? 2 : 1) + p.held +
         (p.panels_ahead ? 0 : p.task_columns() * p.pass_depth());
}

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
      double seconds = ContractEstimate(c, plan, target).seconds();
      if (best && *best <= seconds) continue;
      best = seconds;
      chosen = plan.config;
    }
  }
  plan.cut(chosen.blocks_m, chosen.blocks_n);
  return best;
}

struct PricedPlan {
  ContractConfig config;
  double seconds;
};

// The best of many plans, each cut into tasks as suits it best. Most need not be cut: what they
// take at least is more than what the best ones take.
class BestPlans {
 public:
  BestPlans(const Contraction& c, const Target& target, size_t kept)
      : c_(c), target_(target), kept_(kept) {}

  void offer(ContractPlan plan) {
    plan.cut(plan.blocks_m, plan.blocks_n);
    double least = ContractEstimate(c_, plan, target_).least_seconds();
    offered_.push_back({std::move(plan), least, offered_.size()});
  }

  // The best first; of equals that which was offered first.
  std::vector<PricedPlan> best() && {
    std::ranges::sort(offered_, {}, &Offered::least);
    auto order = [](const Cut& k) { return std::pair(k.seconds, k.number); };
    std::vector<Cut> found;
    for (Offered& o : offered_) {
      constexpr double kRounding = 1 - 1e-9;
      if (found.size() == kept_ && o.least * kRounding > found.back().seconds) break;
      auto seconds = cut_into_tasks(o.plan, c_, target_);
      if (!seconds) continue;
      Cut cut{{o.plan.config, *seconds}, o.number};
      found.insert(std::ranges::upper_bound(found, order(cut), {}, order), cut);
      if (found.size() > kept_) found.pop_back();
    }
    return {found.begin(), found.end()};
  }

 private:
  struct Offered {
    ContractPlan plan;
    double least;
    size_t number;
  };
  struct Cut : PricedPlan {
    size_t number;
  };
  const Contraction& c_;
  const Target& target_;
  size_t kept_;
  std::vector<Offered> offered_;
};

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  const Graph& group = wanted.in_memory.graph;
  auto c = contraction_in(wanted.in_memory.nest);
  if (!c || c->depth < 4) return {};
  BestPlans plain(*c, target, wanted.kept(8)), strassen(*c, target, wanted.kept(4));
  int64_t width = target.vector_bytes / 4;
  int64_t registers = target.vector_bytes == 64 ? 32 : 16;
  auto can_pack = [&](const Side& s) {
    return wanted.constant[static_cast<size_t>(c->load(s).buffer)] && panels(*c, s, group, 1);
  };
  auto offer = [&](const ContractConfig& config, bool panels_ahead, bool rows_ahead) {
    (config.strassen ? strassen : plain)
        .offer(contract_plan(*c, config, panels_ahead, rows_ahead, target));
  };
  const bool first_ahead = can_pack(c->first), second_ahead = can_pack(c->second);
  for (bool swapped : {false, true}) {
    const Side& scalar = swapped ? c->second : c->first;
    bool rows_ahead = swapped ? second_ahead : first_ahead;
    bool panels_ahead = swapped ? first_ahead : second_ahead;
    // Bytes of both would have to change, and neither is packed by the kernel.
    if (rows_ahead && panels_ahead && c->product == Product::bytes) continue;
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
  std::vector<PricedPlan> all = std::move(plain).best();
  std::ranges::move(std::move(strassen).best(), std::back_inserter(all));
  std::ranges::stable_sort(all, {}, &PricedPlan::seconds);
  std::vector<Candidate> found;
  for (const PricedPlan& choice : all) {
    const ContractConfig& f = choice.config;
    Candidate& candidate = found.emplace_back();
    candidate = {.kernel = "contract",
                 .config = to_attrs(f),
                 .layouts = wanted.layouts,
                 .estimate_s = choice.seconds,
                 .error = f.strassen ? strassen_error(c->depth) : 0,
                 .least_bound = f.strassen ? strassen_least_bound() : 0};
    candidate.packing.resize(group.inputs.size());
    auto pack = [&](const Side& side, bool ahead, int64_t to) {
      if (!ahead) return;
      candidate.packing[static_cast<size_t>(c->load(side).buffer)] =
          f.strassen ? panels_of_quarters(*c, side, group, f.vectors, width)
                     : panels(*c, side, group, to).value();
      if (!f.strassen) return;
      candidate.norms.resize(group.inputs.size());
      candidate.norms[static_cast<size_t>(c->load(side).buffer)] =
          norms_of_quarters(*c, side, f.vectors, width);
    };
    pack(c->first, first_ahead, f.swapped ? f.vectors * width : f.rows);
    pack(c->second, second_ahead, f.swapped ? f.rows : f.vectors * width);
  }
  return found;
}

ContractPlan plan_of(const Contraction& c, const Candidate& candidate, const Target& target) {
  auto config = candidate.config.as<ContractConfig>();
  auto ahead = [&](const Side& s) {
    auto b = static_cast<size_t>(c.load(s).buffer);
    return b < candidate.packing.size() && !candidate.packing[b].outputs.empty();
  };
  const Side& scalar = config.swapped ? c.second : c.first;
  const Side& vector = config.swapped ? c.first : c.second;
  return contract_plan(c, config, ahead(vector), ahead(scalar), target);
}

double estimate(const Wanted& wanted, const Candidate& candidate, const Target& target) {
  Contraction c = *contraction_in(wanted.in_memory.nest);
  return ContractEstimate(c, plan_of(c, candidate, target), target).seconds();
}

KernelCode emit(const Graph& logical, const Candidate& candidate, const Target& target) {
  GroupInMemory group(logical, candidate.layouts);
  Contraction c = *contraction_in(group.nest);
  return print_contract(c, group.graph, plan_of(c, candidate, target));
}

}  // namespace

Kernel contract_kernel() {
  // Strassen saves an eighth; elements beyond an edge are read, or not.
  return {.name = "contract",
          .stores_anywhere = true,
          .candidates = candidates,
          .emit = emit,
          .estimate = estimate,
          .executes = 0.7};
}

}  // namespace emend
