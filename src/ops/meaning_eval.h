// Evaluation of meanings over one number type T: blocks of consecutive outputs through the scalar
// body, with operands read in runs where every index is affine and by computed offsets elsewhere;
// packed panels for contractions. Included by evaluate_meaning.cpp, which instantiates it.
#pragma once

#include <algorithm>

#include "base/integer.h"
#include "base/parallel.h"
#include "ops/contraction_eval.h"
#include "ops/meaning.h"
#include "ops/meaning_runs.h"
#include "ops/running.h"
#include "ops/stored.h"

namespace emend {

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
          // The message names the index as its tensor has it, before the extent was added.
          int64_t bad = low + shift < 0 ? low + shift - d.wrap : high + shift;
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

// acc[i] = acc[i] combined with v[i]; `first` says that nothing was combined yet.
template <class A, class T>
void accumulate(Reduce how, bool first, size_t n, const T* v, A* acc) {
  auto with = [&](auto fn) {
    for (size_t i = 0; i < n; ++i) acc[i] = apply(fn(), acc[i], static_cast<A>(v[i]));
  };
  switch (how) {
    case Reduce::sum:
      return with([] { return Fn::add; });
    case Reduce::product:
      return with([] { return Fn::mul; });
    default:
      break;
  }
  if (first) {
    for (size_t i = 0; i < n; ++i) acc[i] = static_cast<A>(v[i]);
  } else if (how == Reduce::max) {
    with([] { return Fn::max; });
  } else {
    with([] { return Fn::min; });
  }
}

// The value of a reduction over nothing. The largest of no integers is the least one of the type.
template <class A>
A neutral(Reduce how, DType result) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  bool infinite = is_float(result) || kIsExact<A>;
  switch (how) {
    case Reduce::product:
      return number<A>(1);
    case Reduce::max:
      return number<A>(infinite ? -kInfinity : lowest(result));
    case Reduce::min:
      return number<A>(infinite ? kInfinity : highest(result));
    default:
      return A();
  }
}

// Outputs block by block: for every point of the reduction the reads' values at all outputs of the
// block, through the body, into accumulators.
template <class T>
class BlockEvaluator {
 public:
  // With `runs` blocks do not cross the ends of runs.
  BlockEvaluator(const Meaning& m, std::span<const Stored> operands, const RunPlan* runs)
      : m_(m),
        operands_(operands),
        runs_(runs),
        iterates_(uses_iterators(m)),
        n_all_(m.out.size() + m.reduced.size()),
        buffers_(m.reads.size(), std::vector<T>(kBlock)),
        args_(m.reads.size()),
        iterator_values_(iterates_ ? n_all_ : 0, std::vector<T>(kBlock)),
        iterator_pointers_(n_all_),
        is_index_(m.reads.size(), false),
        read_ints_(m.reads.size()),
        point_(n_all_, 0),
        body_(m.body),
        finish_(m.finish),
        acc_(kBlock),
        reduced_(kBlock) {
    for (size_t r = 0; r < m.reads.size(); ++r) {
      const Stored& operand = operands[static_cast<size_t>(m.reads[r].operand)];
      if (runs) {
        run_readers_.emplace_back(runs->reads[r], operand, m.reads[r].outside);
      } else {
        block_readers_.emplace_back(m, m.reads[r], operand);
      }
      for (const IndexExpr& e : m.reads[r].index) {
        if (e.read >= 0) is_index_[static_cast<size_t>(e.read)] = true;
      }
    }
    for (size_t k = 0; k < iterator_values_.size(); ++k) {
      iterator_pointers_[k] = iterator_values_[k].data();
    }
  }

