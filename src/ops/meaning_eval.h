// Evaluation of meanings over one number type T: blocks of consecutive outputs through the scalar
// body for the general case, packed panels for contractions. Included by the evaluate_*.cpp files,
// which instantiate it.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "ops/gemm.h"
#include "ops/meaning.h"
#include "ops/scalar_eval.h"

namespace emend {

// An operand or result as the evaluator sees it.
struct Stored {
  DType dtype;   // as stored
  bool encoded;  // holds exact numbers in raw form (a float of the program, arithmetic exact)
  Dims shape, strides;
  const std::byte* data;
};

template <class T>
T load_as(const Stored& s, size_t at) {
  if constexpr (std::is_same_v<T, Mod61>) {
    if (s.encoded) return Mod61(static_cast<uint64_t>(load_int(DType::u64, s.data, at)));
    return Mod61::of(load_int(s.dtype, s.data, at));
  } else if constexpr (std::is_same_v<T, Symbol>) {
    if (!s.encoded) return Symbol::of(load_int(s.dtype, s.data, at));
    Symbol v;
    std::memcpy(&v, s.data + at * sizeof(Symbol), sizeof(Symbol));
    return v;
  } else if constexpr (std::is_same_v<T, CheckedInt>) {
    return CheckedInt(load_int(s.dtype, s.data, at));
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    if (s.dtype == DType::c64) {
      return {load_real(DType::f32, s.data, at * 2), load_real(DType::f32, s.data, at * 2 + 1)};
    }
    if (s.dtype == DType::c128) {
      return {load_real(DType::f64, s.data, at * 2), load_real(DType::f64, s.data, at * 2 + 1)};
    }
    return load_real(s.dtype, s.data, at);
  } else if constexpr (kIsReal<T>) {
    return static_cast<T>(load_real(s.dtype, s.data, at));
  } else {
    return static_cast<T>(load_int(s.dtype, s.data, at));
  }
}

template <class T>
void store_as(DType dtype, std::byte* data, size_t at, const T& v) {
  if constexpr (std::is_same_v<T, Symbol>) {
    if (dtype != DType::c128) throw Inexact("an integer depends on a real number");
    std::memcpy(data + at * sizeof(Symbol), &v, sizeof(Symbol));
  } else if constexpr (kIsExact<T>) {
    store_int(dtype, data, at, static_cast<int64_t>(v.v));
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    if (is_complex(dtype)) {
      DType part = dtype == DType::c64 ? DType::f32 : DType::f64;
      store_real(part, data, at * 2, v.real());
      store_real(part, data, at * 2 + 1, v.imag());
    } else {
      store_real(dtype, data, at, v.real());
    }
  } else if constexpr (kIsReal<T>) {
    store_real(dtype, data, at, v);
  } else {
    store_int(dtype, data, at, static_cast<int64_t>(v));
  }
}

// out[i] = s[offsets[i]] for i < n; the common storage types without a switch per element.
template <class T>
void gather(const Stored& s, const int64_t* offsets, size_t n, T* out) {
  auto plain = [&]<class S>(S) {
    for (size_t i = 0; i < n; ++i) {
      S v;
      std::memcpy(&v, s.data + static_cast<size_t>(offsets[i]) * sizeof(S), sizeof(S));
      out[i] = static_cast<T>(v);
    }
  };
  if constexpr (kIsReal<T> || kIsInt<T>) {
    if (s.dtype == DType::f32 && kIsReal<T>) return plain(float{});
    if (s.dtype == DType::f64 && kIsReal<T>) return plain(double{});
    if (s.dtype == DType::i64) return plain(int64_t{});
    if (s.dtype == DType::i32) return plain(int32_t{});
    if (s.dtype == DType::u8) return plain(uint8_t{});
  }
  for (size_t i = 0; i < n; ++i) out[i] = load_as<T>(s, static_cast<size_t>(offsets[i]));
}

template <class T>
void scatter_results(DType dtype, std::byte* data, size_t first, size_t n, const T* values) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::f32) {
      std::memcpy(data + first * sizeof(float), values, n * sizeof(float));
      return;
    }
  }
  if constexpr (std::is_same_v<T, double>) {
    if (dtype == DType::f64) {
      std::memcpy(data + first * sizeof(double), values, n * sizeof(double));
      return;
    }
  }
  for (size_t i = 0; i < n; ++i) store_as(dtype, data, first + i, values[i]);
}

