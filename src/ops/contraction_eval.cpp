#include "ops/contraction_eval.h"

namespace emend {

std::optional<ContractionPlan> plan_contraction(const Meaning& m) {
  size_t n_out = m.out.size(), n_all = n_out + m.reduced.size();
  std::vector<bool> used[2] = {std::vector<bool>(n_all, false), std::vector<bool>(n_all, false)};
  for (size_t side = 0; side < 2; ++side) {
    for (const IndexExpr& e : m.reads[side].index) {
      if (e.read >= 0) return std::nullopt;
      for (auto t : e.affine.terms) used[side][static_cast<size_t>(t.first)] = true;
      for (const Digit& d : e.digits) {
        if (d.of.terms.size() > 1) return std::nullopt;  // may mix groups
        for (auto t : d.of.terms) used[side][static_cast<size_t>(t.first)] = true;
      }
    }
  }
  ContractionPlan plan;
  std::vector<int> of_side[2];
  for (size_t i = 0; i < n_all; ++i) {
    int iterator = static_cast<int>(i);
    if (i >= n_out)
      plan.reduced.push_back(iterator);
    else if (used[0][i] && used[1][i])
      plan.batch.push_back(iterator);
    else
      of_side[used[1][i] ? 1 : 0].push_back(iterator);
  }
  // Columns are what is vectorised and stored in runs: the side of the last output iterator, unless
  // it is narrower than a panel and the other is not.
  int64_t counts[2] = {box_count(m, of_side[0]), box_count(m, of_side[1])};
  if (std::min(counts[0], counts[1]) < static_cast<int64_t>(kRows)) return std::nullopt;
  int last = static_cast<int>(n_out) - 1;
  size_t columns = !of_side[0].empty() && of_side[0].back() == last ? 0 : 1;
  if (counts[columns] < static_cast<int64_t>(kPanel) && counts[1 - columns] > counts[columns]) {
    columns = 1 - columns;
  }
  plan.left = static_cast<int>(1 - columns);
  plan.rows = of_side[1 - columns];
  plan.columns = of_side[columns];
  return plan;
}

int64_t box_count(const Meaning& m, std::span<const int> iterators) {
  Dims extents = m.extents();
  int64_t n = 1;
  for (int i : iterators) n *= extents[static_cast<size_t>(i)];
  return n;
}

namespace {

// visit(index, point) for all points of a box of some iterators, in row-major order.
template <class Visit>
void for_each_point(const Dims& extents, std::span<const int> iterators, std::vector<int64_t> point,
                    const Visit& visit) {
  int64_t n = 1;
  for (int i : iterators) n *= extents[static_cast<size_t>(i)];
  for (int64_t index = 0; index < n; ++index) {
    int64_t rest = index;
    for (size_t k = iterators.size(); k-- > 0;) {
      int64_t extent = extents[static_cast<size_t>(iterators[k])];
      point[static_cast<size_t>(iterators[k])] = rest % extent;
      rest /= extent;
    }
    visit(static_cast<size_t>(index), point);
  }
}

}  // namespace

std::vector<int64_t> output_offsets(const Meaning& m, std::span<const int> iterators) {
  Dims strides = row_major_strides(m.out);
  std::vector<int64_t> offsets(static_cast<size_t>(box_count(m, iterators)));
  for_each_point(m.extents(), iterators, std::vector<int64_t>(m.extents().size(), 0),
                 [&](size_t index, const std::vector<int64_t>& point) {
                   int64_t at = 0;
                   for (size_t k = 0; k < strides.size(); ++k) at += strides[k] * point[k];
                   offsets[index] = at;
                 });
  return offsets;
}

FactorSide side_of(const Meaning& m, int which, const Stored& operand, std::span<const int> own,
                   std::span<const int> reduced, const std::vector<int64_t>& batch) {
  const Read& read = m.reads[static_cast<size_t>(which)];
  Dims extents = m.extents();
  FactorSide side;
  side.operand = &operand;
  side.outside = read.outside.value_or(0);
  size_t n_dims = read.index.size();
  std::vector<int64_t> origin(n_dims);
  for (size_t d = 0; d < n_dims; ++d) origin[d] = evaluate(read.index[d], batch.data(), nullptr);
  // Every index is a sum of a part per group, because no digit mixes iterators.
  auto part = [&](std::span<const int> iterators, std::vector<std::vector<int64_t>>& parts,
                  std::vector<int64_t>& offsets) {
    auto n = static_cast<size_t>(box_count(m, iterators));
    parts.assign(n_dims, std::vector<int64_t>(n));
    offsets.assign(n, 0);
    for_each_point(extents, iterators, batch, [&](size_t index, const std::vector<int64_t>& point) {
      for (size_t d = 0; d < n_dims; ++d) {
        int64_t moved = evaluate(read.index[d], point.data(), nullptr) - origin[d];
        parts[d][index] = moved;
        offsets[index] += moved * operand.strides[d];
      }
    });
  };
  std::vector<std::vector<int64_t>> rows, columns;
  part(own, rows, side.row_offset);
  part(reduced, columns, side.column_offset);
  for (size_t d = 0; d < n_dims; ++d) {
    for (int64_t& at : side.row_offset) at += origin[d] * operand.strides[d];
    auto [row_low, row_high] = std::minmax_element(rows[d].begin(), rows[d].end());
    auto [column_low, column_high] = std::minmax_element(columns[d].begin(), columns[d].end());
    if (rows[d].empty() || columns[d].empty()) continue;
    int64_t low = origin[d] + *row_low + *column_low, high = origin[d] + *row_high + *column_high;
    if (low < 0 || high >= operand.shape[d]) {
      EMEND_ASSERT(read.outside, "a contraction reads outside its operand");
      side.borders.push_back({operand.shape[d], origin[d], rows[d], columns[d]});
    }
  }
  side.even_columns = is_even(side.column_offset.data(), side.column_offset.size());
  return side;
}

}  // namespace emend