  // Outputs first .. last-1.
  void run(int64_t first, int64_t last, DType result, std::byte* out) {
    result_ = result;
    std::optional<RunCursor> cursor;
    if (runs_) cursor.emplace(*runs_, first);
    for (int64_t at = first; at < last;) {
      int64_t n = std::min<int64_t>(static_cast<int64_t>(kBlock), last - at);
      if (cursor) {
        n = std::min(n, cursor->left());
        start(*cursor, static_cast<size_t>(n));
        cursor->advance(n);
      } else {
        start(at, static_cast<size_t>(n));
      }
      store_run(result, out, static_cast<size_t>(at), static_cast<size_t>(n), values());
      at += n;
    }
  }

 private:
  using A = typename Accumulator<T>::type;
  static constexpr size_t kBlock = ScalarMachine<T>::kBlock;

  void start(const RunCursor& cursor, size_t n) {
    n_ = n;
    for (auto& r : run_readers_) r.start(cursor, n);
    for (size_t k = 0; k < m_.out.size() && iterates_; ++k) {
      const RunForm& form = runs_->iterators[k];
      int64_t value = form.at(cursor.outer(), cursor.place());
      for (size_t i = 0; i < n; ++i, value += form.step) {
        iterator_values_[k][i] = number<T>(static_cast<double>(value));
      }
    }
  }

  void start(int64_t at, size_t n) {
    n_ = n;
    block_iterators(m_.out, static_cast<size_t>(at), n, iterators_);
    for (BlockReader& r : block_readers_) r.start(n, iterators_);
    for (size_t k = 0; k < m_.out.size() && iterates_; ++k) {
      for (size_t i = 0; i < n; ++i) {
        iterator_values_[k][i] = number<T>(static_cast<double>(iterators_[k][i]));
      }
    }
  }

  // The block's results.
  const T* values() {
    const T* results = m_.reduce == Reduce::none ? body_at_point() : reduction();
    if (is_argument(m_.finish, 0)) return results;
    return finish_.run(n_, &results, iterator_pointers_.data());
  }

  const T* reduction() {
    std::fill(point_.begin(), point_.end(), 0);
    bool more = count(m_.reduced) > 0, first = true;
    // Largest and smallest start with the first value; over nothing they are infinite.
    bool starts_empty = more && (m_.reduce == Reduce::max || m_.reduce == Reduce::min);
    std::fill_n(acc_.begin(), n_, starts_empty ? A() : neutral<A>(m_.reduce, result_));
    while (more) {
      accumulate(m_.reduce, first, n_, body_at_point(), acc_.data());
      first = false;
      more = next_point(point_.data() + m_.out.size(), m_.reduced);
    }
    for (size_t i = 0; i < n_; ++i) reduced_[i] = static_cast<T>(acc_[i]);
    return reduced_.data();
  }

  const T* body_at_point() {
    for (size_t r = 0; r < m_.reads.size(); ++r) {
      args_[r] = runs_ ? run_readers_[r].at(point_.data() + m_.out.size(), n_, buffers_[r].data())
                       : gather(r);
    }
    for (size_t k = m_.out.size(); k < n_all_ && iterates_; ++k) {
      std::fill_n(iterator_values_[k].begin(), n_, number<T>(static_cast<double>(point_[k])));
    }
    return body_.run(n_, args_.data(), iterator_pointers_.data());
  }

  // Read r at computed offsets.
  const T* gather(size_t r) {
    const Stored& operand = operands_[static_cast<size_t>(m_.reads[r].operand)];
    T* values = buffers_[r].data();
    bool all = block_readers_[r].offsets(point_.data(), read_ints_, offsets_);
    if (count(operand.shape) == 0) {
      std::fill_n(values, n_, number<T>(m_.reads[r].outside.value_or(0)));
    } else {
      with_loader<T>(operand, [&](auto load) {
        for (size_t i = 0; i < n_; ++i) values[i] = load(offsets_[i]);
      });
    }
    if (!all) {
      T fill = number<T>(*m_.reads[r].outside);
      for (size_t i = 0; i < n_; ++i) {
        if (!block_readers_[r].inside[i]) values[i] = fill;
      }
    }
    if (is_index_[r]) {
      read_ints_[r].resize(n_);
      for (size_t i = 0; i < n_; ++i) {
        read_ints_[r][i] = load_int(operand.dtype, operand.data, static_cast<size_t>(offsets_[i]));
      }
    }
    return values;
  }

