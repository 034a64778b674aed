// Attention in one kernel: two products and what lies between them (attention_shape.h), without the
// scores ever leaving the cache.
//
// A task is a block of queries of one head (or of several heads that share their keys): its scores
// for all keys, whole rows of them, are computed by the tiles of `contract` into memory of the
// thread's own; each row is scaled, masked, reduced and exponentiated where it lies; and the rows
// are read by the tiles of the product with the values. Keys and values are packed once for all
// blocks of a head that a thread does. A softmax is not divided by its sum: the result is, which is
// shorter. Rows so long that they and the keys do not fit are left to separate kernels.
// Why: docs/decisions/0018.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "kernels/cpu/attention_shape.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/contract_estimate.h"
#include "kernels/cpu/contract_printer.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/cpu/tile_printer.h"

namespace emend {
namespace {

struct AttentionConfig {
  int64_t rows = 8;                                // of a tile
  int64_t score_vectors = 2, context_vectors = 2;  // of a tile, in registers
  int64_t blocks = 1;                              // of rows, of one task
  bool copied = false;                             // queries are copied before they are read
  EMEND_FIELDS(rows, score_vectors, context_vectors, blocks, copied)
};

struct AttentionPlan {
  ContractPlan scores, context;
};

AttentionPlan plan_of(const AttentionShape& at, const AttentionConfig& f, const Target& target) {
  AttentionPlan p;
  ContractConfig config{.rows = f.rows, .vectors = f.score_vectors, .copied = f.copied};
  p.scores = contract_plan(at.scores, config, false, false, target);
  p.scores.sums_stay = true;
  p.scores.along_scalar = false;
  p.scores.cut(f.blocks, p.scores.blocks_n);
  config.vectors = f.context_vectors;
  config.copied = false;
  p.context = contract_plan(at.context, config, false, false, target);
  p.context.cut(f.blocks, p.context.blocks_n);
  p.context.give_rows(p.scores.sums_step());
  return p;
}

// --- what is worth trying ---

double real(int64_t n) {
  return static_cast<double>(n);
}

// A number by which the compiler multiplies rather than divides: 1 / x is exact.
bool has_exact_inverse(const NestValue& u) {
  int exponent = 0;
  return u.kind == NestValue::Kind::compute && u.body.code.size() == 1 &&
         u.body.code[0].fn == Fn::constant && std::frexp(u.body.code[0].value, &exponent) == 0.5;
}

// Work of a scalar body for one register, in multiply-adds of a register.
double body_work(const Nest& nest, const NestValue& u) {
  constexpr double kExp = 12, kDivision = 8, kFunction = 30;
  double work = 0;
  for (const Instr& i : u.body.code) {
    bool function = i.fn > Fn::sqrt && i.fn <= Fn::erf, divides = i.fn == Fn::div;
    if (divides) {
      const Instr& by = u.body.code[static_cast<size_t>(i.b)];
      divides =
          by.fn != Fn::arg ||
          !has_exact_inverse(nest.values[static_cast<size_t>(u.args[static_cast<size_t>(by.a)])]);
    }
    work += i.fn == Fn::exp ? kExp
            : divides       ? kDivision
            : function      ? kFunction
                            : info(i.fn).arity > 0;
  }
  return work;
}

// Work of what is done with every register of a row of scores.
double lane_work(const AttentionShape& at) {
  constexpr double kPass = 1.5, kGather = 30;
  const Nest& nest = at.scores.nest;
  auto free = free_atoms(nest);
  int product = nest.values[static_cast<size_t>(at.scores.sum)].args[0];
  double work = kPass;
  for (int v = 0; v < std::ssize(nest.values); ++v) {
    const NestValue& u = nest.values[static_cast<size_t>(v)];
    bool of_tiles = v == at.scores.sum || v == product || v == at.scores.first.factor.load ||
                    v == at.scores.second.factor.load;
    bool divided_later = at.numerator >= 0 && v == nest.stores[0].value;
    if (of_tiles || divided_later) continue;
    if (u.kind == NestValue::Kind::reduce) work += kPass;
    if (!free[static_cast<size_t>(v)][static_cast<size_t>(at.lane)]) continue;
    if (u.kind == NestValue::Kind::compute) work += body_work(nest, u);
    if (u.kind == NestValue::Kind::load) {
      work += nest.math.stride(u.at, at.lane) == 1 ? 1 : kGather;
    }
  }
  return work;
}

// Floats that a thread needs for itself.
int64_t scratch_floats(const AttentionPlan& p) {
  int64_t sums = p.scores.task_rows() * p.scores.sums_step(),
          out = p.context.task_rows() * p.context.sums_step() * (p.context.along_scalar ? 2 : 1);
  return sums + out + p.scores.held + p.scores.task_columns() * p.scores.pass_depth() +
         p.context.task_columns() * p.context.pass_depth();
}

double seconds(const AttentionShape& at, const AttentionPlan& p, const Target& target) {
  constexpr double kTask = 200, kRow = 110, kElement = 0.3;
  constexpr int64_t kCached = 200 << 10;  // floats of the second-level cache
  constexpr double kFar = 0.03;           // for an element of keys and values that it does not hold
  ContractEstimate scores(at.scores, p.scores, target), context(at.context, p.context, target);
  int64_t keys = at.scores.second.extent, out = at.context.second.extent;
  double each = lane_work(at);
  bool far = scratch_floats(p) > kCached;
  auto task = [&](int64_t rows) {
    double passes = real(blocks(rows, p.scores.mr));
    double waits = far ? kFar * real(keys * (at.scores.depth + out)) * passes : 0;
    double row = real(blocks(keys, p.scores.width)) * each + real(out) * kElement + kRow;
    return kTask + scores.products(rows, keys) + context.products(rows, out) + real(rows) * row +
           waits;
  };
  int64_t rows = std::min(at.scores.first.extent, p.scores.task_rows()), m = p.scores.tasks_m;
  double full = task(rows), last = task(at.scores.first.extent - (m - 1) * rows);
  int64_t tasks = at.scores.batches * m;
  double most = 0;
  for (int thread = 0; thread < target.threads; ++thread) {
    int64_t begin = tasks * thread / target.threads, end = tasks * (thread + 1) / target.threads;
    int64_t lasts = end / m - begin / m;
    most = std::max(most, real(end - begin - lasts) * full + real(lasts) * last);
  }
  double packing = (scores.packing() + context.packing()) / target.threads;
  // Keys and values come from where another kernel left them.
  double bytes = 4 * real(at.scores.batches * keys * (at.scores.depth + out));
  return target.launch_s + work_seconds(most + packing, target) + bytes / target.bandwidth;
}

constexpr int64_t kMostFloats = 2 << 20;  // of scratch memory of a thread

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  auto at = attention_in(wanted.in_memory.graph);
  if (!at || !can_be_direct(at->scores, at->scores.first)) return {};
  // Weights are better packed ahead of time.
  auto known = [&](const NestValue& load) {
    return wanted.constant[static_cast<size_t>(load.buffer)];
  };
  if (known(at->scores.load(at->scores.second)) || known(at->context.load(at->context.second)))
    return {};
  std::vector<Candidate> all;
  int64_t registers = target.vector_bytes == 64 ? 32 : 16;
  auto try_one = [&](const AttentionConfig& f) {
    AttentionPlan plan = plan_of(*at, f, target);
    if (!plan.scores.one_pass() || scratch_floats(plan) > kMostFloats) return;
    all.push_back({.kernel = "attention",
                   .config = to_attrs(f),
                   .layouts = wanted.layouts,
                   .estimate_s = seconds(*at, plan, target),
                   .packing = {}});
  };
  for (int64_t rows : {1, 2, 3, 4, 6, 7, 8, 10, 12, 13, 14, 16, 20, 24, 28}) {
    if (rows > at->scores.first.extent) continue;
    int64_t all_blocks = blocks(at->scores.first.extent, rows);
    for (int64_t score_vectors : {1, 2, 3, 4}) {
      for (int64_t context_vectors : {1, 2, 3, 4}) {
        int64_t vectors = std::max(score_vectors, context_vectors);
        if (rows * vectors + vectors + 1 > registers) continue;
        for (int64_t pieces : {1, 2, 3, 4, 8, 16, 32}) {
          if (pieces > all_blocks) continue;
          for (bool copied : {false, true}) {
            if (copied && !can_be_copied(at->scores, at->scores.first)) continue;
            try_one({rows, score_vectors, context_vectors, blocks(all_blocks, pieces), copied});
          }
        }
      }
    }
  }
  std::ranges::stable_sort(all, {}, &Candidate::estimate_s);
  if (all.size() > 8) all.resize(8);
  return all;
}

// --- text ---

class AttentionPrinter {
 public:
  AttentionPrinter(const AttentionShape& at, const Graph& group, const AttentionPlan& plan)
      : at_(at), group_(group), p_(plan) {}

