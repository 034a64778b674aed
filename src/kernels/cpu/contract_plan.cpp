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

bool has_whole_words(const Contraction& c) {
  return c.nest.math.extent(c.k.back()) % factors_per_word(c.product) == 0;
}

// One stride along k, but for the outermost k, which is then taken one at a time. Of words, the
// factors must be neighbours.
bool can_be_direct(const Contraction& c, const Side& s) {
  bool words = c.product == Product::f32 || (has_whole_words(c) && k_stride(c, s) == 1);
  return words && s.factor.bounds.empty() && (c.k.size() == 1 || c.k.size() == 2);
}

bool can_be_copied(const Contraction& c, const Side& s) {
  if (k_stride(c, s) != 1) return false;
  if (c.product == Product::f32) return s.factor.bounds.empty();
  // A run along the innermost k is copied or filled as a whole.
  auto cut = [&](const Bound& b) { return c.nest.math.stride(b.at, c.k.back()) != 0; };
  return (c.k.size() == 1 || has_whole_words(c)) && std::ranges::none_of(s.factor.bounds, cut);
}

bool can_be_summed(const Contraction& c, const Side& s) {
  if (c.product != Product::f32) return false;
  int64_t step = 1;
  for (size_t i = c.k.size(); i-- > 0; step *= c.nest.math.extent(c.k[i])) {
    if (c.nest.math.stride(c.load(s).at, c.k[i]) != step) return false;
  }
  return s.factor.bounds.empty();
}

int64_t ContractPlan::sums_step() const {
  return config.blocks_n == 1 ? nr : padded_row(task_columns());
}

void ContractPlan::cut(int64_t rows_, int64_t columns) {
  config.blocks_m = rows_;
  config.blocks_n = columns;
  tasks_m = blocks(blocks_m, rows_);
  tasks_n = blocks(blocks_n, columns);
  held = rows == Rows::copied   ? task_rows() * row_step * unit / 4
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

namespace {

// The instruction multiplies an unsigned byte by a signed one: of two that are alike one is
// flipped, rather a side that is packed anyhow.
void choose_signs(ContractPlan& p, const Contraction& c, const Target& target) {
  Arithmetic32& a = p.arithmetic;
  a = {.product = c.product, .width = target.vector_bytes / 4};
  a.dots = c.product == Product::bytes  ? target.byte_dots
           : c.product == Product::bf16 ? target.bf16_dots
                                        : false;
  if (c.product != Product::bytes) return;
  a.signed_rows = c.load(p.scalar).dtype == DType::i8;
  a.signed_vectors = c.load(p.vector).dtype == DType::i8;
  if (!a.dots || a.signed_rows != a.signed_vectors) return;
  (p.panels_ahead ? p.flips_rows : p.flips_panels) = true;
  a.signed_rows ^= p.flips_rows;
  a.signed_vectors ^= p.flips_panels;
}

void choose_steps(ContractPlan& p, const Contraction& c) {
  const int64_t bytes = 4 / p.per_word;  // of a factor
  p.unit = c.product == Product::f32 ? 4 : 1;
  p.row_step = 4 / p.unit;
  p.k_step = p.mr * 4 / p.unit;
  if (p.rows == Rows::direct) {
    auto step = side_step(c, p.scalar);
    p.pointers = !step;
    p.row_step = step ? *step : *c.nest.math.stride(c.load(p.scalar).at, p.scalar.iterators.back());
    p.row_step *= bytes / p.unit;
    p.k_step = k_stride(c, p.scalar) * 4 / p.unit;
  } else if (p.rows == Rows::copied) {
    p.row_step = padded_row(p.pass_depth()) * 4 / p.unit;
    p.k_step = 4 / p.unit;
  } else if (p.rows == Rows::sums) {
    p.row_step = padded_row(blocks(c.depth, 2));
    p.k_step = 1;
  }
}

bool turns_panels(const ContractPlan& p, const Contraction& c) {
  if (p.panels_ahead || !p.vector.factor.bounds.empty() || !has_whole_words(c)) return false;
  auto step = side_step(c, p.vector);
  return step && *step != 1 && *step % p.per_word == 0 && k_stride(c, p.vector) == 1 &&
         p.vector.extent >= p.width && c.nest.math.extent(c.k.back()) / p.per_word >= p.width;
}

}  // namespace

ContractPlan contract_plan(const Contraction& c, const ContractConfig& config, bool panels_ahead,
                           bool rows_ahead, const Target& target) {
  ContractPlan p;
  p.config = config;
  p.scalar = config.swapped ? c.second : c.first;
  p.vector = config.swapped ? c.first : c.second;
  p.panels_ahead = panels_ahead;
  choose_signs(p, c, target);
  p.rows = config.strassen                               ? Rows::sums
           : rows_ahead                                  ? Rows::ahead
           : config.copied                               ? Rows::copied
           : can_be_direct(c, p.scalar) && !p.flips_rows ? Rows::direct
                                                         : Rows::packed;
  p.per_word = factors_per_word(c.product);
  p.depth = blocks(c.depth, p.per_word);
  p.width = p.arithmetic.width;
  p.mr = config.rows * p.halves();
  p.nr = config.vectors * p.width * p.halves();
  p.blocks_m = blocks(p.scalar.extent, p.mr);
  p.blocks_n = blocks(p.vector.extent, p.nr);
  p.outer = c.nest.math.extent(c.k[0]);
  p.inner = c.depth / p.outer;
  p.step = p.outer;
  if (p.rows == Rows::direct && c.k.size() == 2) {
    p.step = 1;
  } else if ((!panels_ahead || p.rows == Rows::packed) && p.depth > 2 * kDepth &&
             has_whole_words(c)) {
    p.step = std::max<int64_t>(1, kDepth * p.per_word / p.inner);
  }
  choose_steps(p, c);
  p.cut(config.blocks_m, config.blocks_n);
  p.turns_panels = turns_panels(p, c);
  p.along_scalar = runs_along(c, p.scalar, p.vector);
  return p;
}

}  // namespace emend
