#include <complex>

#include "ops/meaning_eval.h"

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
  for (size_t i = 0; i < n_all; ++i) {
    int iterator = static_cast<int>(i);
    if (i >= n_out)
      plan.reduced.push_back(iterator);
    else if (used[0][i] && used[1][i])
      plan.batch.push_back(iterator);
    else if (used[1][i])
      plan.columns.push_back(iterator);
    else
      plan.rows.push_back(iterator);
  }
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

Side side_of(const Meaning& m, int which, const Stored& operand, std::span<const int> own,
             std::span<const int> reduced, const std::vector<int64_t>& batch) {
  const Read& read = m.reads[static_cast<size_t>(which)];
  Dims extents = m.extents();
  Side side;
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
  return side;
}

namespace {

// Elements of `bits` bits moved without looking at them.
void move_elements(const Meaning& m, const Stored& source, DType dtype, std::byte* out,
                   std::span<const Stored> operands) {
  size_t width = static_cast<size_t>(info(dtype).bits) / 8;
  auto move = [&](int64_t first, int64_t last) {
    constexpr size_t kBlock = 1024;
    std::vector<BlockReader> readers;
    readers.reserve(m.reads.size());
    for (const Read& r : m.reads) {
      readers.emplace_back(m, r, operands[static_cast<size_t>(r.operand)]);
    }
    std::vector<std::vector<int64_t>> iterators, ints(m.reads.size());
    std::vector<int64_t> offsets, point(m.out.size(), 0);
    std::byte fill[16] = {};
    if (m.reads.back().outside) {
      double v = *m.reads.back().outside;
      if (source.encoded && dtype == DType::c128) {
        Symbol symbol = Symbol::of(v);
        std::memcpy(fill, &symbol, sizeof symbol);
      } else if (source.encoded && dtype == DType::u64) {
        store_int(dtype, fill, 0, static_cast<int64_t>(Mod61::of(v).v));
      } else if (source.encoded && dtype == DType::i64) {
        store_int(dtype, fill, 0, CheckedInt::of(v).v);
      } else if (is_complex(dtype)) {
        store_real(dtype == DType::c64 ? DType::f32 : DType::f64, fill, 0, v);
      } else {
        store_real(dtype, fill, 0, v, true);
      }
    }
    for (int64_t at = first; at < last; at += static_cast<int64_t>(kBlock)) {
      auto n = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(kBlock), last - at));
      block_iterators(m.out, static_cast<size_t>(at), n, iterators);
      bool all = true;
      for (size_t r = 0; r < readers.size(); ++r) {
        readers[r].start(n, iterators);
        all = readers[r].offsets(point.data(), ints, offsets);
        if (r + 1 == readers.size()) break;
        const Stored& operand = operands[static_cast<size_t>(m.reads[r].operand)];
        ints[r].resize(n);
        for (size_t i = 0; i < n; ++i) {
          ints[r][i] = load_int(operand.dtype, operand.data, static_cast<size_t>(offsets[i]));
        }
      }
      const auto& inside = readers.back().inside;
      if (width == 0) {  // packed: move codes
        DType code = info(dtype).bits == 4 ? DType::u4 : DType::u2;
        for (size_t i = 0; i < n; ++i) {
          bool in = all || inside[i];
          store_int(code, out, static_cast<size_t>(at) + i,
                    in ? load_int(code, source.data, static_cast<size_t>(offsets[i]))
                       : load_int(code, fill, 0));
        }
        continue;
      }
      auto copy = [&](auto size) {
        for (size_t i = 0; i < n; ++i) {
          const std::byte* from =
              all || inside[i] ? source.data + static_cast<size_t>(offsets[i]) * size : fill;
          std::memcpy(out + (static_cast<size_t>(at) + i) * size, from, size);
        }
      };
      switch (width) {
        case 1:
          copy(std::integral_constant<size_t, 1>());
          break;
        case 2:
          copy(std::integral_constant<size_t, 2>());
          break;
        case 4:
          copy(std::integral_constant<size_t, 4>());
          break;
        case 8:
          copy(std::integral_constant<size_t, 8>());
          break;
        default:
          copy(width);
          break;
      }
    }
  };
  int64_t grain = 1 << 14;
  parallel_for((count(m.out) + grain - 1) / grain, 1, [&](int64_t begin, int64_t end) {
    move(begin * grain, std::min(count(m.out), end * grain));
  });
}