  KernelCode print() {
    ContractPieces scores =
        contract_pieces(at_.scores, at_.scores_group, p_.scores, {.prefix = "score_"});
    ContractNames names{.prefix = "context_", .given = "scores"};
    if (divides_later()) names.divisors = "divisors";
    ContractPieces context = contract_pieces(at_.context, at_.context_group, p_.context, names);
    std::string text = declare_vector(p_.scores.width);
    if (scores.turns || context.turns) text += print_turn(p_.scores.arithmetic);
    text += scores.functions + context.functions;
    text += "void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n" +
            declare_buffers(group_);
    text += str("float* const scratch = buffers[", group_.inputs.size() + group_.outputs.size(),
                "];\n");
    if (divides_later()) text += buffer("divisors", p_.scores.task_rows());
    text += scores.kept + context.kept;
    int64_t scores_at = 0;
    text += "for (int64_t task = first; task < last; ++task) {\n{\n";
    for (const auto& [name, floats] : scores.buffers) {
      if (name == "sums") scores_at = taken_;
      text += buffer(name, floats);
    }
    text += scores.task + rows() + "}\n{\n";
    text += str("const float* const scores = scratch + ", scores_at, ";\n");
    for (const auto& [name, floats] : context.buffers) text += buffer(name, floats);
    text += context.task + "}\n}\n}\n";
    KernelCode code = named_kernel(std::move(text), at_.scores.batches * p_.scores.tasks_m);
    code.scratch_bytes = static_cast<size_t>(taken_) * 4;
    return code;
  }

