#include "ops/view.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

Result<View> view_on(const ViewMap& a, const Type& x) {
  auto v = parse_view(a.map);
  if (!v) return v;
  if (v->index.size() != x.shape.size()) {
    return fail("the view ", quoted(a.map), " has ", v->index.size(), " indices for x",
                shape_text(x.shape));
  }
  return normalised(*v);
}

Result<Type> view_infer(const ViewMap& a, Types in) {
  auto v = view_on(a, in[0]);
  if (!v) return fail("view: ", v.error());
  return Type::tensor(in[0].dtype, shape_of(*v));
}

// Dimensions that are not cropped are refined into their digits, which makes every index affine; of
// the others the digits are taken by division.
Meaning view_means(const ViewMap& a, Types in) {
  View v = view_on(a, in[0]).value_or_throw();
  Meaning m;
  std::vector<IndexExpr> digits;  // in terms of iterators
  for (const View::Dim& d : v.out) {
    const bool cropped = d.extent != count(d.radices);
    auto iterator = static_cast<int>(m.out.size());
    int64_t below = count(d.radices);
    for (size_t k = 0; k < d.radices.size(); ++k) {
      below /= d.radices[k];
      if (cropped) {
        Digit digit{.of = index_of(iterator).affine, .div = below, .mod = k ? d.radices[k] : 0};
        digits.push_back({.affine = {}, .digits = {digit}});
      } else {
        digits.push_back(index_of(iterator++));
        m.out.push_back(d.radices[k]);
      }
    }
    if (cropped) m.out.push_back(d.extent);
  }
  Read r;
  for (const Linear& e : v.index) {
    IndexExpr index = index_constant(e.constant);
    for (auto [digit, coef] : e.terms) {
      IndexExpr term = digits[static_cast<size_t>(digit)];
      term.affine = term.affine * coef;
      for (Digit& d : term.digits) d.coef *= coef;
      index = index + term;
    }
    r.index.push_back(std::move(index));
  }
  if (!is_total(v, in[0].shape)) r.outside = 0.0;
  m.reads = {std::move(r)};
  return m;
}

// --- In standard operators ---

// Operators that change nothing are left out.
class Mover {
 public:
  Mover(GraphBuilder& b, NodeId x) : b_(b), x_(x) {}

  const Dims& shape() const { return b_.shape(x_); }
  NodeId result() const { return x_; }

  void reshape(const Dims& to) {
    if (x_ == reshaped_) x_ = before_;  // of two in a row, the last
    before_ = x_;
    if (to != shape()) x_ = reshaped_ = b_.op("reshape", {x_}, Reshape{to});
  }
  void transpose(const Dims& perm) {
    if (!std::ranges::is_sorted(perm)) x_ = b_.op("transpose", {x_}, Transpose{perm});
  }
  void slice(const Slice& s) {
    if (s.sizes != shape() || std::ranges::any_of(s.steps, [](int64_t k) { return k != 1; }))
      x_ = b_.op("slice", {x_}, s);
  }
  void crop(const Dims& sizes) {
    slice({.starts = Dims(sizes.size(), 0), .sizes = sizes, .steps = Dims(sizes.size(), 1)});
  }
  // Zeros before and after each dimension.
  void pad(const Dims& before, const Dims& after) {
    Dims pads = before;
    pads.insert(pads.end(), after.begin(), after.end());
    if (std::ranges::any_of(pads, [](int64_t p) { return p != 0; }))
      x_ = b_.op("pad", {x_}, Pad{.pads = pads});
  }
  void broadcast(const Dims& to) {
    if (to != shape()) x_ = b_.op("broadcast", {x_}, Broadcast{to});
  }
  void gather(size_t axis, const Dims& places, const Dims& arranged) {
    NodeId at = b_.constant(Tensor::of_ints(places).reshaped(arranged));
    x_ = b_.op("gather", {x_, at}, Axis{static_cast<int64_t>(axis)});
  }