Tensor move_strings(const Meaning& m, std::span<const Tensor> operands, Dims shape) {
  const Tensor& source = operands[static_cast<size_t>(m.reads.back().operand)];
  Dims strides = row_major_strides(source.shape());
  std::vector<std::string> moved;
  std::vector<int64_t> point(m.out.size(), 0), ints(m.reads.size());
  for (int64_t i = 0; i < count(m.out); ++i, next_point(point.data(), m.out)) {
    for (size_t r = 0; r < m.reads.size(); ++r) {
      const Tensor& operand = operands[static_cast<size_t>(m.reads[r].operand)];
      Dims operand_strides = row_major_strides(operand.shape());
      int64_t at = 0;
      bool inside = true;
      for (size_t d = 0; d < m.reads[r].index.size(); ++d) {
        int64_t index = evaluate(m.reads[r].index[d], point.data(), ints.data());
        inside = inside && index >= 0 && index < operand.shape()[d];
        at += index * operand_strides[d];
      }
      if (!inside && !m.reads[r].outside) throw Error("index out of range");
      if (r + 1 < m.reads.size())
        ints[r] = operand.integer(at);
      else
        moved.push_back(inside ? source.strings()[static_cast<size_t>(at)] : "");
    }
  }
  return Tensor::of_strings(std::move(shape), std::move(moved));
}

bool has_fractions(const Scalar& s) {
  return std::any_of(s.code.begin(), s.code.end(), [](const Instr& i) {
    return i.fn == Fn::constant && std::isfinite(i.value) && i.value != std::floor(i.value);
  });
}

bool is_float_like(DType t) {
  return is_float(t) || is_complex(t);
}

}  // namespace

DType stored_dtype(Arithmetic a, DType t) {
  static_assert(sizeof(Symbol) == 16, "a Symbol is stored in the place of a c128");
  // Comparisons of uninterpreted values are uninterpreted too.
  if (a == Arithmetic::symbol && t == DType::boolean) return DType::c128;
  if (!is_float(t)) return t;
  switch (a) {
    case Arithmetic::own:
      return t;
    case Arithmetic::real64:
      return DType::f64;
    case Arithmetic::integer:
      return DType::i64;
    case Arithmetic::field:
      return DType::u64;
    case Arithmetic::symbol:
      return DType::c128;
  }
  return t;
}

Tensor evaluate_meaning(const Meaning& m, Arithmetic a, Types types,
                        std::span<const Tensor> operands, DType declared, Dims shape) {
  bool movement = is_movement(m);
  if (movement && declared == DType::string) return move_strings(m, operands, std::move(shape));
  DType result = stored_dtype(a, declared);
  std::vector<Stored> stored;
  bool any_float = is_float_like(declared) || result != declared,
       any_complex = is_complex(declared), any_u64 = false;
  bool only_f32 = !is_float(declared) || declared == DType::f32;
  for (size_t i = 0; i < operands.size(); ++i) {
    DType t = types[i].dtype;
    bool exact = is_exact(a) && stored_dtype(a, t) != t;
    stored.push_back({operands[i].dtype(), exact, operands[i].shape(),
                      row_major_strides(operands[i].shape()), operands[i].data()});
    any_float |= is_float_like(t) || exact;
    any_complex |= is_complex(t);
    any_u64 |= t == DType::u64;
    if (is_float(t) && t != DType::f32) only_f32 = false;
  }
  return Tensor::make(result, std::move(shape), [&](std::byte* out) {
    if (count(m.out) == 0) return;
    if (movement) {
      const Stored& source = stored[static_cast<size_t>(m.reads.back().operand)];
      if (source.dtype == result) return move_elements(m, source, result, out, stored);
    }
    if (any_complex) return evaluate_as<std::complex<double>>(m, stored, result, out);
    if (any_float) {
      switch (a) {
        case Arithmetic::field:
          return evaluate_as<Mod61>(m, stored, result, out);
        case Arithmetic::integer:
          return evaluate_as<CheckedInt>(m, stored, result, out);
        case Arithmetic::symbol:
          return evaluate_as<Symbol>(m, stored, result, out);
        case Arithmetic::real64:
          return evaluate_as<double>(m, stored, result, out);
        case Arithmetic::own:
          break;
      }
      if (only_f32) return evaluate_as<float>(m, stored, result, out);
      return evaluate_as<double>(m, stored, result, out);
    }
    // An integer operator with a fractional attribute computes with it and truncates the result.
    if (has_fractions(m.body)) return evaluate_as<double>(m, stored, result, out);
    if (any_u64 || declared == DType::u64) return evaluate_as<uint64_t>(m, stored, result, out);
    return evaluate_as<int64_t>(m, stored, result, out);
  });
}

}  // namespace emend