// Offsets of one read for a block of outputs at one point of the reduction. The part of every index
// that depends on output iterators alone is computed once per block.
class BlockReader {
 public:
  BlockReader(const Meaning& m, const Read& read, const Stored& operand)
      : read_(read), operand_(operand), outputs_(static_cast<int>(m.out.size())) {
    for (const IndexExpr& e : read.index) {
      Dim d;
      auto place = [&](const Linear& l, auto& fixed, auto& moving) {
        fixed.constant = l.constant;
        for (auto t : l.terms) (t.first < outputs_ ? fixed : moving).terms.push_back(t);
      };
      place(e.affine, d.fixed, d.moving);
      for (const Digit& g : e.digits) {
        bool out = false, reduced = false;
        for (auto t : g.of.terms) (t.first < outputs_ ? out : reduced) = true;
        (reduced ? (out ? d.mixed : d.moving_digits) : d.fixed_digits).push_back(g);
      }
      d.read = e.read;
      d.wrap = e.wrap;
      dims_.push_back(std::move(d));
    }
  }

  // iterators[k][i]: value of output iterator k at element i of the block.
  void start(size_t n, const std::vector<std::vector<int64_t>>& iterators) {
    n_ = n;
    iterators_ = &iterators;
    for (Dim& d : dims_) {
      d.base.assign(n, d.fixed.constant);
      for (auto [k, coef] : d.fixed.terms) {
        const auto& it = iterators[static_cast<size_t>(k)];
        for (size_t i = 0; i < n; ++i) d.base[i] += coef * it[i];
      }
      for (const Digit& g : d.fixed_digits) add_digit(g, nullptr, d.base);
      d.low = n ? *std::min_element(d.base.begin(), d.base.end()) : 0;
      d.high = n ? *std::max_element(d.base.begin(), d.base.end()) : 0;
    }
  }

  // Offsets at a point of the reduction; point[k] is the value of iterator k (outputs unused).
  // `values` are the integer values of earlier reads. Returns false if some lie outside: inside_
  // then says which.
  bool offsets(const int64_t* point, const std::vector<std::vector<int64_t>>& values,
               std::vector<int64_t>& out) {
    out.assign(n_, 0);
    bool all = true;
    for (size_t k = 0; k < dims_.size(); ++k) {
      Dim& d = dims_[k];
      int64_t shift = evaluate(d.moving, point);
      for (const Digit& g : d.moving_digits) {
        int64_t digit = evaluate(g.of, point) / g.div;
        shift += g.coef * (g.mod ? digit % g.mod : digit);
      }
      const std::vector<int64_t>* index = &d.base;
      int64_t low = d.low, high = d.high;
      if (!d.mixed.empty() || d.read >= 0) {
        scratch_ = d.base;
        for (const Digit& g : d.mixed) add_digit(g, point, scratch_);
        if (d.read >= 0) {
          const auto& from = values[static_cast<size_t>(d.read)];
          for (size_t i = 0; i < n_; ++i) scratch_[i] += from[i] + (from[i] < 0 ? d.wrap : 0);
        }
        index = &scratch_;
        low = n_ ? *std::min_element(scratch_.begin(), scratch_.end()) : 0;
        high = n_ ? *std::max_element(scratch_.begin(), scratch_.end()) : 0;
      }
      int64_t extent = operand_.shape[k], stride = operand_.strides[k];
      if (low + shift < 0 || high + shift >= extent) {
        if (!read_.outside) {
          int64_t bad = low + shift < 0 ? low + shift : high + shift;
          throw Error(str("index ", bad, " is out of range for extent ", extent));
        }
        if (all) inside.assign(n_, 1);
        all = false;
        for (size_t i = 0; i < n_; ++i) {
          int64_t v = (*index)[i] + shift;
          if (v < 0 || v >= extent) {
            inside[i] = 0;
          } else {
            out[i] += v * stride;
          }
        }
      } else {
        for (size_t i = 0; i < n_; ++i) out[i] += ((*index)[i] + shift) * stride;
      }
    }
    if (!all) {
      for (size_t i = 0; i < n_; ++i) {
        if (!inside[i]) out[i] = 0;
      }
    }
    return all;
  }