 private:
  GraphBuilder& b_;
  NodeId x_, before_, reshaped_;  // the last reshape and what it was made of
};

// How one dimension of the operand is read.
struct AxisPlan {
  std::vector<int> digits;  // that its index uses, the one with the largest coefficient first
  int64_t first = 0;        // the window of positions that is used ..
  int64_t size = 1;         // .. beginning there
  int64_t step = 1;         // the window's elements that count, where there is one digit
  Dims periods;             // the window as a box of digits, and a remainder that is not used
  Dims places;              // otherwise: the positions in the window of all values of the digits
};

// Digits that are digits of the position, too, each at its place value: c + 2d, 15c + d.
bool are_periodic(const std::vector<std::pair<int, int64_t>>& terms, const Dims& radices) {
  for (size_t k = 0; k < terms.size(); ++k) {
    if (terms[k].second < 1) return false;
    if (k == 0) continue;
    int64_t above = terms[k - 1].second, coef = terms[k].second;
    if (above % coef != 0 || above / coef < radices[static_cast<size_t>(terms[k].first)])
      return false;
  }
  return true;
}

AxisPlan plan_axis(const Linear& e, const Dims& radices, int64_t extent) {
  auto terms = e.terms;
  std::ranges::stable_sort(terms, std::ranges::greater(), &std::pair<int, int64_t>::second);
  AxisPlan p;
  Dims boxes;
  for (auto [digit, coef] : terms) {
    p.digits.push_back(digit);
    boxes.push_back(radices[static_cast<size_t>(digit)]);
  }
  auto [low, high] = range(e, radices);
  if (terms.size() <= 1 && low >= 0 && high < extent) {  // a slice
    p.first = e.constant;
    p.size = count(boxes);
    p.step = terms.empty() ? 1 : terms[0].second;
    p.periods = boxes;
  } else if (are_periodic(terms, radices)) {
    p.first = low;
    p.size = terms.empty() ? 1 : boxes[0] * terms[0].second;
    for (size_t k = 0; k < terms.size(); ++k)
      p.periods.push_back(k ? terms[k - 1].second / terms[k].second : boxes[0]);
    if (!terms.empty() && terms.back().second > 1) p.periods.push_back(terms.back().second);
  } else {
    p.first = std::min<int64_t>(low, 0);
    p.size = std::max(high + 1, extent) - p.first;
    Dims at(boxes.size(), 0);
    for (int64_t n = count(boxes); n > 0; --n) {
      int64_t value = e.constant - p.first;
      for (size_t k = 0; k < at.size(); ++k) value += terms[k].second * at[k];
      p.places.push_back(value);
      for (size_t k = at.size(); k-- > 0 && ++at[k] == boxes[k];) at[k] = 0;
    }
  }
  return p;
}

// Every element by its place in all of x, and one zero for those that have none.
NodeId view_by_places(GraphBuilder& b, const View& v, NodeId x) {
  const Dims from = b.shape(x), to = shape_of(v), strides = row_major_strides(from);
  const int64_t none = count(from);
  Dims places, at(to.size(), 0);
  bool total = true;
  for (int64_t n = count(to); n > 0; --n) {
    const Dims p = place(v, at);
    int64_t flat = 0;
    for (size_t d = 0; d < p.size() && flat < none; ++d)
      flat = p[d] < 0 || p[d] >= from[d] ? none : flat + p[d] * strides[d];
    total &= flat < none;
    places.push_back(flat);
    for (size_t d = to.size(); d-- > 0 && ++at[d] == to[d];) at[d] = 0;
  }
  Mover m(b, x);
  m.reshape({none});
  m.pad({0}, {total ? 0 : 1});
  m.gather(0, places, to);
  return m.result();
}

