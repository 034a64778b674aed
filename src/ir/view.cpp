#include "ir/view.h"

#include <algorithm>

#include "base/error.h"

namespace emend {
namespace {

// The values of a dimension's digits at a position of it.
void append_digits(const View::Dim& d, int64_t position, Dims& digits) {
  size_t first = digits.size();
  digits.resize(first + d.radices.size());
  for (size_t k = d.radices.size(); k-- > 0; position /= d.radices[k])
    digits[first + k] = position % d.radices[k];
}

// Smallest and largest sum of coefs times digits over the positions of a dimension. Those before
// the last one agree with it in some leading digits, are smaller in the next, and free in the rest.
std::pair<int64_t, int64_t> reach_in(const View::Dim& d, const Dims& coefs) {
  const size_t n = d.radices.size();
  Dims last;
  append_digits(d, d.extent - 1, last);
  Dims low(n + 1, 0), high(n + 1, 0);  // of the free digits from k on
  for (size_t k = n; k-- > 0;) {
    int64_t most = coefs[k] * (d.radices[k] - 1);
    low[k] = low[k + 1] + std::min<int64_t>(most, 0);
    high[k] = high[k + 1] + std::max<int64_t>(most, 0);
  }
  int64_t fixed = 0;
  for (size_t k = 0; k < n; ++k) fixed += coefs[k] * last[k];
  std::pair<int64_t, int64_t> all(fixed, fixed);
  fixed = 0;
  for (size_t k = 0; k < n; ++k) {
    if (last[k] > 0) {
      int64_t most = coefs[k] * (last[k] - 1);
      all.first = std::min(all.first, fixed + std::min<int64_t>(most, 0) + low[k + 1]);
      all.second = std::max(all.second, fixed + std::max<int64_t>(most, 0) + high[k + 1]);
    }
    fixed += coefs[k] * last[k];
  }
  return all;
}

// The coefficient of every digit in every index: [index][digit].
std::vector<Dims> coefficients(const View& v) {
  const size_t digits = radices_of(v).size();
  std::vector<Dims> table;
  for (const Linear& e : v.index) {
    Dims row(digits, 0);
    for (auto [digit, coef] : e.terms) row[static_cast<size_t>(digit)] = coef;
    table.push_back(std::move(row));
  }
  return table;
}

// Every dimension read at its own position, digits numbered in order.
View plain_view(const Dims& shape) {
  View v;
  for (int64_t n : shape) v.out.push_back({n, {n}});
  v.index.resize(shape.size());
  return v;
}

// Numbers of the first digit of each dimension.
std::vector<int> first_digits(const View& v) {
  std::vector<int> first;
  int next = 0;
  for (const View::Dim& d : v.out) {
    first.push_back(next);
    next += static_cast<int>(d.radices.size());
  }
  return first;
}

Linear linear(std::initializer_list<std::pair<int, int64_t>> terms, int64_t constant = 0) {
  Linear e{.constant = constant, .terms = {}};
  for (const auto& [digit, coef] : terms) e = e + Linear{.constant = 0, .terms = {{digit, coef}}};
  return e;
}

}  // namespace

Dims shape_of(const View& v) {
  Dims shape;
  for (const View::Dim& d : v.out) shape.push_back(d.extent);
  return shape;
}

Dims radices_of(const View& v) {
  Dims all;
  for (const View::Dim& d : v.out) all.insert(all.end(), d.radices.begin(), d.radices.end());
  return all;
}

bool is_cropped(const View& v) {
  return std::ranges::any_of(v.out,
                             [](const View::Dim& d) { return d.extent != count(d.radices); });
}

Dims place(const View& v, std::span<const int64_t> position) {
  Dims digits, at;
  for (size_t k = 0; k < v.out.size(); ++k) append_digits(v.out[k], position[k], digits);
  for (const Linear& e : v.index) at.push_back(evaluate(e, digits.data()));
  return at;
}

std::vector<std::pair<int64_t, int64_t>> reach(const View& v) {
  std::vector<std::pair<int64_t, int64_t>> all;
  const std::vector<Dims> coefs = coefficients(v);
  for (size_t i = 0; i < v.index.size(); ++i) {
    std::pair<int64_t, int64_t> sum(v.index[i].constant, v.index[i].constant);
    auto next = coefs[i].begin();
    for (const View::Dim& d : v.out) {
      auto end = next + static_cast<std::ptrdiff_t>(d.radices.size());
      if (std::any_of(next, end, [](int64_t coef) { return coef != 0; })) {
        auto part = reach_in(d, Dims(next, end));
        sum = {sum.first + part.first, sum.second + part.second};
      }
      next = end;
    }
    all.push_back(sum);
  }
  return all;
}

bool is_total(const View& v, const Dims& shape) {
  EMEND_ASSERT(v.index.size() == shape.size(), to_text(v), shape_text(shape));
  const auto range = reach(v);
  for (size_t d = 0; d < shape.size(); ++d)
    if (range[d].first < 0 || range[d].second >= shape[d]) return false;
  return true;
}

bool is_identity(const View& v, const Dims& shape) {
  if (shape_of(v) != shape || v.index.size() != shape.size()) return false;
  return normalised(v) == normalised(identity_view(shape));
}

View normalised(const View& v) {
  const std::vector<Dims> coefs = coefficients(v);
  View n;
  n.index.resize(v.index.size());
  for (size_t i = 0; i < v.index.size(); ++i) n.index[i].constant = v.index[i].constant;
  int named = 0;
  size_t digit = 0;
  for (const View::Dim& d : v.out) {
    // Digits from the fastest: radix and coefficient in every index.
    struct Kept {
      int64_t radix;
      Dims coefs;
    };
    std::vector<Kept> kept;
    int64_t below = 1;  // positions that the digits kept so far count
    for (size_t k = d.radices.size(); k-- > 0;) {
      // The crop leaves no more values of this digit than that.
      int64_t radix = std::min(d.radices[k], (d.extent + below - 1) / below);
      if (radix == 1) continue;
      Kept next{radix, {}};
      for (const Dims& row : coefs) next.coefs.push_back(row[digit + k]);
      bool together = !kept.empty();
      for (size_t i = 0; together && i < coefs.size(); ++i)
        together = next.coefs[i] == kept.back().coefs[i] * kept.back().radix;
      below *= radix;
      if (together) {
        kept.back().radix *= radix;
      } else {
        kept.push_back(std::move(next));
      }
    }
    // A digit that became the slowest by fusing may count further than the crop.
    if (!kept.empty()) {
      int64_t rest = below / kept.back().radix;
      kept.back().radix = (d.extent + rest - 1) / rest;
    }
    View::Dim to{.extent = d.extent, .radices = {}};
    for (size_t k = kept.size(); k-- > 0; ++named) {
      to.radices.push_back(kept[k].radix);
      for (size_t i = 0; i < coefs.size(); ++i)
        if (kept[k].coefs[i] != 0) n.index[i].terms.emplace_back(named, kept[k].coefs[i]);
    }
    if (to.radices.empty()) {
      to.radices = {1};
      ++named;
    }
    n.out.push_back(std::move(to));
    digit += d.radices.size();
  }
  return n;
}

std::optional<size_t> passed(const View& v, size_t dim, const Dims& shape) {
  const View::Dim& d = v.out[dim];
  if (d.radices.size() != 1 || d.extent != d.radices[0]) return std::nullopt;
  const int digit = first_digits(v)[dim];
  if (d.extent == 1) {  // the digit says nothing: its own place, or none
    bool same = dim < shape.size() && shape[dim] == 1 && v.index[dim] == Linear{};
    return same ? std::optional(dim) : std::nullopt;
  }
  std::optional<size_t> from;
  for (size_t i = 0; i < v.index.size(); ++i) {
    bool named =
        std::ranges::any_of(v.index[i].terms, [&](const auto& t) { return t.first == digit; });
    if (!named) continue;
    if (from || v.index[i] != linear({{digit, 1}}) || shape[i] != d.extent) return std::nullopt;
    from = i;
  }
  return from;
}

View with_extent(const View& v, size_t dim, size_t passed, int64_t extent) {
  View to = v;
  to.out[dim] = {extent, {extent}};
  to.index[passed] = linear({{first_digits(v)[dim], 1}});
  return normalised(to);
}

std::optional<View> view_in_box(const View& v, const Dims& low, const Dims& high) {
  View to = v;
  int first = 0;  // digit of the dimension
  for (size_t d = 0; d < v.out.size(); ++d) {
    const Dims& radices = v.out[d].radices;
    int64_t start = low[d], size = high[d] - low[d], below = count(radices);
    View::Dim out{.extent = size, .radices = {}};
    for (size_t k = 0; k < radices.size(); ++k) {
      below /= radices[k];
      const int64_t at = start / below;  // where the digit begins
      start %= below;
      int64_t n = 1;  // how many values it has
      if (size > below) {
        if (start != 0) return std::nullopt;
        n = (size + below - 1) / below;
        size = below;
      } else if (start + size > below) {
        return std::nullopt;
      }
      out.radices.push_back(n);
      for (Linear& e : to.index)
        for (auto [digit, coef] : e.terms)
          if (digit == first + static_cast<int>(k)) e.constant += coef * at;
    }
    to.out[d] = std::move(out);
    first += static_cast<int>(radices.size());
  }
  if (!fault(to).empty()) return std::nullopt;
  return normalised(to);
}

std::optional<ViewBox> positions_reading(const View& v, const Dims& low, const Dims& high) {
  std::vector<size_t> dim_of;  // per digit
  for (size_t d = 0; d < v.out.size(); ++d) dim_of.insert(dim_of.end(), v.out[d].radices.size(), d);
  std::vector<std::vector<bool>> reads;  // per dimension of the output, at each position
  for (const View::Dim& d : v.out) reads.emplace_back(static_cast<size_t>(d.extent), true);
  const auto reached = reach(v);
  bool none = false, box = true;
  for (size_t k = 0; k < v.index.size(); ++k) {
    if (reached[k].first >= low[k] && reached[k].second < high[k]) continue;
    none |= reached[k].first >= high[k] || reached[k].second < low[k];
    const Linear& e = v.index[k];
    const bool one = !e.terms.empty() && std::ranges::all_of(e.terms, [&](auto t) {
      return dim_of[static_cast<size_t>(t.first)] == dim_of[static_cast<size_t>(e.terms[0].first)];
    });
    if (!one) {  // several dimensions decide together, or none
      box = false;
      continue;
    }
    const size_t d = dim_of[static_cast<size_t>(e.terms[0].first)];
    Dims at(v.out.size(), 0);
    for (int64_t& i = at[d]; i < v.out[d].extent; ++i) {
      const int64_t p = place(v, at)[k];
      if (p < low[k] || p >= high[k]) reads[d][static_cast<size_t>(i)] = false;
    }
  }
  ViewBox b;
  for (const auto& r : reads) {
    const auto first = std::ranges::find(r, true), last = std::find(first, r.end(), false);
    none |= first == r.end();
    box &= std::find(last, r.end(), true) == r.end();
    b.low.push_back(first - r.begin());
    b.high.push_back(last - r.begin());
  }
  if (none) return ViewBox{Dims(v.out.size(), 0), Dims(v.out.size(), 0)};
  if (!box) return std::nullopt;
  return b;
}

View identity_view(const Dims& shape) {
  View v = plain_view(shape);
  for (size_t d = 0; d < shape.size(); ++d) v.index[d] = linear({{static_cast<int>(d), 1}});
  return v;
}

View split_view(const Dims& shape, const SplitView& how) {
  EMEND_ASSERT(how.axis < shape.size() && how.into < shape.size() && how.axis != how.into, how.axis,
               how.into, shape_text(shape));
  EMEND_ASSERT(how.count >= 1 && how.size >= 1, how.count, how.size);
  View v = plain_view(shape);
  const int64_t whole = shape[how.into];
  v.out[how.into] = {how.count * whole, how.slow ? Dims{how.count, whole} : Dims{whole, how.count}};
  v.out[how.axis] = {how.size, {how.size}};
  const std::vector<int> first = first_digits(v);
  for (size_t d = 0; d < shape.size(); ++d) v.index[d] = linear({{first[d], 1}});
  const int part = first[how.into] + (how.slow ? 0 : 1),
            kept = first[how.into] + (how.slow ? 1 : 0);
  v.index[how.into] = linear({{kept, 1}});
  v.index[how.axis] = linear({{part, how.step}, {first[how.axis], how.stride}}, how.offset);
  EMEND_ASSERT(fault(v).empty(), fault(v));
  return v;
}

View join_view(const Dims& shape, const JoinView& how) {
  EMEND_ASSERT(how.axis < shape.size() && how.from < shape.size() && how.axis != how.from, how.axis,
               how.from, shape_text(shape));
  EMEND_ASSERT(how.count >= 1 && shape[how.from] % how.count == 0, how.count, shape_text(shape));
  View v = plain_view(shape);
  const int64_t whole = shape[how.from] / how.count;
  const bool blocks = how.period > 0;
  // Beyond the last block would be the first of other slices.
  EMEND_ASSERT(how.size >= 1 && (!blocks || how.size <= how.count * how.period), how.size);
  v.out[how.from] = {whole, {whole}};
  v.out[how.axis] = {how.size, blocks ? Dims{how.count, how.period}
                                      : Dims{(how.size + how.count - 1) / how.count, how.count}};
  const std::vector<int> first = first_digits(v);
  for (size_t d = 0; d < shape.size(); ++d) v.index[d] = linear({{first[d], 1}});
  const int part = first[how.axis] + (blocks ? 0 : 1), along = first[how.axis] + (blocks ? 1 : 0);
  v.index[how.from] = how.slow ? linear({{part, whole}, {first[how.from], 1}})
                               : linear({{first[how.from], how.count}, {part, 1}});
  v.index[how.axis] = linear({{along, 1}});
  EMEND_ASSERT(fault(v).empty(), fault(v));
  return v;
}

}  // namespace emend