  std::vector<char> inside;  // valid after offsets() returned false

 private:
  struct Dim {
    Linear fixed, moving;
    std::vector<Digit> fixed_digits, moving_digits, mixed;
    int read = -1;
    int64_t wrap = 0;
    std::vector<int64_t> base;
    int64_t low = 0, high = 0;
  };
  void add_digit(const Digit& g, const int64_t* point, std::vector<int64_t>& to) {
    for (size_t i = 0; i < n_; ++i) {
      int64_t v = g.of.constant;
      for (auto [k, coef] : g.of.terms) {
        v += coef * (k < outputs_ ? (*iterators_)[static_cast<size_t>(k)][i] : point[k]);
      }
      v /= g.div;
      to[i] += g.coef * (g.mod ? v % g.mod : v);
    }
  }
  const Read& read_;
  const Stored& operand_;
  int outputs_;
  size_t n_ = 0;
  const std::vector<std::vector<int64_t>>* iterators_ = nullptr;
  std::vector<Dim> dims_;
  std::vector<int64_t> scratch_;
};

// Steps a point through a box; false after the last one.
inline bool next_point(int64_t* point, std::span<const int64_t> extents) {
  for (size_t k = extents.size(); k-- > 0;) {
    if (++point[k] < extents[k]) return true;
    point[k] = 0;
  }
  return false;
}

// The values of the output iterators for flat positions first .. first+n-1.
inline void block_iterators(std::span<const int64_t> extents, size_t first, size_t n,
                            std::vector<std::vector<int64_t>>& out) {
  out.resize(extents.size());
  std::vector<int64_t> point(extents.size());
  auto rest = static_cast<int64_t>(first);
  for (size_t k = extents.size(); k-- > 0;) {
    point[k] = rest % extents[k];
    rest /= extents[k];
    out[k].resize(n);
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < extents.size(); ++k) out[k][i] = point[k];
    next_point(point.data(), extents);
  }
}

template <class T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<float> {
  using type = double;  // long sums of floats are added in double precision
};

template <class A>
void accumulate(Reduce how, bool first, size_t n, const auto* v, A* acc) {
  if (first && how != Reduce::sum && how != Reduce::product) {
    for (size_t i = 0; i < n; ++i) acc[i] = static_cast<A>(v[i]);
    return;
  }
  Fn fn = how == Reduce::sum       ? Fn::add
          : how == Reduce::product ? Fn::mul
          : how == Reduce::max     ? Fn::max
                                   : Fn::min;
  for (size_t i = 0; i < n; ++i) acc[i] = apply(fn, acc[i], static_cast<A>(v[i]));
}

