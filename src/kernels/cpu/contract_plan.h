// How a contraction is computed, as numbers: what a configuration of `contract` means for one
// group. contract.cpp chooses among them, contract_printer.h prints one.
#pragma once

#include "base/fields.h"
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/tile_printer.h"
#include "kernels/kernel.h"

namespace emend {

struct ContractConfig {
  bool swapped = false;                // the first factor is the one along the vectors
  int64_t rows = 8;                    // of a tile
  int64_t vectors = 2;                 // of a tile, in registers
  int64_t blocks_m = 1, blocks_n = 1;  // tiles of one task
  bool copied = false;                 // rows are copied before they are read
  bool strassen = false;               // seven products of quarters, see strassen.h
  double bound = 1e-4;                 // of their errors, see sum_bound.h
  EMEND_FIELDS(swapped, rows, vectors, blocks_m, blocks_n, copied, strassen, bound)
};

// Given: a buffer of the caller's, in which they are the rows of sums of another contraction.
enum class Rows : uint8_t { ahead, direct, copied, packed, sums, given };

// Everything that follows from a configuration. Memory is counted in words of 32 bits: an f32, or
// the two or four narrow factors of neighbouring k's that are multiplied together.
struct ContractPlan {
  ContractConfig config;
  Side scalar, vector;
  Rows rows = Rows::packed;
  bool panels_ahead = false;
  Arithmetic32 arithmetic;
  int64_t per_word = 1;                           // k's
  int64_t depth = 1;                              // words of all k
  bool flips_rows = false, flips_panels = false;  // bytes of that side change their sign: +-128
  int64_t width = 16;                             // words of a register
  int64_t mr = 8, nr = 32;                        // of a block: a tile, or four that go together
  int64_t blocks_m = 1, blocks_n = 1;             // of one batch
  int64_t tasks_m = 1, tasks_n = 1;               // of one batch
  int64_t inner = 1;                              // k's below the outermost
  int64_t outer = 1, step = 1;                    // outermost k's: all, and of one pass
  bool pointers = false;                          // rows have no one stride (but most, row_step)
  int64_t unit = 4;                               // bytes that steps count in
  int64_t row_step = 1, k_step = 1, held = 0;     // of rows as tiles see them; words kept of them
  bool turns_panels = false;                      // panels are packed by transposing blocks
  bool along_scalar = false;                      // the epilogue's lanes are rows
  bool sums_stay = false;                         // the caller takes them from their buffer

  void cut(int64_t rows, int64_t columns);  // blocks of one task
  void give_rows(int64_t step);             // rows are given, so many floats apart
  bool one_pass() const { return step >= outer; }
  int64_t pass_depth() const { return one_pass() ? depth : step * inner / per_word; }
  int64_t halves() const { return config.strassen ? 2 : 1; }  // of rows, columns and k
  int64_t tile_columns() const { return nr / halves(); }
  int64_t sums_step() const;
  int64_t task_rows() const { return config.blocks_m * mr; }
  int64_t task_columns() const { return config.blocks_n * nr; }
  // Sums of rows or columns that zero points are multiplied by.
  bool sums_columns() const { return flips_rows || scalar.factor.zero >= 0; }
  bool sums_rows() const { return flips_panels || vector.factor.zero >= 0; }
  // Consecutive tasks share columns that had to be packed, else rows.
  bool rows_first() const { return !panels_ahead; }
};

// The innermost k's fill whole words.
bool has_whole_words(const Contraction& c);
bool can_be_direct(const Contraction& c, const Side& s);
bool can_be_copied(const Contraction& c, const Side& s);
// Rows whose k's are neighbours: sums of them need no copies.
bool can_be_summed(const Contraction& c, const Side& s);
ContractPlan contract_plan(const Contraction& c, const ContractConfig& config, bool panels_ahead,
                           bool rows_ahead, const Target& target);
// The stride of a side's elements, numbered, in what it loads or in another tensor; none if it has
// more than one.
std::optional<int64_t> side_step(const Contraction& c, const Side& s, const Linear& at);
std::optional<int64_t> side_step(const Contraction& c, const Side& s);
// Rows an odd number of lines apart meet in no set of the cache more often than they must.
int64_t padded_row(int64_t depth);

}  // namespace emend
