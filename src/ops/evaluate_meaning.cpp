#include <complex>

#include "ir/memory_budget.h"
#include "ops/meaning_eval.h"

namespace emend {

namespace {

// The bytes of the value beyond the borders.
void store_outside(const Stored& source, DType dtype, double v, std::byte* fill) {
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

// Calls use(size) with the width of an element as a constant, so that copies are single moves.
template <class Use>
void with_width(size_t width, const Use& use) {
  switch (width) {
    case 1:
      return use(std::integral_constant<size_t, 1>());
    case 2:
      return use(std::integral_constant<size_t, 2>());
    case 4:
      return use(std::integral_constant<size_t, 4>());
    case 8:
      return use(std::integral_constant<size_t, 8>());
    default:
      return use(width);
  }
}

// One read along runs: outputs first .. last-1.
void move_runs(const RunPlan& plan, const std::byte* source, size_t width, const std::byte* fill,
               std::byte* out, int64_t first, int64_t last) {
  RunCursor cursor(plan, first);
  RunWindow window(plan.reads[0]);
  with_width(width, [&](auto size) {
    std::byte* to = out + static_cast<size_t>(first) * size;
    for (int64_t at = first; at < last;) {
      int64_t n = std::min(last - at, cursor.left());
      window.start(cursor, static_cast<size_t>(n));
      window.move_to(nullptr);
      auto put = [&](int64_t i, const std::byte* from) {
        std::memcpy(to + static_cast<size_t>(i) * size, from, size);
      };
      auto from = [&](int64_t i) {
        return source + static_cast<size_t>(window.offset + i * window.step()) * size;
      };
      for (int64_t i = 0; i < window.low; ++i) put(i, fill);
      if (window.step() == 1 && window.low < window.high) {
        std::memcpy(to + static_cast<size_t>(window.low) * size, from(window.low),
                    static_cast<size_t>(window.high - window.low) * size);
      } else {
        for (int64_t i = window.low; i < window.high; ++i) put(i, from(i));
      }
      for (int64_t i = window.high; i < n; ++i) put(i, fill);
      to += static_cast<size_t>(n) * size;
      at += n;
      cursor.advance(n);
    }
  });
}

// The joined outer dimension along which the source is contiguous when runs stride through it, as
// in a transpose.
std::optional<size_t> contiguous_outer(const RunPlan& plan) {
  const RunForm& offset = plan.reads[0].offset;
  if (!plan.reads[0].borders.empty() || offset.step == 1 || offset.step == 0) return std::nullopt;
  auto found = std::find(offset.outer.begin(), offset.outer.end(), 1);
  if (found == offset.outer.end()) return std::nullopt;
  return static_cast<size_t>(found - offset.outer.begin());
}

// Transposes: planes of (dimension j, run) in square tiles, so that neither side misses the cache
// at every element.
void move_planes(const RunPlan& plan, size_t j, const std::byte* source, size_t width,
                 std::byte* out) {
  constexpr int64_t kTile = 32;
  const RunForm& offset = plan.reads[0].offset;
  Dims joined = plan.outer;
  joined.push_back(plan.length);
  const Dims strides = row_major_strides(joined);  // of the output
  int64_t extent = plan.outer[j], bands = (extent + kTile - 1) / kTile;
  int64_t planes = count(plan.outer) / extent;
  Dims others = plan.outer;
  others[j] = 1;
  parallel_for(planes * bands, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t rest = task / bands, from = offset.constant, to = 0;
      for (size_t k = others.size(); k-- > 0; rest /= others[k]) {
        int64_t at = rest % others[k];
        from += offset.outer[k] * at;
        to += strides[k] * at;
      }
      int64_t j0 = task % bands * kTile, j1 = std::min(extent, j0 + kTile);
      with_width(width, [&](auto size) {
        auto w = static_cast<int64_t>(size);
        for (int64_t i0 = 0; i0 < plan.length; i0 += kTile) {
          int64_t i1 = std::min(plan.length, i0 + kTile);
          for (int64_t y = j0; y < j1; ++y) {
            std::byte* target = out + (to + y * strides[j]) * w;
            const std::byte* origin = source + (from + y) * w;
            for (int64_t i = i0; i < i1; ++i) {
              std::memcpy(target + i * w, origin + i * offset.step * w, size);
            }
          }
        }
      });
    }
  });
}

// Any reads, the last of which gives the elements: outputs first .. last-1.
void move_blocks(const Meaning& m, const Stored& source, DType dtype, const std::byte* fill,
                 std::byte* out, std::span<const Stored> operands, int64_t first, int64_t last) {
  constexpr size_t kBlock = 1024;
  std::vector<BlockReader> readers;
  readers.reserve(m.reads.size());
  for (const Read& r : m.reads) {
    readers.emplace_back(m, r, operands[static_cast<size_t>(r.operand)]);
  }
  std::vector<std::vector<int64_t>> iterators, ints(m.reads.size());
  std::vector<int64_t> offsets, point(m.out.size(), 0);
  size_t width = static_cast<size_t>(info(dtype).bits) / 8;
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
    with_width(width, [&](auto size) {
      for (size_t i = 0; i < n; ++i) {
        const std::byte* from =
            all || inside[i] ? source.data + static_cast<size_t>(offsets[i]) * size : fill;
        std::memcpy(out + (static_cast<size_t>(at) + i) * size, from, size);
      }
    });
  }
}

// Elements moved without looking at them.
void move_elements(const Meaning& m, const Stored& source, DType dtype, std::byte* out,
                   std::span<const Stored> operands) {
  std::byte fill[16] = {};
  if (m.reads.back().outside) store_outside(source, dtype, *m.reads.back().outside, fill);
  std::optional<RunPlan> runs;
  if (m.reads.size() == 1 && info(dtype).bits >= 8) runs = plan_runs(m, operands);
  if (runs && runs->length < std::min(kShortRun, count(m.out))) runs.reset();
  auto width = static_cast<size_t>(info(dtype).bits) / 8;
  if (auto j = runs ? contiguous_outer(*runs) : std::nullopt) {
    return move_planes(*runs, *j, source.data, width, out);
  }
  int64_t grain = 1 << 14;
  parallel_for((count(m.out) + grain - 1) / grain, 1, [&](int64_t begin, int64_t end) {
    int64_t first = begin * grain, last = std::min(count(m.out), end * grain);
    if (runs) {
      move_runs(*runs, source.data, width, fill, out, first, last);
    } else {
      move_blocks(m, source, dtype, fill, out, operands, first, last);
    }
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
  spend_work(static_cast<uint64_t>(count(m.out)), static_cast<uint64_t>(count(m.reduced)));
  bool movement = is_movement(m);
  if (movement && declared == DType::string) return move_strings(m, operands, std::move(shape));
  DType result = stored_dtype(a, declared);
  if (movement && operands[0].dtype() == result && is_reshape(m, operands[0].shape())) {
    return operands[0].reshaped(std::move(shape));
  }
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