// Is every digit used by one index at most, and does no dimension have to be widened out of
// proportion before its digits can be taken apart?
bool is_separable(const View& v, const std::vector<AxisPlan>& axes, const Dims& shape) {
  std::set<int> used;
  __int128 padded = 1;
  for (size_t d = 0; d < axes.size(); ++d) {
    for (int digit : axes[d].digits)
      if (!used.insert(digit).second) return false;
    padded *= std::max(shape[d], axes[d].size);
    if (padded > kMaxElements) return false;
  }
  return padded <= 4 * std::max(count(shape), count(shape_of(v)));
}

// Zeros around it, windows cut out, dimensions taken apart into digits: those of the first
// dimension of the operand first.
std::vector<int> take_apart(Mover& m, const std::vector<AxisPlan>& axes, const Dims& radices) {
  const auto radix = [&](int digit) { return radices[static_cast<size_t>(digit)]; };
  Dims before, after, apart, kept, present;
  Slice window;
  for (size_t d = 0; d < axes.size(); ++d) {
    const AxisPlan& p = axes[d];
    const int64_t extent = m.shape()[d];
    const int64_t last = p.step == 1 ? p.first + p.size : extent;
    before.push_back(std::max<int64_t>(0, -p.first));
    after.push_back(std::max<int64_t>(0, last - extent));
    window.starts.push_back(p.first + before.back());
    window.sizes.push_back(p.size);
    window.steps.push_back(p.step);
    if (!p.places.empty()) {  // yet to be gathered
      for (Dims* dims : {&apart, &kept, &present}) dims->push_back(p.size);
      continue;
    }
    for (int digit : p.digits) present.push_back(radix(digit));
    for (size_t k = 0; k < p.periods.size(); ++k) {
      apart.push_back(p.periods[k]);
      kept.push_back(k < p.digits.size() ? radix(p.digits[k]) : 1);
    }
  }
  m.pad(before, after);
  m.slice(window);
  m.reshape(apart);
  m.crop(kept);
  m.reshape(present);  // without remainders of one element
  std::vector<int> order;
  for (const AxisPlan& p : axes) {
    Dims boxes;
    for (int digit : p.digits) boxes.push_back(radix(digit));
    if (!p.places.empty()) m.gather(order.size(), p.places, boxes);
    order.insert(order.end(), p.digits.begin(), p.digits.end());
  }
  return order;
}

// The digits in the order of the result, repeated where no index uses them, as its dimensions.
void put_together(Mover& m, const std::vector<int>& order, const View& v) {
  const Dims radices = radices_of(v);
  Dims perm(order.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::ranges::sort(perm, {}, [&](int64_t k) { return order[static_cast<size_t>(k)]; });
  m.transpose(perm);
  Dims unused = radices;
  bool repeats = false;
  for (size_t k = 0; k < radices.size(); ++k) {
    if (std::ranges::count(order, static_cast<int>(k))) continue;
    repeats |= radices[k] != 1;
    unused[k] = 1;
  }
  if (repeats) {
    m.reshape(unused);
    m.broadcast(radices);
  }
  Dims together;
  for (const View::Dim& d : v.out) together.push_back(count(d.radices));
  m.reshape(together);
  m.crop(shape_of(v));
}

NodeId view_expand(GraphBuilder& b, const ViewMap& a, Args args) {
  const View v = view_on(a, b.type(args[0])).value_or_throw();
  const Dims shape = b.shape(args[0]);
  std::vector<AxisPlan> axes;
  for (size_t d = 0; d < shape.size(); ++d)
    axes.push_back(plan_axis(v.index[d], radices_of(v), shape[d]));
  if (!is_separable(v, axes, shape)) return view_by_places(b, v, args[0]);
  Mover m(b, args[0]);
  put_together(m, take_apart(m, axes, radices_of(v)), v);
  return m.result();
}

// --- What is a view ---

// Is the form a number of which the iterators are digits, each at its place, with nothing to carry?
bool is_mixed_radix(const Linear& of, const Dims& extents) {
  auto terms = of.terms;
  std::ranges::sort(terms, {}, &std::pair<int, int64_t>::second);
  int64_t below = 1;
  for (auto [iterator, coef] : terms) {
    if (coef < below) return false;
    below = coef * extents[static_cast<size_t>(iterator)];
  }
  return of.constant == 0;
}

// Where the digits of every iterator begin that the read takes apart by division; false where
// those are none of one number.
bool cut_points(const Meaning& m, std::vector<std::set<int64_t>>& cuts) {
  cuts.assign(m.out.size(), {1});
  for (const IndexExpr& e : m.reads[0].index) {
    for (const Digit& d : e.digits) {
      if (!is_mixed_radix(d.of, m.out)) return false;
      for (auto [iterator, at] : d.of.terms) {
        auto k = static_cast<size_t>(iterator);
        for (int64_t border : {d.div, d.div * d.mod}) {
          if (border <= 1 || border >= at * m.out[k]) continue;
          if (std::max(border, at) % std::min(border, at) != 0) return false;
          if (border > at) cuts[k].insert(border / at);
        }
      }
    }
  }
  for (const auto& c : cuts)
    for (auto it = c.begin(); std::next(it) != c.end(); ++it)
      if (*std::next(it) % *it != 0) return false;
  return true;
}

}  // namespace

