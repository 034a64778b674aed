#include "run/repack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"

namespace emend {
namespace {

constexpr int64_t kTile = 16;                      // floats of a cache line
constexpr int64_t kGrain = int64_t{1} << 17;       // elements that are worth a thread
constexpr int64_t kRowsOfChunk = int64_t{1} << 8;  // of the tiled dimension

struct Element128 {
  uint64_t low, high;
};

// Rows run along the last dimension. Where neighbours in a row are far apart in the source but
// those along another dimension are not, rows are written sixteen at a time along that one, so
// that every line of the source is read once.
template <class T>
class Copy {
 public:
  // The part [begin, end) along dimension `cut`.
  Copy(const Repacking& all, const std::byte* from, std::byte* to, size_t cut, int64_t begin,
       int64_t end)
      : r_(all), from_(reinterpret_cast<const T*>(from)), to_(reinterpret_cast<T*>(to)) {
    Repacking& r = r_;
    int64_t step = 1;
    to_strides_.resize(r.extents.size());
    for (size_t k = r.extents.size(); k-- > 0; step *= r.extents[k]) to_strides_[k] = step;
    r.extents[cut] = end - begin;
    r.first += begin * r.strides[cut];
    for (auto& l : r.limits) l.constant += begin * l.coefs[cut];
    to_ += begin * to_strides_[cut];
    last_ = r.extents.size() - 1;
    tiled_ = last_;
    if (r.strides[last_] != 1) {
      for (size_t k = 0; k < last_; ++k) {
        if (r.strides[k] == 1 && r.extents[k] >= kTile) tiled_ = k;
      }
    }
    if (tiled_ == last_ && last_ > 0) tiled_ = last_ - 1;
    chunks_ = tiled_ == last_ ? 1 : (r.extents[tiled_] + kRowsOfChunk - 1) / kRowsOfChunk;
    for (size_t k = 0; k < last_; ++k) {
      if (k != tiled_) outer_.push_back(k);
    }
    for (size_t k : outer_) outer_count_ *= r.extents[k];
  }

  void run() const {
    int64_t items = outer_count_ * chunks_;
    int64_t elements = 1;
    for (int64_t e : r_.extents) elements *= e;
    if (elements == 0) return;
    int64_t grain = std::max<int64_t>(1, kGrain * items / elements);
    parallel_for(items, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) item(i);
    });
  }

 private:
  struct Place {
    int64_t from, to;
    Dims limits;  // the value of each at the row's beginning
  };

  void item(int64_t i) const {
    Place p{r_.first, 0, {}};
    for (const auto& l : r_.limits) p.limits.push_back(l.constant);
    int64_t chunk = i % chunks_;
    i /= chunks_;
    for (size_t n = outer_.size(); n-- > 0;) {
      size_t k = outer_[n];
      advance(p, k, i % r_.extents[k]);
      i /= r_.extents[k];
    }
    if (tiled_ == last_) return row(p);
    int64_t begin = chunk * kRowsOfChunk, end = std::min(r_.extents[tiled_], begin + kRowsOfChunk);
    bool same_limits = std::all_of(r_.limits.begin(), r_.limits.end(),
                                   [&](const auto& l) { return l.coefs[tiled_] == 0; });
    advance(p, tiled_, begin);
    int64_t t = begin;
    if (same_limits && r_.strides[tiled_] == 1 && r_.strides[last_] != 1) {
      auto [low, high] = inside(p);
      for (; t + kTile <= end; t += kTile, advance(p, tiled_, kTile)) tile(p, low, high);
    }
    for (; t < end; ++t, advance(p, tiled_, 1)) row(p);
  }

  void advance(Place& p, size_t dimension, int64_t by) const {
    p.from += by * r_.strides[dimension];
    p.to += by * to_strides_[dimension];
    for (size_t l = 0; l < p.limits.size(); ++l) p.limits[l] += by * r_.limits[l].coefs[dimension];
  }