// The general case, for outputs first .. last-1.
template <class T>
void evaluate_blocks(const Meaning& m, std::span<const Stored> operands, DType result,
                     std::byte* out, int64_t first, int64_t last) {
  using A = typename Accumulator<T>::type;
  constexpr size_t kBlock = ScalarMachine<T>::kBlock;
  size_t n_reads = m.reads.size();
  std::vector<BlockReader> readers;
  readers.reserve(n_reads);
  for (const Read& r : m.reads) {
    readers.emplace_back(m, r, operands[static_cast<size_t>(r.operand)]);
  }
  std::vector<std::vector<T>> values(n_reads, std::vector<T>(kBlock));
  std::vector<std::vector<int64_t>> read_ints(n_reads);
  std::vector<std::vector<int64_t>> iterators;
  size_t n_out = m.out.size(), n_all = n_out + m.reduced.size();
  std::vector<std::vector<T>> iterator_values(n_all);
  auto uses_iterators = [](const Scalar& s) {
    return std::any_of(s.code.begin(), s.code.end(),
                       [](const Instr& i) { return i.fn == Fn::iter; });
  };
  bool body_iterates = uses_iterators(m.body) || uses_iterators(m.finish);
  std::vector<bool> is_index(n_reads, false);
  for (const Read& r : m.reads) {
    for (const IndexExpr& e : r.index) {
      if (e.read >= 0) is_index[static_cast<size_t>(e.read)] = true;
    }
  }
  ScalarMachine<T> body(m.body), finish(m.finish);
  std::vector<A> acc(kBlock);
  std::vector<T> reduced_value(kBlock);
  std::vector<int64_t> offsets, point(n_all, 0);
  auto fill_iterator = [&](size_t k, auto value_at) {
    iterator_values[k].resize(kBlock);
    for (size_t i = 0; i < kBlock; ++i) iterator_values[k][i] = value_at(i);
  };

  for (int64_t at = first; at < last; at += static_cast<int64_t>(kBlock)) {
    size_t n = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(kBlock), last - at));
    block_iterators(m.out, static_cast<size_t>(at), n, iterators);
    for (BlockReader& r : readers) r.start(n, iterators);
    if (body_iterates) {
      for (size_t k = 0; k < n_out; ++k) {
        fill_iterator(k, [&](size_t i) {
          return i < n ? number<T>(static_cast<double>(iterators[k][i])) : T();
        });
      }
    }
    std::fill(acc.begin(), acc.end(),
              m.reduce == Reduce::product ? number<A>(1)
              : m.reduce == Reduce::max && count(m.reduced) == 0
                  ? number<A>(-std::numeric_limits<double>::infinity())
              : m.reduce == Reduce::min && count(m.reduced) == 0
                  ? number<A>(std::numeric_limits<double>::infinity())
                  : A());
    std::fill(point.begin(), point.end(), 0);
    bool more = count(m.reduced) > 0, first_point = true;
    const T* result_values = reduced_value.data();
    while (more) {
      std::vector<const T*> args(n_reads), iters(n_all);
      for (size_t r = 0; r < n_reads; ++r) {
        const Stored& operand = operands[static_cast<size_t>(m.reads[r].operand)];
        bool all = readers[r].offsets(point.data(), read_ints, offsets);
        if (count(operand.shape) == 0) {
          std::fill(values[r].begin(), values[r].end(), number<T>(m.reads[r].outside.value_or(0)));
        } else {
          gather(operand, offsets.data(), n, values[r].data());
        }
        if (!all) {
          T fill = number<T>(*m.reads[r].outside);
          for (size_t i = 0; i < n; ++i) {
            if (!readers[r].inside[i]) values[r][i] = fill;
          }
        }
        if (is_index[r]) {
          read_ints[r].resize(n);
          for (size_t i = 0; i < n; ++i) {
            read_ints[r][i] =
                load_int(operand.dtype, operand.data, static_cast<size_t>(offsets[i]));
          }
        }
        args[r] = values[r].data();
      }
      if (body_iterates) {
        for (size_t k = n_out; k < n_all; ++k) {
          fill_iterator(k, [&](size_t) { return number<T>(static_cast<double>(point[k])); });
        }
        for (size_t k = 0; k < n_all; ++k) iters[k] = iterator_values[k].data();
      }
      const T* v = body.run(n, args.data(), iters.data());
      if (m.reduce == Reduce::none) {
        result_values = v;
        break;
      }
      accumulate(m.reduce, first_point, n, v, acc.data());
      first_point = false;
      more = next_point(point.data() + n_out, m.reduced);
    }
    if (m.reduce != Reduce::none) {
      for (size_t i = 0; i < n; ++i) reduced_value[i] = static_cast<T>(acc[i]);
    }
    if (!is_argument(m.finish, 0)) {
      std::vector<const T*> iters(n_all);
      for (size_t k = 0; k < n_out; ++k) iters[k] = iterator_values[k].data();
      const T* in = result_values;
      result_values = finish.run(n, &in, iters.data());
    }
    scatter_results(result, out, static_cast<size_t>(at), n, result_values);
  }
}

// One side of a contraction: rows are positions of its own output iterators, columns positions of
// the reduction. Offsets and, for the dimensions that can run over a border, indices are sums of a
// row part and a column part.
struct Side {
  std::vector<int64_t> row_offset, column_offset;
  struct Border {
    int64_t extent, constant;
    std::vector<int64_t> row, column;
  };
  std::vector<Border> borders;
  const Stored* operand;
  double outside;
};

