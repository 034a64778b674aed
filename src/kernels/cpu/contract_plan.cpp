#include "kernels/cpu/contract_plan.h"

#include <algorithm>

namespace emend {
namespace {

constexpr int64_t kDepth = 384;  // k's of one pass over panels that are packed

int64_t k_stride(const Contraction& c, const Side& s) {
  return *c.nest.math.stride(c.load(s).at, c.k.back());
}

// Is the result written along the first of two sides? It is along the one that has the last
// iterator of the space, unless runs of that are short and the other's are not: phases of a
// transposed convolution are interleaved with what lies along.
bool runs_along(const Contraction& c, const Side& one, const Side& other) {
  if (one.iterators.empty() || c.nest.space.empty()) return false;
  constexpr int64_t kShort = 8;
  auto is_short = [&](const Side& s) {
    return s.iterators.empty() || c.nest.math.extent(s.iterators.back()) < kShort;
  };
  bool has_last = one.iterators.back() == c.nest.space.back();
  return is_short(one) == is_short(other) ? has_last : is_short(other);
}

}  // namespace

std::optional<int64_t> side_step(const Contraction& c, const Side& s, const Linear& at) {
  std::optional<int64_t> step;
  int64_t extent = 1;
  for (size_t i = s.iterators.size(); i-- > 0;) {
    int a = s.iterators[i];
    if (c.nest.math.extent(a) == 1) continue;
    int64_t own = *c.nest.math.stride(at, a);
    if (step && own != *step * extent) return std::nullopt;
    if (!step) step = own;
    extent *= c.nest.math.extent(a);
  }
  return step.value_or(0);
}

std::optional<int64_t> side_step(const Contraction& c, const Side& s) {
  return side_step(c, s, c.load(s).at);
}

int64_t padded_row(int64_t depth) {
  return (blocks(depth, kLineFloats) | 1) * kLineFloats;
}

// One stride along k, but for the outermost k, which is then taken one at a time.
bool can_be_direct(const Contraction& c, const Side& s) {
  return c.load(s).bounds.empty() && (c.k.size() == 1 || c.k.size() == 2);
}

bool can_be_copied(const Contraction& c, const Side& s) {
  return c.load(s).bounds.empty() && k_stride(c, s) == 1;
}

bool can_be_summed(const Contraction& c, const Side& s) {
  int64_t step = 1;
  for (size_t i = c.k.size(); i-- > 0; step *= c.nest.math.extent(c.k[i])) {
    if (c.nest.math.stride(c.load(s).at, c.k[i]) != step) return false;
  }
  return c.load(s).bounds.empty();
}

int64_t ContractPlan::sums_step() const {
  return config.blocks_n == 1 ? nr : padded_row(task_columns());
}

void ContractPlan::cut(int64_t rows_, int64_t columns) {
  config.blocks_m = rows_;
  config.blocks_n = columns;
  tasks_m = blocks(blocks_m, rows_);
  tasks_n = blocks(blocks_n, columns);
  held = rows == Rows::copied   ? task_rows() * row_step
         : rows == Rows::packed ? task_rows() * pass_depth()
         : rows == Rows::sums   ? task_rows() / 2 * row_step
                                : 0;
}

void ContractPlan::give_rows(int64_t row_step_) {
  rows = Rows::given;
  pointers = false;
  row_step = row_step_;
  k_step = 1;
  step = outer;
  cut(config.blocks_m, config.blocks_n);
}

ContractPlan contract_plan(const Contraction& c, const ContractConfig& config, bool panels_ahead,
                           bool rows_ahead, const Target& target) {
  ContractPlan p;
  p.config = config;
  p.scalar = config.swapped ? c.second : c.first;
  p.vector = config.swapped ? c.first : c.second;
  p.panels_ahead = panels_ahead;
  p.rows = config.strassen              ? Rows::sums
           : rows_ahead                 ? Rows::ahead
           : config.copied              ? Rows::copied
           : can_be_direct(c, p.scalar) ? Rows::direct
                                        : Rows::packed;
  p.width = target.vector_bytes / 4;
  p.mr = config.rows * p.halves();
  p.nr = config.vectors * p.width * p.halves();
  p.blocks_m = blocks(p.scalar.extent, p.mr);
  p.blocks_n = blocks(p.vector.extent, p.nr);
  p.outer = c.nest.math.extent(c.k[0]);
  p.inner = c.depth / p.outer;
  p.step = p.outer;
  if (p.rows == Rows::direct && c.k.size() == 2) {
    p.step = 1;
  } else if ((!panels_ahead || p.rows == Rows::packed) && c.depth > 2 * kDepth) {
    p.step = std::max<int64_t>(1, kDepth / p.inner);
  }
  p.row_step = 1;
  p.k_step = p.mr;
  if (p.rows == Rows::direct) {
    auto step = side_step(c, p.scalar);
    p.pointers = !step;
    p.row_step = step ? *step : *c.nest.math.stride(c.load(p.scalar).at, p.scalar.iterators.back());
    p.k_step = k_stride(c, p.scalar);
  } else if (p.rows == Rows::copied) {
    p.row_step = padded_row(p.pass_depth());
    p.k_step = 1;
  } else if (p.rows == Rows::sums) {
    p.row_step = padded_row(blocks(c.depth, 2));
    p.k_step = 1;
  }
  p.cut(config.blocks_m, config.blocks_n);
  p.turns_panels = !panels_ahead && c.load(p.vector).bounds.empty() && side_step(c, p.vector) &&
                   *side_step(c, p.vector) != 1 && k_stride(c, p.vector) == 1 &&
                   p.vector.extent >= p.width && c.nest.math.extent(c.k.back()) >= p.width;
  p.along_scalar = runs_along(c, p.scalar, p.vector);
  return p;
}

}  // namespace emend