  // The part of the row that no limit excludes.
  std::pair<int64_t, int64_t> inside(const Place& p) const {
    int64_t low = 0, high = r_.extents[last_];
    for (size_t l = 0; l < p.limits.size(); ++l) {
      int64_t coef = r_.limits[l].coefs[last_], at = p.limits[l], extent = r_.limits[l].extent;
      auto good = [&](int64_t i) { return at + coef * i >= 0 && at + coef * i < extent; };
      while (low < high && !good(low)) ++low;
      while (low < high && !good(high - 1)) --high;
    }
    return {low, high};
  }

  void row(const Place& p) const {
    auto [low, high] = inside(p);
    int64_t stride = r_.strides[last_];
    const T* from = from_ + p.from;
    T* to = to_ + p.to;
    if (stride == 1 && low < high) {
      std::memcpy(to + low, from + low, static_cast<size_t>(high - low) * sizeof(T));
    } else {
      for (int64_t i = low; i < high; ++i) std::memcpy(to + i, from + i * stride, sizeof(T));
    }
  }

  void tile(const Place& p, int64_t low, int64_t high) const {
    int64_t stride = r_.strides[last_], to_stride = to_strides_[tiled_];
    for (int64_t i = low; i < high; ++i) {
      const T* from = from_ + p.from + i * stride;
      T* to = to_ + p.to + i;
      T line[kTile];
      std::memcpy(line, from, sizeof line);
      for (int64_t k = 0; k < kTile; ++k) to[k * to_stride] = line[k];
    }
  }

  Repacking r_;
  const T* from_;  // perhaps not aligned: read by memcpy only
  T* to_;
  Dims to_strides_;
  size_t last_, tiled_;  // the tiled dimension is the last one only where there is no other
  std::vector<size_t> outer_;
  int64_t chunks_ = 1, outer_count_ = 1;
};

// Cuts the work along the dimension that strides widest over the source: each part reads a stretch
// of it that the others need not, and what was read of a mapped file need not stay in memory.
template <class T>
void repack_in_parts(const Tensor& from, const Repacking& r, std::byte* out) {
  constexpr int64_t kPart = (int64_t{16} << 20) / static_cast<int64_t>(sizeof(T));
  size_t cut = 0;
  for (size_t k = 1; k < r.strides.size(); ++k) {
    if (r.extents[k] > 1 && std::abs(r.strides[k]) > std::abs(r.strides[cut])) cut = k;
  }
  int64_t step = std::max<int64_t>(1, kPart / std::max<int64_t>(1, std::abs(r.strides[cut])));
  for (int64_t begin = 0; begin < r.extents[cut]; begin += step) {
    Copy<T>(r, from.data(), out, cut, begin, std::min(r.extents[cut], begin + step)).run();
    from.drop_pages();
  }
}

// [outer, columns, inner] to [outer, rows, inner].
void multiply(const Repacking::Matrix& m, int64_t inner, std::vector<double>& values) {
  std::vector<double> out(values.size() / static_cast<size_t>(m.columns) *
                          static_cast<size_t>(m.rows));
  auto outer = static_cast<int64_t>(values.size()) / (m.columns * inner);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t row = 0; row < m.rows; ++row) {
      double* to = out.data() + (o * m.rows + row) * inner;
      for (int64_t c = 0; c < m.columns; ++c) {
        double factor = m.elements[static_cast<size_t>(row * m.columns + c)];
        const double* from = values.data() + (o * m.columns + c) * inner;
        for (int64_t i = 0; factor != 0 && i < inner; ++i) to[i] += factor * from[i];
      }
    }
  }
  values = std::move(out);
}

void copy(const Tensor& from, const Repacking& r, std::byte* out);

// Copied first, then multiplied piece by piece of what lies innermost, in double precision: rounded
// once.
class Multiplication {
 public:
  explicit Multiplication(const Repacking& r) : r_(r) {
    for (const Repacking::Matrix& m : r.matrices) columns_ *= m.columns, rows_ *= m.rows;
  }