// Where each iterator of a contraction belongs; nullopt when an index mixes the groups.
struct ContractionPlan {
  std::vector<int> batch, rows, columns, reduced;  // iterators
};
std::optional<ContractionPlan> plan_contraction(const Meaning& m);
// The part of side `which` (0 or 1) at a point of the batch iterators.
Side side_of(const Meaning& m, int which, const Stored& operand, std::span<const int> own,
             std::span<const int> reduced, const std::vector<int64_t>& point);
// Output positions (flat) for all points of some iterators.
std::vector<int64_t> output_offsets(const Meaning& m, std::span<const int> iterators);
int64_t box_count(const Meaning& m, std::span<const int> iterators);

template <class T>
T side_value(const Side& s, size_t row, size_t column) {
  for (const auto& b : s.borders) {
    int64_t at = b.constant + b.row[row] + b.column[column];
    if (at < 0 || at >= b.extent) return number<T>(s.outside);
  }
  return load_as<T>(*s.operand, static_cast<size_t>(s.row_offset[row] + s.column_offset[column]));
}

// to[column * width + i] (panel) or to[i * columns + column] (rows) for rows first ..
// first+count-1.
template <class T>
void pack(const Side& s, size_t first, size_t n, size_t row_step, size_t column_step, T* to) {
  size_t columns = s.column_offset.size();
  bool plain_float = std::is_same_v<T, float> && s.operand->dtype == DType::f32;
  for (size_t i = 0; i < n; ++i) {
    size_t row = first + i;
    for (size_t c = 0; c < columns; ++c) {
      T& target = to[i * row_step + c * column_step];
      if (plain_float) {
        bool inside = true;
        for (const auto& b : s.borders) {
          int64_t at = b.constant + b.row[row] + b.column[c];
          inside = inside && at >= 0 && at < b.extent;
        }
        if constexpr (std::is_same_v<T, float>) {
          // Mapped files do not align their tensors.
          target = static_cast<float>(s.outside);
          auto at = static_cast<size_t>(s.row_offset[row] + s.column_offset[c]);
          if (inside) std::memcpy(&target, s.operand->data + at * sizeof(float), sizeof(float));
        }
      } else {
        target = side_value<T>(s, row, c);
      }
    }
  }
}

