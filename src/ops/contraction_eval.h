// Evaluation of contractions: the two operands as matrices of rows and columns over the reduction,
// packed and multiplied panel by panel. Convolutions are packed as they go (implicit im2col).
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "ops/gemm.h"
#include "ops/meaning.h"
#include "ops/stored.h"

namespace emend {

// One side of a contraction: rows are positions of its own output iterators, columns positions of
// the reduction. Offsets and, for the dimensions that can run over a border, indices are sums of a
// row part and a column part.
struct FactorSide {
  std::vector<int64_t> row_offset, column_offset;
  struct Border {
    int64_t extent, constant;
    std::vector<int64_t> row, column;
  };
  std::vector<Border> borders;
  bool even_columns = false;  // consecutive columns lie one after the other
  const Stored* operand;
  double outside;
};

// Where each iterator of a contraction belongs.
struct ContractionPlan {
  std::vector<int> batch, rows, columns, reduced;  // iterators
  int left = 0;                                    // the read that has the rows
};
// Nothing when an index mixes the groups, or when there are so few rows or columns that panels do
// not pay.
std::optional<ContractionPlan> plan_contraction(const Meaning& m);
// The part of side `which` (0 or 1) at a point of the batch iterators.
FactorSide side_of(const Meaning& m, int which, const Stored& operand, std::span<const int> own,
                   std::span<const int> reduced, const std::vector<int64_t>& point);
// Output positions (flat) for all points of some iterators.
std::vector<int64_t> output_offsets(const Meaning& m, std::span<const int> iterators);
int64_t box_count(const Meaning& m, std::span<const int> iterators);

inline bool is_even(const int64_t* offsets, size_t n) {
  for (size_t i = 1; i < n; ++i) {
    if (offsets[i] != offsets[0] + static_cast<int64_t>(i)) return false;
  }
  return true;
}

// to[c] for every column c of one row.
template <class T>
void pack_row(const FactorSide& s, size_t row, T* to) {
  size_t columns = s.column_offset.size();
  with_loader<T>(*s.operand, [&](auto load) {
    int64_t at = s.row_offset[row];
    if (s.even_columns && s.borders.empty()) {
      at += columns ? s.column_offset[0] : 0;
      for (size_t c = 0; c < columns; ++c) to[c] = load(at + static_cast<int64_t>(c));
      return;
    }
    for (size_t c = 0; c < columns; ++c) {
      bool inside =
          std::all_of(s.borders.begin(), s.borders.end(), [&](const FactorSide::Border& b) {
            int64_t index = b.constant + b.row[row] + b.column[c];
            return index >= 0 && index < b.extent;
          });
      to[c] = inside ? load(at + s.column_offset[c]) : number<T>(s.outside);
    }
  });
}

// to[c * kPanel + i] for rows first + i, i < n, and every column c.
template <class T>
void pack_panel(const FactorSide& s, size_t first, size_t n, T* to) {
  const int64_t* rows = s.row_offset.data() + first;
  bool even = is_even(rows, n);
  // Per border the smallest and largest row part: columns for which all rows lie inside need no
  // look at each.
  std::vector<std::pair<int64_t, int64_t>> reach;
  for (const auto& b : s.borders) {
    auto [low, high] = std::minmax_element(b.row.begin() + static_cast<int64_t>(first),
                                           b.row.begin() + static_cast<int64_t>(first + n));
    reach.emplace_back(b.constant + *low, b.constant + *high);
  }
  with_loader<T>(*s.operand, [&](auto load) {
    for (size_t c = 0; c < s.column_offset.size(); ++c, to += kPanel) {
      int64_t at = s.column_offset[c];
      bool all = true;
      for (size_t b = 0; b < reach.size(); ++b) {
        int64_t moved = s.borders[b].column[c];
        all = all && reach[b].first + moved >= 0 && reach[b].second + moved < s.borders[b].extent;
      }
      if (all && even) {
        for (size_t i = 0; i < n; ++i) to[i] = load(at + rows[0] + static_cast<int64_t>(i));
      } else if (all) {
        for (size_t i = 0; i < n; ++i) to[i] = load(at + rows[i]);
      } else {
        for (size_t i = 0; i < n; ++i) {
          bool inside = true;
          for (const auto& b : s.borders) {
            int64_t index = b.constant + b.row[first + i] + b.column[c];
            inside = inside && index >= 0 && index < b.extent;
          }
          to[i] = inside ? load(at + rows[i]) : number<T>(s.outside);
        }
      }
    }
  });
}

// One contraction: all batch points share the plan.
template <class T>
class ContractionEvaluator {
 public:
  ContractionEvaluator(const Meaning& m, const ContractionPlan& plan,
                       std::span<const Stored> operands, DType result, std::byte* out)
      : m_(m),
        plan_(plan),
        operands_(operands),
        result_(result),
        out_(out),
        rows_at_(output_offsets(m, plan.rows)),
        columns_at_(output_offsets(m, plan.columns)),
        batch_at_(output_offsets(m, plan.batch)),
        k_(static_cast<size_t>(box_count(m, plan.reduced))) {}