  const Meaning& m_;
  DType result_ = DType::f32;
  std::span<const Stored> operands_;
  const RunPlan* runs_;
  bool iterates_;  // a body uses iterators
  size_t n_all_, n_ = 0;
  std::vector<RunReader<T>> run_readers_;
  std::vector<BlockReader> block_readers_;
  std::vector<std::vector<T>> buffers_;
  std::vector<const T*> args_;
  std::vector<std::vector<T>> iterator_values_;
  std::vector<const T*> iterator_pointers_;
  std::vector<bool> is_index_;  // reads whose values other reads index by
  std::vector<std::vector<int64_t>> read_ints_, iterators_;
  std::vector<int64_t> offsets_, point_;
  ScalarMachine<T> body_, finish_;
  std::vector<A> acc_;
  std::vector<T> reduced_;
};

// Rows beside the axis are carried along it.
template <class T>
void evaluate_running(const Meaning& m, const Running& running, const Stored& operand, DType result,
                      std::byte* out) {
  using A = typename Accumulator<T>::type;
  auto extents = std::span(m.out);
  int64_t extent = m.out[running.axis], outer = count(extents.first(running.axis));
  auto inner = static_cast<size_t>(count(extents.subspan(running.axis + 1)));
  std::vector<T> row(inner);
  std::vector<A> carried(inner);
  auto carry_in = [&](int64_t at) {
    with_loader<T>(operand, [&](auto load) {
      for (size_t i = 0; i < inner; ++i) row[i] = load(at + static_cast<int64_t>(i));
    });
    accumulate(m.reduce, false, inner, row.data(), carried.data());
  };
  for (int64_t o = 0; o < outer; ++o) {
    std::fill(carried.begin(), carried.end(), neutral<A>(m.reduce, result));
    for (int64_t step = 0; step < extent; ++step) {
      int64_t place = running.from_end ? extent - 1 - step : step;
      int64_t at = (o * extent + place) * static_cast<int64_t>(inner);
      if (!running.exclusive) carry_in(at);
      for (size_t i = 0; i < inner; ++i) row[i] = static_cast<T>(carried[i]);
      store_run(result, out, static_cast<size_t>(at), inner, row.data());
      if (running.exclusive) carry_in(at);
    }
  }
}

// Runs shorter than this are not worth their bookkeeping.
inline constexpr int64_t kShortRun = 4;

template <class T>
void evaluate_as(const Meaning& m, std::span<const Stored> operands, DType result, std::byte* out) {
  if (count(m.out) == 0) return;
  if (is_contraction(m) && info(result).bits >= 8 && !uses_iterators(m)) {
    if (auto plan = plan_contraction(m)) {
      return ContractionEvaluator<T>(m, *plan, operands, result, out).run();
    }
  }
  if (m.reads.size() == 1 && !m.reduced.empty()) {
    const Stored& operand = operands[static_cast<size_t>(m.reads[0].operand)];
    if (auto running = as_running(m, operand.shape))
      return evaluate_running<T>(m, *running, operand, result, out);
  }
  auto runs = plan_runs(m, operands);
  if (runs && runs->length < std::min(kShortRun, count(m.out))) runs.reset();
  int64_t grain = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, count(m.reduced)));
  // Packed types share bytes between neighbours: keep chunks whole.
  grain = (grain + 255) / 256 * 256;
  parallel_for((count(m.out) + grain - 1) / grain, 1, [&](int64_t begin, int64_t end) {
    BlockEvaluator<T>(m, operands, runs ? &*runs : nullptr)
        .run(begin * grain, std::min(count(m.out), end * grain), result, out);
  });
}

}  // namespace emend
