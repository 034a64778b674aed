#include "mutate/correct.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ops/families.h"
#include "ops/patch.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr size_t kMaxRuns = 64;        // of one dimension of a box
constexpr size_t kMaxCells = 1 << 16;  // of the grid that all borders of boxes make

using Interval = std::pair<int64_t, int64_t>;

// Operations of what computes; moving elements is none.
double work_of(const Graph& g) {
  double sum = 0;
  for (const Node& n : g.nodes) {
    const OpDef& def = op_def(n);
    if (def.kind == Kind::structure || def.kind == Kind::movement) continue;
    std::vector<Type> types;
    for (NodeId a : n.args) types.push_back(g.type(a));
    if (def.means || !def.body.empty())
      sum += operation_count(meaning_of(def, n.attrs, types));
    else if (def.expand)
      sum += work_of(expansion(def, n.attrs, types));
  }
  return sum;
}

// The positions of one dimension that a box of digits stands for, as intervals.
std::vector<Interval> runs_of(const Digits& digits, const Agreement::Box& box, int dim) {
  std::vector<Interval> runs = {{0, 1}};
  // From the fastest digit on: values one after the other, where they touch, are one run.
  for (size_t k = digits.all.size(); k-- > 0;) {
    const Digits::One& d = digits.all[k];
    if (d.dim != dim) continue;
    std::vector<Interval> next;
    for (int64_t v = box.low[k]; v < box.high[k]; ++v) {
      for (auto [low, high] : runs) {
        const int64_t at = v * d.weight;
        if (!next.empty() && next.back().second == low + at)
          next.back().second = high + at;
        else
          next.emplace_back(low + at, high + at);
      }
      if (next.size() > kMaxRuns) return {};
    }
    runs = std::move(next);
  }
  return runs;
}

// Boxes of positions as cells of the grid that their borders make.
class Cells {
 public:
  static Result<Cells> of(const std::vector<PositionBox>& boxes, const Dims& shape) {
    Cells c;
    size_t all = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      std::set<int64_t> cuts = {0, shape[d]};
      for (const PositionBox& b : boxes) cuts.insert({b.low[d], b.high[d]});
      c.cuts_.emplace_back(cuts.begin(), cuts.end());
      c.counts_.push_back(static_cast<int64_t>(cuts.size()) - 1);
      all *= static_cast<size_t>(c.counts_.back());
      if (all > kMaxCells) return fail("scattered over too many boxes");
    }
    c.wrong_.assign(all, false);
    for (const PositionBox& b : boxes) {
      PositionBox cells;
      for (size_t d = 0; d < shape.size(); ++d) {
        cells.low.push_back(c.cell_at(d, b.low[d]));
        cells.high.push_back(c.cell_at(d, b.high[d]));
      }
      c.for_each(cells, [&](size_t i) { c.wrong_[i] = true; });
    }
    c.left_ = c.wrong_;
    return c;
  }

  // Greedily: of the largest boxes around the first cell that is left, the one that takes most.
  Result<std::vector<PositionBox>> cover(size_t most) {
    std::vector<PositionBox> boxes;
    for (auto it = left_.begin(); (it = std::find(it, left_.end(), true)) != left_.end();) {
      if (boxes.size() == most) return fail("scattered over more than ", most, " boxes");
      PositionBox best = trimmed(largest_at(static_cast<size_t>(it - left_.begin())));
      for_each(best, [&](size_t i) { left_[i] = false; });
      for (size_t d = 0; d < counts_.size(); ++d) {
        best.low[d] = cuts_[d][static_cast<size_t>(best.low[d])];
        best.high[d] = cuts_[d][static_cast<size_t>(best.high[d])];
      }
      boxes.push_back(std::move(best));
    }
    return boxes;
  }

 private:
  int64_t cell_at(size_t d, int64_t position) const {
    return std::ranges::lower_bound(cuts_[d], position) - cuts_[d].begin();
  }

  template <class Visit>
  void for_each(const PositionBox& cells, const Visit& visit) const {
    Dims at = cells.low;
    while (true) {
      size_t flat = 0;
      for (size_t d = 0; d < at.size(); ++d)
        flat = flat * static_cast<size_t>(counts_[d]) + static_cast<size_t>(at[d]);
      visit(flat);
      size_t d = at.size();
      while (d-- > 0 && ++at[d] == cells.high[d]) at[d] = cells.low[d];
      if (d == static_cast<size_t>(-1)) return;
    }
  }

  double positions_left(const PositionBox& cells) const {
    double sum = 0;
    for_each(cells, [&](size_t i) { sum += left_[i] ? positions(i) : 0; });
    return sum;
  }
  double positions(size_t flat) const {
    double product = 1;
    for (size_t d = counts_.size(); d-- > 0; flat /= static_cast<size_t>(counts_[d])) {
      const size_t at = flat % static_cast<size_t>(counts_[d]);
      product *= static_cast<double>(cuts_[d][at + 1] - cuts_[d][at]);
    }
    return product;
  }

  // Grown along the dimensions, one after the other, in every order of these.
  PositionBox largest_at(size_t flat) const {
    PositionBox seed{Dims(counts_.size()), Dims(counts_.size())}, best;
    for (size_t d = counts_.size(); d-- > 0; flat /= static_cast<size_t>(counts_[d])) {
      seed.low[d] = static_cast<int64_t>(flat % static_cast<size_t>(counts_[d]));
      seed.high[d] = seed.low[d] + 1;
    }
    std::vector<size_t> order(counts_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    double taken = -1;
    do {
      PositionBox box = seed;
      for (size_t d : order) grow(box, d);
      const double n = positions_left(box);
      if (n > taken) {
        taken = n;
        best = box;
      }
    } while (std::next_permutation(order.begin(), order.end()));
    return best;
  }
  void grow(PositionBox& box, size_t d) const {
    const auto all_wrong = [&](int64_t at) {
      PositionBox slab = box;
      slab.low[d] = at;
      slab.high[d] = at + 1;
      bool wrong = true;
      for_each(slab, [&](size_t i) { wrong &= wrong_[i]; });
      return wrong;
    };
    while (box.low[d] > 0 && all_wrong(box.low[d] - 1)) --box.low[d];
    while (box.high[d] < counts_[d] && all_wrong(box.high[d])) ++box.high[d];
  }

  // Without slabs at its ends that other boxes took.
  PositionBox trimmed(PositionBox box) const {
    const auto taken = [&](size_t d, int64_t at) {
      PositionBox slab = box;
      slab.low[d] = at;
      slab.high[d] = at + 1;
      return positions_left(slab) == 0;
    };
    for (size_t d = 0; d < counts_.size(); ++d) {
      while (taken(d, box.low[d])) ++box.low[d];
      while (taken(d, box.high[d] - 1)) --box.high[d];
    }
    return box;
  }

  std::vector<Dims> cuts_;  // per dimension, borders of its cells
  Dims counts_;
  std::vector<bool> wrong_, left_;
};

}  // namespace

