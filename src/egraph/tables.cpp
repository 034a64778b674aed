#include "egraph/tables.h"

#include <algorithm>
#include <array>
#include <bit>

namespace emend {
namespace {

// One stable pass of a radix sort: positions by one digit of one column.
constexpr uint32_t kMostDigits = 11;

void sort_by_digit(const Table& table, uint32_t column, uint32_t shift, uint32_t digits,
                   const Column<uint32_t>& from, Column<uint32_t>& to) {
  std::array<uint32_t, 1 << kMostDigits> begins;
  std::fill_n(begins.begin(), size_t{1} << digits, 0);
  const uint32_t* rows = table.rows.data() + column;
  const size_t stride = table.stride;
  const uint32_t mask = (uint32_t{1} << digits) - 1;
  for (uint32_t i : from) ++begins[rows[i * stride] >> shift & mask];
  uint32_t sum = 0;
  for (size_t d = 0; d <= mask; ++d) sum += std::exchange(begins[d], sum);
  for (uint32_t i : from) to[begins[rows[i * stride] >> shift & mask]++] = i;
}

void sort_by_column(const Table& table, uint32_t column, Column<uint32_t>& order,
                    Column<uint32_t>& other) {
  uint32_t all = 0;
  for (size_t i = 0; i < order.size(); ++i) all |= table.row(i)[column];
  const auto bits = std::max(1u, static_cast<uint32_t>(std::bit_width(all)));
  const uint32_t passes = (bits + kMostDigits - 1) / kMostDigits;
  const uint32_t digits = (bits + passes - 1) / passes;
  for (uint32_t shift = 0; shift < bits; shift += digits) {
    sort_by_digit(table, column, shift, digits, order, other);
    order.swap(other);
  }
}

void fill(TableIndex& index, const Table& table, Column<uint32_t>& order, Column<uint32_t>& other) {
  const size_t size = table.size(), stride = table.stride;
  order.resize_unwritten(size);
  other.resize_unwritten(size);
  for (size_t i = 0; i < size; ++i) order[i] = static_cast<uint32_t>(i);
  for (size_t c = index.columns.size(); c-- > 1;) {
    sort_by_column(table, index.columns[c], order, other);
  }
  index.rows.resize_unwritten(size * stride);
  index.begins.clear();
  const uint32_t* keys = table.rows.data() + index.columns[0];
  size_t past = 0;  // all values
  for (size_t i = 0; i < size; ++i) past = std::max(past, size_t{keys[i * stride]} + 1);
  constexpr size_t kSparse = 8;
  index.present.clear();
  if (past > size * kSparse) {
    index.present.resize(past / 64 + 1, 0);
    for (size_t i = 0; i < size; ++i) {
      index.present[keys[i * stride] / 64] |= uint64_t{1} << keys[i * stride] % 64;
    }
    sort_by_column(table, index.columns[0], order, other);
    for (size_t i = 0; i < size; ++i) {
      std::copy_n(table.row(order[i]), stride, index.rows.data() + i * stride);
    }
    return;
  }
  // One digit for the whole first column: where its values begin is wanted anyway. begins[v + 1] is
  // where the next row of v goes, and in the end, where those of v + 1 begin.
  index.begins.resize(past + 2, 0);
  uint32_t* at = index.begins.data() + 1;
  for (size_t i = 0; i < size; ++i) ++at[keys[i * stride] + 1];
  for (size_t i = 1; i <= past; ++i) at[i] += at[i - 1];
  for (uint32_t i : order) {
    uint32_t* to = index.rows.data() + size_t{at[keys[i * stride]]++} * stride;
    const uint32_t* from = table.row(i);
    for (size_t w = 0; w < stride; ++w) to[w] = from[w];
  }
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

std::pair<size_t, size_t> Table::narrow(const TableIndex& index, std::span<const uint32_t> values,
                                        size_t first, size_t begin, size_t end) const {
  const uint32_t* data = index.rows.data();
  for (size_t i = first; i < values.size() && begin < end; ++i) {
    const uint32_t column = index.columns[i], value = values[i];
    begin = lower_bound(data, stride, column, begin, end, value);
    constexpr size_t kShort = 8;  // most runs are
    size_t past = begin;
    const size_t near = std::min(end, begin + kShort);
    while (past < near && data[past * stride + column] == value) ++past;
    if (past == near && past < end) {
      past = lower_bound(data, stride, column, past, end, value + 1);
    }
    end = past;
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
  if (index.version != table.version) {
    fill(index, table, order_, other_);
    index.version = table.version;
  }
  return index;
}

size_t Tables::bytes() const {
  size_t sum = order_.bytes() + other_.bytes();
  for (const Entry& e : tables_) {
    sum += e.table.rows.bytes();
    for (const TableIndex& i : e.table.indexes)
      sum += i.rows.bytes() + i.begins.bytes() + i.present.bytes();
  }
  return sum;
}

}  // namespace emend