 private:
  bool divides_later() const { return at_.numerator >= 0; }

  std::string buffer(const std::string& name, int64_t floats) {
    std::string text = str("float* const ", name, " = scratch + ", taken_, ";\n");
    taken_ += blocks(floats, kLineFloats) * kLineFloats;
    return text;
  }

  // What becomes of every row of sums, in its place.
  std::string rows() const {
    Nest nest = at_.scores.nest;
    Graph group = at_.scores_group;
    int lane = at_.lane;
    nest.space = {lane};
    nest.stores[0].at = term(lane);
    std::string text = str("for (int64_t m = m0; m < m1; ++m) {\n",
                           declare_digits(nest, at_.scores.first.iterators, "m"),
                           "enum { lo = 0, hi = ", nest.math.extent(lane),
                           " };\nfloat* const row = sums + (m - m0) * ", p_.scores.sums_step(),
                           ", *const y0 = row;\n");
    if (divides_later()) {
      // The sum of a row goes along with its exponentials.
      nest.stores[0].value = at_.numerator;
      nest.stores.push_back({.buffer = 1, .value = at_.divisor, .at = whole(0)});
      group.outputs.push_back(group.outputs[0]);
      text += "float* const y1 = divisors + (m - m0);\n";
    }
    RowPrinter printer(nest, group, lane, nest.math.extent(lane));
    printer.give(at_.scores.sum, str("row[", iterator_name(lane), "]"));
    return text + printer.print() + "}\n";
  }

  const AttentionShape& at_;
  const Graph& group_;
  const AttentionPlan& p_;
  int64_t taken_ = 0;  // floats of scratch memory
};

KernelCode emit(const Graph& logical, const Candidate& c, const Target& target) {
  Graph group = laid_out(logical, c.layouts);
  AttentionShape at = attention_in(group).value();
  AttentionPlan plan = plan_of(at, c.config.as<AttentionConfig>(), target);
  return AttentionPrinter(at, group, plan).print();
}

}  // namespace

Kernel attention_kernel() {
  return {.name = "attention", .candidates = candidates, .emit = emit, .joins = true};
}

}  // namespace emend