Result<std::vector<PositionBox>> disagreement(const Agreement& where, const Dims& shape,
                                              size_t most) {
  std::vector<PositionBox> boxes;
  for (const Agreement::Box& box : where.boxes) {
    if (box.agree) continue;
    std::vector<PositionBox> parts = {{}};
    for (size_t d = 0; d < shape.size(); ++d) {
      const std::vector<Interval> runs = runs_of(where.digits, box, static_cast<int>(d));
      if (runs.empty() || parts.size() * runs.size() > kMaxCells)
        return fail("scattered over too many boxes");
      std::vector<PositionBox> next;
      for (const PositionBox& p : parts) {
        for (auto [low, high] : runs) {
          if (low >= shape[d]) continue;  // digits of no position
          next.push_back(p);
          next.back().low.push_back(low);
          next.back().high.push_back(std::min(high, shape[d]));
        }
      }
      parts = std::move(next);
    }
    boxes.insert(boxes.end(), parts.begin(), parts.end());
    if (boxes.size() > kMaxCells) return fail("scattered over too many boxes");
  }
  auto cells = Cells::of(boxes, shape);
  if (!cells) return Failure{cells.error()};
  return cells->cover(most);
}

Result<Correction> corrected(const Graph& original, const Graph& mutant, const Agreement& where,
                             const CorrectOptions& options) {
  auto boxes =
      disagreement(where, original.type(original.outputs[0].node).shape, options.max_patches);
  if (!boxes) return Failure{boxes.error()};
  return corrected(original, mutant, *boxes, options);
}

Result<Correction> corrected(const Graph& original, const Graph& mutant,
                             const std::vector<PositionBox>& where, const CorrectOptions& options) {
  GraphBuilder b, repair;
  std::vector<NodeId> inputs;
  for (const GraphInput& i : original.inputs) {
    inputs.push_back(b.input(i.name, original.type(i.node)));
    repair.input(i.name, original.type(i.node));
  }
  auto fixes = restricted(b, original, inputs, where, options.together);
  if (!fixes) return Failure{fixes.error()};
  NodeId whole = splice(b, mutant, inputs)[0];
  for (size_t i = 0; i < where.size(); ++i)
    whole = b.op("patch", {whole, (*fixes)[i]}, Patch{where[i].low});
  b.output("y", whole);
  for (NodeId fix : restricted(repair, original, inputs, where, options.together).value_or_throw())
    repair.output("y", fix);
  Correction c{.program = std::move(b).build(), .patches = where};
  const double all = work_of(original);
  c.share = all > 0 ? work_of(std::move(repair).build()) / all : 0;
  if (c.share > options.max_share) {
    return fail("repairs take ", std::round(c.share * 100), " % of the work, more than ",
                std::round(options.max_share * 100), " %");
  }
  return c;
}

}  // namespace emend