  void run(const Tensor& from, float* out) const {
    EMEND_ASSERT(from.dtype() == DType::f32);
    Repacking moves = r_;
    moves.matrices.clear();
    std::vector<float> moved(static_cast<size_t>(count(r_.extents)));
    copy(from, moves, reinterpret_cast<std::byte*>(moved.data()));
    int64_t outer = count(r_.extents) / (columns_ * r_.inner);
    int64_t pieces = (r_.inner + kPiece - 1) / kPiece;
    parallel_for(outer * pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t o = i / pieces, at = i % pieces * kPiece;
        piece(moved.data() + o * columns_ * r_.inner + at, out + o * rows_ * r_.inner + at,
              std::min(kPiece, r_.inner - at));
      }
    });
  }

 private:
  static constexpr int64_t kPiece = 1024;

  void piece(const float* from, float* to, int64_t length) const {
    std::vector<double> values;
    for (int64_t c = 0; c < columns_; ++c)
      values.insert(values.end(), from + c * r_.inner, from + c * r_.inner + length);
    // The last dimension first: what is inside of the others has not changed then.
    int64_t inner = length;
    for (size_t d = r_.matrices.size(); d-- > 0;) {
      multiply(r_.matrices[d], inner, values);
      inner *= r_.matrices[d].rows;
    }
    for (int64_t p = 0; p < rows_; ++p) {
      for (int64_t k = 0; k < length; ++k)
        to[p * r_.inner + k] = static_cast<float>(values[static_cast<size_t>(p * length + k)]);
    }
  }

  const Repacking& r_;
  int64_t columns_ = 1, rows_ = 1;
};

void copy(const Tensor& from, const Repacking& r, std::byte* out) {
  if (r.extents.empty()) {
    Repacking one = r;
    one.extents = {1};
    one.strides = {0};
    for (auto& l : one.limits) l.coefs = {0};
    return copy(from, one, out);
  }
  switch (info(from.dtype()).bits) {
    case 8:
      return repack_in_parts<uint8_t>(from, r, out);
    case 16:
      return repack_in_parts<uint16_t>(from, r, out);
    case 32:
      return repack_in_parts<uint32_t>(from, r, out);
    case 64:
      return repack_in_parts<uint64_t>(from, r, out);
    case 128:
      return repack_in_parts<Element128>(from, r, out);
    default:
      EMEND_ASSERT(false, "no repacking of ", to_text(from.dtype()));
  }
}

}  // namespace

void repack(const Tensor& from, const Repacking& r, std::byte* out) {
  if (r.matrices.empty()) return copy(from, r, out);
  Multiplication(r).run(from, reinterpret_cast<float*>(out));
}

void write_norms(const ColumnNorms& n, std::byte* packed) {
  const auto* from = reinterpret_cast<const float*>(packed);
  const int64_t row = n.middle * n.depth * n.lanes;
  float* const to = reinterpret_cast<float*>(packed) + n.outer * n.rows * row;
  parallel_for(n.outer * n.middle, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> squares(static_cast<size_t>(n.lanes)), most(squares.size());
    for (int64_t i = begin; i < end; ++i) {
      std::ranges::fill(most, 0);
      for (int64_t r = 0; r < n.rows; ++r) {
        double factor = n.factors[static_cast<size_t>(r)];
        if (factor == 0) continue;
        const float* at =
            from + (i / n.middle * n.rows + r) * row + i % n.middle * n.depth * n.lanes;
        std::ranges::fill(squares, 0);
        for (int64_t k = 0; k < n.depth; ++k, at += n.lanes) {
          for (size_t l = 0; l < squares.size(); ++l) {
            double x = at[l];
            squares[l] += x * x;
          }
        }
        // No number stays none: whoever compares with it finds that nothing is known.
        for (size_t l = 0; l < squares.size(); ++l) {
          double norm = factor * std::sqrt(squares[l]);
          if (!(norm <= most[l])) most[l] = norm;
        }
      }
      for (size_t l = 0; l < squares.size(); ++l)
        to[i * n.lanes + static_cast<int64_t>(l)] = static_cast<float>(most[l]);
    }
  });
}

}  // namespace emend