template <class T>
void evaluate_contraction(const Meaning& m, const ContractionPlan& plan,
                          std::span<const Stored> operands, DType result, std::byte* out) {
  auto n_batch = box_count(m, plan.batch);
  // The wider side becomes the columns, which are vectorised.
  bool swap = box_count(m, plan.columns) < static_cast<int64_t>(kPanel) &&
              box_count(m, plan.rows) > box_count(m, plan.columns);
  const auto& row_iterators = swap ? plan.columns : plan.rows;
  const auto& column_iterators = swap ? plan.rows : plan.columns;
  int left = swap ? 1 : 0, right = 1 - left;
  auto rows_at = output_offsets(m, row_iterators), columns_at = output_offsets(m, column_iterators);
  auto batch_at = output_offsets(m, plan.batch);
  size_t n_rows = rows_at.size(), n_columns = columns_at.size();
  auto k = static_cast<size_t>(box_count(m, plan.reduced));
  bool has_finish = !is_argument(m.finish, 0);
  auto operand_of = [&](int side) -> const Stored& {
    return operands[static_cast<size_t>(m.reads[static_cast<size_t>(side)].operand)];
  };

  // Pieces: a batch point and a range of rows. Columns go in chunks that keep the packed side
  // small.
  size_t row_step = n_batch > 1 && n_rows * k < (1 << 20) ? n_rows : std::max<size_t>(64, kRows);
  size_t row_pieces = (n_rows + row_step - 1) / row_step;
  size_t chunk = std::max(kPanel, ((size_t{8} << 20) / std::max<size_t>(k, 1)) / kPanel * kPanel);
  auto batch_point = [&](int64_t index) {
    std::vector<int64_t> point(m.out.size() + m.reduced.size(), 0);
    for (size_t i = plan.batch.size(); i-- > 0;) {
      int64_t extent = m.out[static_cast<size_t>(plan.batch[i])];
      point[static_cast<size_t>(plan.batch[i])] = index % extent;
      index /= extent;
    }
    return point;
  };
  auto run_rows = [&](const Side& a, const std::vector<T>& panels, size_t row0, size_t row1,
                      size_t column0, size_t column1, int64_t base) {
    std::vector<T> rows(kRows * std::max<size_t>(k, 1));
    T c[kRows * kPanel];
    ScalarMachine<T> finish(m.finish);
    for (size_t r = row0; r < row1; r += kRows) {
      size_t height = std::min(kRows, row1 - r);
      if (height < kRows) std::fill(rows.begin(), rows.end(), T());
      pack(a, r, height, k, 1, rows.data());
      for (size_t p = column0; p < column1; p += kPanel) {
        std::fill(std::begin(c), std::end(c), T());
        gemm_panel(k, rows.data(), panels.data() + (p - column0) * k, c);
        size_t width = std::min(kPanel, column1 - p);
        for (size_t i = 0; i < height; ++i) {
          const T* values = c + i * kPanel;
          if (has_finish) values = finish.run(width, &values, nullptr);
          for (size_t j = 0; j < width; ++j) {
            store_as(result, out, static_cast<size_t>(base + rows_at[r + i] + columns_at[p + j]),
                     values[j]);
          }
        }
      }
    }
  };
  auto pack_columns = [&](const Side& b, size_t column0, size_t column1, std::vector<T>& panels) {
    size_t width = column1 - column0;
    panels.assign((width + kPanel - 1) / kPanel * kPanel * std::max<size_t>(k, 1), T());
    for (size_t p = 0; p < width; p += kPanel) {
      pack(b, column0 + p, std::min(kPanel, width - p), 1, kPanel, panels.data() + p * k);
    }
  };
  auto sides = [&](int64_t batch) {
    auto point = batch_point(batch);
    return std::pair(side_of(m, left, operand_of(left), row_iterators, plan.reduced, point),
                     side_of(m, right, operand_of(right), column_iterators, plan.reduced, point));
  };
  if (n_batch > 1) {
    parallel_for(n_batch, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> panels;
      for (int64_t batch = begin; batch < end; ++batch) {
        auto [a, b] = sides(batch);
        for (size_t c = 0; c < n_columns; c += chunk) {
          size_t c1 = std::min(n_columns, c + chunk);
          pack_columns(b, c, c1, panels);
          run_rows(a, panels, 0, n_rows, c, c1, batch_at[static_cast<size_t>(batch)]);
        }
      }
    });
    return;
  }
  auto [a, b] = sides(0);
  std::vector<T> panels;
  for (size_t c = 0; c < n_columns; c += chunk) {
    size_t c1 = std::min(n_columns, c + chunk);
    pack_columns(b, c, c1, panels);
    parallel_for(static_cast<int64_t>(row_pieces), 1, [&](int64_t begin, int64_t end) {
      run_rows(a, panels, static_cast<size_t>(begin) * row_step,
               std::min(n_rows, static_cast<size_t>(end) * row_step), c, c1, 0);
    });
  }
}

template <class T>
void evaluate_as(const Meaning& m, std::span<const Stored> operands, DType result, std::byte* out) {
  if (count(m.out) == 0) return;
  if (is_contraction(m) && info(result).bits >= 8) {
    bool iterates = std::any_of(m.finish.code.begin(), m.finish.code.end(),
                                [](const Instr& i) { return i.fn == Fn::iter; });
    if (auto plan = plan_contraction(m); plan && !iterates) {
      return evaluate_contraction<T>(m, *plan, operands, result, out);
    }
  }
  int64_t grain = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, count(m.reduced)));
  // Packed types share bytes between neighbours: keep chunks whole.
  grain = (grain + 255) / 256 * 256;
  parallel_for((count(m.out) + grain - 1) / grain, 1, [&](int64_t begin, int64_t end) {
    evaluate_blocks<T>(m, operands, result, out, begin * grain,
                       std::min(count(m.out), end * grain));
  });
}

}  // namespace emend
