// The e-graph as a database, for searching: one table per operator and arity with a row per live
// node, in order of the time at which the row came to be as it is, and indexes made on demand.
// Tables are a snapshot: they do not change while rules are applied. Rows are stored as they are
// compared, [node, time, class, children ...], so that a join touches nothing else.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "egraph/column.h"

namespace emend {

inline constexpr uint32_t kNodeColumn = 0, kTimeColumn = 1, kClassColumn = 2, kChildColumn = 3;

// The rows of one table ordered by some columns, and then as in the table.
struct TableIndex {
  std::vector<uint32_t> columns;
  Column<uint32_t> rows;
  // Where rows of a value of columns[0] begin, by value; larger ones have none. Empty where values
  // are few and far between: then by bisection, if the bit of the value says that it is there.
  Column<uint32_t> begins;
  Column<uint64_t> present;
  uint32_t version = 0;
};

struct Table {
  uint32_t kind = 0, stride = 0;
  uint32_t version = 0;  // grows with every change
  Column<uint32_t> rows;
  std::deque<TableIndex> indexes;  // they stay where they are

  size_t size() const { return rows.size() / stride; }
  const uint32_t* row(size_t i) const { return rows.data() + i * stride; }
  // The first row that came to be at `time` or later; all that follow did, too.
  size_t first_since(uint32_t time) const;
  // Rows [first, second) of `index` whose first columns have these values.
  std::pair<size_t, size_t> range(const TableIndex& index, std::span<const uint32_t> values) const {
    if (index.begins.empty()) {
      const size_t word = values[0] / 64;
      if (word >= index.present.size() || !(index.present[word] >> values[0] % 64 & 1)) {
        return {0, 0};
      }
      return narrow(index, values, 0, 0, index.rows.size() / stride);
    }
    if (values[0] + size_t{1} >= index.begins.size()) return {0, 0};
    const size_t begin = index.begins[values[0]], end = index.begins[values[0] + 1];
    if (values.size() == 1 || begin == end) return {begin, end};
    return narrow(index, values, 1, begin, end);
  }
  bool has(const TableIndex& index, uint32_t value) const {
    const auto [begin, end] = range(index, {&value, 1});
    return begin != end;
  }
  // The same by bisection, of rows of which the columns before `first` have their values.
  std::pair<size_t, size_t> narrow(const TableIndex& index, std::span<const uint32_t> values,
                                   size_t first, size_t begin, size_t end) const;
};

class Tables {
 public:
  // Not there: no node of this kind was ever seen.
  const Table* find(uint32_t kind) const;
  // Brings the index up to date; not while others search.
  const TableIndex& prepare(uint32_t kind, std::span<const uint32_t> columns);
  size_t bytes() const;

  // --- For EGraph::refresh: rows that are no longer true go, others come.
  template <class Gone>
  void drop(const Gone& gone) {
    for (auto& t : tables_) {
      if (t.stale) drop_from(t, gone);
    }
  }
  void mark_stale(uint32_t kind) { at(kind).stale = true; }
  // The columns of a row that the caller fills.
  uint32_t* append(uint32_t kind) {
    Entry& t = at(kind);
    t.table.version = version_;
    return t.table.rows.extend(t.table.stride);
  }
  void begin_update() { ++version_; }

 private:
  struct Entry {
    Table table;
    bool stale = false;
  };
  template <class Gone>
  void drop_from(Entry& entry, const Gone& gone) {
    Table& t = entry.table;
    const size_t stride = t.stride, size = t.rows.size();
    size_t to = 0;
    for (size_t from = 0; from < size; from += stride) {
      if (gone(t.rows[from])) continue;
      for (size_t w = 0; w < stride; ++w) t.rows[to + w] = t.rows[from + w];
      to += stride;
    }
    t.rows.resize_unwritten(to);
    t.version = version_;
    entry.stale = false;
  }
  Entry& at(uint32_t kind);

  std::deque<Entry> tables_;
  // By operator: the places of its tables, one per arity.
  std::vector<std::vector<uint32_t>> by_op_;
  Column<uint32_t> order_, other_;  // for sorting
  uint32_t version_ = 0;
};

}  // namespace emend
