#include "egraph/tables.h"

#include <algorithm>
#include <array>
#include <bit>

namespace emend {
namespace {

// One stable pass of a radix sort: positions by one digit of one column.
constexpr uint32_t kDigit = 11;

void sort_by_digit(const Table& table, uint32_t column, uint32_t shift,
                   const Column<uint32_t>& from, Column<uint32_t>& to) {
  std::array<uint32_t, 1 << kDigit> begins{};
  const uint32_t* rows = table.rows.data() + column;
  const size_t stride = table.stride;
  constexpr uint32_t kMask = (1 << kDigit) - 1;
  for (uint32_t i : from) ++begins[rows[i * stride] >> shift & kMask];
  uint32_t sum = 0;
  for (uint32_t& b : begins) sum += std::exchange(b, sum);
  for (uint32_t i : from) to[begins[rows[i * stride] >> shift & kMask]++] = i;
}

void fill(TableIndex& index, const Table& table, size_t ids) {
  const size_t size = table.size(), stride = table.stride;
  Column<uint32_t> order, other;
  order.resize_unwritten(size);
  other.resize_unwritten(size);
  for (size_t i = 0; i < size; ++i) order[i] = static_cast<uint32_t>(i);
  const auto bits = static_cast<uint32_t>(std::bit_width(ids));
  auto sort_by = [&](uint32_t column) {
    for (uint32_t shift = 0; shift < bits; shift += kDigit) {
      sort_by_digit(table, column, shift, order, other);
      order.swap(other);
    }
  };
  for (auto c = index.columns.rbegin(); c != index.columns.rend(); ++c) sort_by(*c);
  index.rows.resize_unwritten(size * stride);
  for (size_t i = 0; i < size; ++i) {
    std::copy_n(table.row(order[i]), stride, index.rows.data() + i * stride);
  }
  index.begins.clear();
  constexpr size_t kSparse = 8;
  if (size * kSparse < ids) return;
  index.begins.resize(ids + 1, 0);
  const uint32_t* keys = index.rows.data() + index.columns[0];
  for (size_t i = 0; i < size; ++i) ++index.begins[keys[i * stride] + 1];
  for (size_t i = 0; i < ids; ++i) index.begins[i + 1] += index.begins[i];
}

// The first row of [begin, end) whose column is at least `value`; rows are ordered by it.
size_t lower_bound(const uint32_t* rows, size_t stride, uint32_t column, size_t begin, size_t end,
                   uint32_t value) {
  size_t count = end - begin;
  while (count > 0) {
    const size_t half = count / 2;
    if (rows[(begin + half) * stride + column] < value) {
      begin += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return begin;
}

}  // namespace

size_t Table::first_since(uint32_t time) const {
  return lower_bound(rows.data(), stride, kTimeColumn, 0, size(), time);
}

std::pair<size_t, size_t> Table::range(const TableIndex& index,
                                       std::span<const uint32_t> values) const {
  size_t begin = 0, end = index.rows.size() / stride, i = 0;
  if (!index.begins.empty()) {
    begin = index.begins[values[0]];
    end = index.begins[values[0] + 1];
    i = 1;
  }
  const uint32_t* data = index.rows.data();
  for (; i < values.size() && begin < end; ++i) {
    begin = lower_bound(data, stride, index.columns[i], begin, end, values[i]);
    size_t past = begin;  // runs are short
    while (past < end && past < begin + 8 && data[past * stride + index.columns[i]] == values[i]) {
      ++past;
    }
    end = past == begin + 8 && past < end
              ? lower_bound(data, stride, index.columns[i], past, end, values[i] + 1)
              : past;
  }
  return {begin, end};
}

const Table* Tables::find(uint32_t kind) const {
  const uint32_t op = kind & 0xFFFF;
  if (op >= by_op_.size()) return nullptr;
  for (uint32_t place : by_op_[op]) {
    if (tables_[place].table.kind == kind) return &tables_[place].table;
  }
  return nullptr;
}

Tables::Entry& Tables::at(uint32_t kind) {
  const uint32_t op = kind & 0xFFFF;
  if (op >= by_op_.size()) by_op_.resize(op + 1);
  for (uint32_t place : by_op_[op]) {
    if (tables_[place].table.kind == kind) return tables_[place];
  }
  by_op_[op].push_back(static_cast<uint32_t>(tables_.size()));
  Entry& entry = tables_.emplace_back();
  entry.table.kind = kind;
  entry.table.stride = kChildColumn + (kind >> 16);
  return entry;
}

const TableIndex& Tables::prepare(uint32_t kind, std::span<const uint32_t> columns) {
  Table& table = at(kind).table;
  size_t place = 0;
  while (place < table.indexes.size() &&
         !std::equal(columns.begin(), columns.end(), table.indexes[place].columns.begin(),
                     table.indexes[place].columns.end())) {
    ++place;
  }
  if (place == table.indexes.size()) {
    table.indexes.push_back({.columns = {columns.begin(), columns.end()}, .version = UINT32_MAX});
  }
  TableIndex& index = table.indexes[place];
  if (index.version != table.version || (!index.begins.empty() && index.begins.size() <= ids_)) {
    fill(index, table, ids_);
    index.version = table.version;
  }
  return index;
}

size_t Tables::bytes() const {
  size_t sum = 0;
  for (const Entry& e : tables_) {
    sum += e.table.rows.bytes();
    for (const TableIndex& i : e.table.indexes) sum += i.rows.bytes() + i.begins.bytes();
  }
  return sum;
}

}  // namespace emend