std::optional<View> as_view(const Meaning& m, const Dims& shape) {
  std::vector<std::set<int64_t>> cuts;
  if (!is_movement(m) || m.reads.size() != 1 || m.reads[0].outside.value_or(0) != 0 ||
      count(m.out) == 0 || !cut_points(m, cuts))
    return std::nullopt;
  View v;
  // An iterator is a sum of digits times the places where they begin.
  std::vector<std::vector<std::pair<int64_t, int>>> digits(m.out.size());  // begins, digit
  int named = 0;
  size_t next = 0;
  for (int64_t extent : shape) {
    View::Dim d{.extent = extent, .radices = {}};
    int64_t covered = 1;
    for (; covered < extent && next < m.out.size(); ++next) {
      int64_t whole = m.out[next];
      if (whole == 1) continue;  // always 0: no digit
      for (auto it = cuts[next].rbegin(); it != cuts[next].rend(); ++it) {
        if (*it >= whole) continue;
        // Only the slowest digit of all may be cropped.
        if (whole % *it != 0 && !d.radices.empty()) return std::nullopt;
        digits[next].emplace_back(*it, named++);
        d.radices.push_back((whole + *it - 1) / *it);
        whole = *it;
      }
      covered *= m.out[next];
    }
    if (covered != extent) return std::nullopt;
    if (d.radices.empty()) {
      d.radices = {1};
      ++named;
    }
    v.out.push_back(std::move(d));
  }
  for (const IndexExpr& e : m.reads[0].index) {
    if (e.read >= 0) return std::nullopt;
    Linear index{.constant = e.affine.constant, .terms = {}};
    auto add = [&](const Linear& of, int64_t coef, int64_t div, int64_t mod) {
      for (auto [iterator, at] : of.terms)
        for (auto [begins, digit] : digits[static_cast<size_t>(iterator)])
          if ((div == 1 || at * begins >= div) && (!mod || at * begins < div * mod))
            index = index + Linear{.constant = 0, .terms = {{digit, coef * (at * begins / div)}}};
    };
    add(e.affine, 1, 1, 0);
    for (const Digit& d : e.digits) add(d.of, d.coef, d.div, d.mod);
    v.index.push_back(std::move(index));
  }
  if (!fault(v).empty()) return std::nullopt;
  return normalised(v);
}

std::vector<OpDef> view_ops() {
  return {
      define<ViewMap>({.name = "view",
                       .kind = Kind::movement,
                       .traits = multilinear,
                       .infer = view_infer,
                       .means = view_means,
                       .expand = view_expand,
                       .doc = "elements by their places: of \"[2*4:7] <- [a+2b-1]\", element "
                              "4a+b is x[a+2b-1], or 0 where x has none; the last is cropped"})};
}

}  // namespace emend