  void run() {
    auto batches = static_cast<int64_t>(batch_at_.size());
    auto panels = static_cast<int64_t>((columns_at_.size() + kPanel - 1) / kPanel);
    if (batches > 1) {
      parallel_for(batches, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          FactorSide left = side(b, true), right = side(b, false);
          std::vector<T> rows(packed_rows());
          pack_rows(left, 0, rows_at_.size(), rows);
          multiply(rows, right, 0, panels, batch_at_[static_cast<size_t>(b)]);
        }
      });
      return;
    }
    FactorSide left = side(0, true), right = side(0, false);
    std::vector<T> rows(packed_rows());
    parallel_for(static_cast<int64_t>(rows_at_.size()), 16, [&](int64_t begin, int64_t end) {
      pack_rows(left, static_cast<size_t>(begin), static_cast<size_t>(end), rows);
    });
    parallel_for(panels, 1,
                 [&](int64_t begin, int64_t end) { multiply(rows, right, begin, end, 0); });
  }

 private:
  FactorSide side(int64_t batch, bool left) const {
    std::vector<int64_t> point(m_.out.size() + m_.reduced.size(), 0);
    for (size_t i = plan_.batch.size(); i-- > 0;) {
      int64_t extent = m_.out[static_cast<size_t>(plan_.batch[i])];
      point[static_cast<size_t>(plan_.batch[i])] = batch % extent;
      batch /= extent;
    }
    int which = left ? plan_.left : 1 - plan_.left;
    const Read& read = m_.reads[static_cast<size_t>(which)];
    return side_of(m_, which, operands_[static_cast<size_t>(read.operand)],
                   left ? plan_.rows : plan_.columns, plan_.reduced, point);
  }

  // Whole groups of kRows; the missing ones stay zero.
  size_t packed_rows() const { return (rows_at_.size() + kRows - 1) / kRows * kRows * k_; }
  void pack_rows(const FactorSide& left, size_t begin, size_t end, std::vector<T>& rows) const {
    for (size_t r = begin; r < end; ++r) pack_row(left, r, rows.data() + r * k_);
  }

  void multiply(const std::vector<T>& rows, const FactorSide& right, int64_t first_panel,
                int64_t last_panel, int64_t base) const {
    std::vector<T> panel(kPanel * std::max<size_t>(k_, 1));
    ScalarMachine<T> finish(m_.finish);
    bool has_finish = !is_argument(m_.finish, 0);
    T c[kRows * kPanel];
    for (int64_t p = first_panel; p < last_panel; ++p) {
      size_t column = static_cast<size_t>(p) * kPanel;
      size_t width = std::min(kPanel, columns_at_.size() - column);
      if (width < kPanel) std::fill(panel.begin(), panel.end(), T());
      pack_panel(right, column, width, panel.data());
      bool even = is_even(columns_at_.data() + column, width);
      for (size_t r = 0; r < rows_at_.size(); r += kRows) {
        std::fill(std::begin(c), std::end(c), T());
        gemm_panel(k_, rows.data() + r * k_, panel.data(), c);
        for (size_t i = 0; i < std::min(kRows, rows_at_.size() - r); ++i) {
          const T* values = c + i * kPanel;
          if (has_finish) values = finish.run(width, &values, nullptr);
          store(base + rows_at_[r + i], column, width, even, values);
        }
      }
    }
  }

  void store(int64_t row, size_t column, size_t width, bool even, const T* values) const {
    if (even) {
      return store_run(result_, out_, static_cast<size_t>(row + columns_at_[column]), width,
                       values);
    }
    for (size_t j = 0; j < width; ++j) {
      store_as(result_, out_, static_cast<size_t>(row + columns_at_[column + j]), values[j]);
    }
  }

  const Meaning& m_;
  const ContractionPlan& plan_;
  std::span<const Stored> operands_;
  DType result_;
  std::byte* out_;
  std::vector<int64_t> rows_at_, columns_at_, batch_at_;
  size_t k_;
};

}  // namespace emend
