// Meanings whose reads are all affine, cut into runs: stretches of consecutive outputs along which
// every index moves by a constant step. Output dimensions that every read crosses evenly are joined
// first, so that an elementwise operator on equal shapes is one run. Reads that can leave their
// operand are inside on an interval of each run.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "ops/meaning.h"
#include "ops/stored.h"

namespace emend {

// constant + sum of outer[k] * (point of the joined outer dimensions) + step * (place in the run)
//          + sum of reduced[k] * (point of the reduction)
struct RunForm {
  int64_t constant = 0, step = 0;
  Dims outer, reduced;

  int64_t at(const int64_t* outer_point, int64_t place) const {
    int64_t v = constant + step * place;
    for (size_t k = 0; k < outer.size(); ++k) v += outer[k] * outer_point[k];
    return v;
  }
  int64_t shift(const int64_t* reduced_point) const {
    int64_t v = 0;
    for (size_t k = 0; k < reduced.size(); ++k) v += reduced[k] * reduced_point[k];
    return v;
  }
};

struct RunPlan {
  Dims outer;          // extents of the joined dimensions, without the last
  int64_t length = 1;  // of the last one: a run
  struct Border {      // an index that can leave its dimension
    RunForm index;
    int64_t extent;
  };
  struct RunRead {
    RunForm offset;
    std::vector<Border> borders;
  };
  std::vector<RunRead> reads;
  std::vector<RunForm> iterators;  // one per output iterator, where the bodies use them
};

// Does the body or what follows the reduction look at the position?
bool uses_iterators(const Meaning& m);

// Nothing where a read is not affine, or leaves its operand without a value for that.
std::optional<RunPlan> plan_runs(const Meaning& m, std::span<const Stored> operands);

// Walks through the runs from a flat output position on.
class RunCursor {
 public:
  RunCursor(const RunPlan& plan, int64_t flat) : plan_(plan), outer_(plan.outer.size()) {
    place_ = flat % plan.length;
    flat /= plan.length;
    for (size_t k = plan.outer.size(); k-- > 0; flat /= plan.outer[k]) {
      outer_[k] = flat % plan.outer[k];
    }
  }
  const int64_t* outer() const { return outer_.data(); }
  int64_t place() const { return place_; }
  int64_t left() const { return plan_.length - place_; }
  // By at most `left`.
  void advance(int64_t by) {
    place_ += by;
    if (place_ < plan_.length) return;
    place_ = 0;
    for (size_t k = outer_.size(); k-- > 0;) {
      if (++outer_[k] < plan_.outer[k]) return;
      outer_[k] = 0;
    }
  }

 private:
  const RunPlan& plan_;
  std::vector<int64_t> outer_;
  int64_t place_;
};

// A read along a part of a run, at one point of the reduction after the other.
class RunWindow {
 public:
  explicit RunWindow(const RunPlan::RunRead& read) : read_(read), bases_(read.borders.size()) {}

  void start(const RunCursor& at, size_t n) {
    n_ = static_cast<int64_t>(n);
    base_ = read_.offset.at(at.outer(), at.place());
    for (size_t b = 0; b < bases_.size(); ++b) {
      bases_[b] = read_.borders[b].index.at(at.outer(), at.place());
    }
  }
  // Sets `offset` (of the first element) and the interval [low, high) that lies inside.
  void move_to(const int64_t* reduced_point) {
    offset = base_ + read_.offset.shift(reduced_point);
    low = 0;
    high = n_;
    for (size_t b = 0; b < bases_.size(); ++b) {
      const auto& border = read_.borders[b];
      narrow_to(bases_[b] + border.index.shift(reduced_point), border.index.step, border.extent);
    }
    low = std::min(low, n_);  // all of it may lie before the operand
    high = std::max(low, high);
  }
  bool whole() const { return low == 0 && high == n_; }
  int64_t step() const { return read_.offset.step; }

  int64_t offset = 0, low = 0, high = 0;

 private:
  // Keeps the places i with 0 <= first + step * i < extent.
  void narrow_to(int64_t first, int64_t step, int64_t extent) {
    auto ceil_div = [](int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; };
    if (step == 0) {
      if (first < 0 || first >= extent) high = 0;
    } else if (step > 0) {
      low = std::max(low, ceil_div(-first, step));
      high = std::min(high, ceil_div(extent - first, step));
    } else {
      low = std::max(low, ceil_div(first - extent + 1, -step));
      high = std::min(high, ceil_div(first + 1, -step));
    }
  }
  const RunPlan::RunRead& read_;
  std::vector<int64_t> bases_;
  int64_t base_ = 0, n_ = 0;
};

// The values of a read, in place where the storage allows it.
template <class T>
class RunReader {
 public:
  RunReader(const RunPlan::RunRead& read, const Stored& operand, std::optional<double> outside)
      : window_(read), operand_(operand), outside_(outside ? number<T>(*outside) : T()) {
    bool aligned = reinterpret_cast<uintptr_t>(operand.data) % alignof(T) == 0;
    in_place_ = own_dtype<T>() == operand.dtype && aligned && !operand.encoded;
  }
  void start(const RunCursor& at, size_t n) { window_.start(at, n); }
  // n values at a point of the reduction; `buffer` is used if they do not lie in memory like that.
  const T* at(const int64_t* reduced_point, size_t n, T* buffer) {
    window_.move_to(reduced_point);
    int64_t step = window_.step(), offset = window_.offset;
    if (in_place_ && step == 1 && window_.whole()) {
      return reinterpret_cast<const T*>(operand_.data) + offset;
    }
    if (!window_.whole()) std::fill(buffer, buffer + n, outside_);
    if (window_.low >= window_.high) return buffer;
    with_loader<T>(operand_, [&](auto load) {
      if (step == 0) {
        std::fill(buffer + window_.low, buffer + window_.high, load(offset));
        return;
      }
      for (int64_t i = window_.low; i < window_.high; ++i) buffer[i] = load(offset + step * i);
    });
    return buffer;
  }

 private:
  RunWindow window_;
  const Stored& operand_;
  T outside_;
  bool in_place_;
};

}  // namespace emend
