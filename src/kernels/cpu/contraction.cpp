#include "kernels/cpu/contraction.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

namespace emend {

int64_t extent_of(const Nest& nest, const std::vector<int>& iterators) {
  int64_t n = 1;
  for (int a : iterators) n *= nest.math.extent(a);
  return n;
}

int64_t factors_per_word(Product p) {
  return p == Product::bytes ? 4 : p == Product::bf16 ? 2 : 1;
}

namespace {

bool is_plain(const Nest& nest, const NestValue& load) {
  if (load.outside != 0 || load.faults) return false;
  return std::ranges::all_of(load.at.terms, [&](auto term) {
    return nest.math.atom(term.first).kind == Atom::Kind::iterator;
  });
}

std::optional<Product> product_of(DType first, DType second, const NestValue& sum) {
  if (first == DType::f32 && second == DType::f32 && sum.work == DType::f32) return Product::f32;
  if (first == DType::bf16 && second == DType::bf16 && sum.work == DType::f32) return Product::bf16;
  bool bytes = info(first).bits == 8 && info(second).bits == 8 && is_integer(first) &&
               is_integer(second) && sum.dtype == DType::i32;
  return bytes ? std::optional(Product::bytes) : std::nullopt;
}

// Words of narrow factors are made along the innermost k: best one that fills whole words, and
// along which factors are neighbours. Sums of integers do not ask for an order, and those of bf16
// none that is better.
void move_words_last(Contraction& c) {
  auto worth = [&](int k) {
    int64_t points = c.nest.math.extent(k) % factors_per_word(c.product) == 0 ? 4 : 0;
    for (const Side* s : {&c.first, &c.second}) {
      points += c.nest.math.stride(c.load(*s).at, k) == 1;
      for (const Bound& b : s->factor.bounds) points -= c.nest.math.stride(b.at, k) != 0;
    }
    return points;
  };
  auto best = c.k.end();
  for (auto k = c.k.begin(); k != c.k.end(); ++k) {
    if (best == c.k.end() || worth(*k) >= worth(*best)) best = k;
  }
  if (best != c.k.end()) std::rotate(best, best + 1, c.k.end());
}

// A zero point may differ from one row of its side to the next, but not along k.
bool zero_is_fixed(const Contraction& c, const Side& own, const Side& other) {
  if (own.factor.zero < 0) return true;
  auto free = free_atoms(c.nest, own.factor.zero);
  auto depends = [&](const std::vector<int>& iterators) {
    return std::ranges::any_of(iterators, [&](int a) { return free[static_cast<size_t>(a)]; });
  };
  return !depends(c.k) && !depends(other.iterators);
}

}  // namespace

std::optional<Contraction> contraction_of(Nest nest, int sum_) {
  Contraction c;
  c.nest = std::move(nest);
  c.sum = sum_;
  const NestValue& sum = c.nest.values[static_cast<size_t>(c.sum)];
  if (sum.reduce != Reduce::sum) return std::nullopt;
  const NestValue& product = c.nest.values[static_cast<size_t>(sum.args[0])];
  if (product.kind != NestValue::Kind::compute || !is_product(product.body)) return std::nullopt;
  auto first = factor_of(c.nest, product.args[0]), second = factor_of(c.nest, product.args[1]);
  if (!first || !second) return std::nullopt;
  c.first.factor = std::move(*first);
  c.second.factor = std::move(*second);
  const NestValue &x = c.load(c.first), &y = c.load(c.second);
  auto kind = product_of(x.dtype, y.dtype, sum);
  if (!kind || !is_plain(c.nest, x) || !is_plain(c.nest, y)) return std::nullopt;
  c.product = *kind;
  c.k = sum.over;
  if (c.product != Product::f32) move_words_last(c);
  for (int a : c.nest.space) {
    bool in_first = c.nest.math.stride(c.load(c.first).at, a) != 0,
         in_second = c.nest.math.stride(c.load(c.second).at, a) != 0;
    if (!in_first && !in_second) return std::nullopt;
    (in_first && in_second ? c.batch
     : in_first            ? c.first.iterators
                           : c.second.iterators)
        .push_back(a);
  }
  c.measure();
  if (!zero_is_fixed(c, c.first, c.second) || !zero_is_fixed(c, c.second, c.first))
    return std::nullopt;
  c.behind = work_behind(c.nest, c.sum);
  return c;
}

void Contraction::measure() {
  for (Side* s : {&first, &second}) s->extent = extent_of(nest, s->iterators);
  batches = extent_of(nest, batch);
  depth = extent_of(nest, k);
}

std::optional<Contraction> contraction_in(const Result<Nest>& nest) {
  if (!nest) return std::nullopt;
  int sum = -1;
  for (size_t i = 0; i < nest->values.size(); ++i) {
    if (nest->values[i].kind != NestValue::Kind::reduce) continue;
    if (sum >= 0) return std::nullopt;
    sum = static_cast<int>(i);
  }
  if (sum < 0) return std::nullopt;
  return contraction_of(*nest, sum);
}

std::optional<Contraction> f32_contraction_in(const Result<Nest>& nest) {
  auto c = contraction_in(nest);
  return c && c->product == Product::f32 ? std::move(c) : std::nullopt;
}

namespace {

// An operand as an array that has iterators as its dimensions.
struct Arranged {
  NodeId node;
  std::vector<int> order;
};

NodeId reshaped(GraphBuilder& b, NodeId n, Dims shape) {
  return b.op("reshape", {n}, Attrs({{"shape", std::move(shape)}}));
}

Dims extents_of(const Nest& nest, const std::vector<int>& iterators) {
  Dims extents;
  for (int a : iterators) extents.push_back(nest.math.extent(a));
  return extents;
}

// The iterators of a form, largest step first, if they are the digits of a number from zero on;
// some may run backwards.
std::optional<std::vector<int>> dense_order(const Nest& nest, const Linear& at) {
  auto terms = at.terms;
  std::ranges::sort(terms, std::greater(), [](auto term) { return std::abs(term.second); });
  int64_t step = 1;
  std::vector<int> order;
  for (size_t i = terms.size(); i-- > 0;) {
    if (std::abs(terms[i].second) != step) return std::nullopt;
    step *= nest.math.extent(terms[i].first);
    order.insert(order.begin(), terms[i].first);
  }
  return order;
}

// A load that is the whole of a dense array, in some order of its digits.
std::optional<Arranged> whole_array(GraphBuilder& b, const Nest& nest, const NestValue& load,
                                    const Type& type) {
  auto order = dense_order(nest, load.at);
  bool forwards = std::ranges::all_of(load.at.terms, [](auto term) { return term.second > 0; });
  if (!order || !forwards || load.at.constant != 0 || !load.bounds.empty() ||
      extent_of(nest, *order) != count(type.shape))
    return std::nullopt;
  return Arranged{reshaped(b, b.input("x", type), extents_of(nest, *order)), std::move(*order)};
}

// What a load has as index of every dimension of its array.
std::optional<std::vector<Linear>> dimension_indices(const Nest& nest, const NestValue& load,
                                                     const Dims& shape) {
  std::vector<Linear> indices(shape.size());
  Dims steps(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) steps[d - 1] = steps[d] * shape[d];
  std::vector<bool> bounded(shape.size());
  Linear rest = load.at;
  for (const Bound& bound : load.bounds) {
    auto is_index_of = [&](size_t d) {
      return !bounded[d] && shape[d] == bound.extent && !is_whole(bound.at) &&
             std::ranges::all_of(bound.at.terms, [&](auto term) {
               return nest.math.stride(rest, term.first) == term.second * steps[d];
             });
    };
    size_t d = 0;
    while (d < shape.size() && !is_index_of(d)) ++d;
    if (d == shape.size()) return std::nullopt;
    bounded[d] = true;
    indices[d] = bound.at;
    rest = rest + bound.at * -steps[d];
  }
  for (auto [a, step] : rest.terms) {
    size_t d = 0;
    while (d < shape.size() && (bounded[d] || std::abs(step) < steps[d])) ++d;
    if (d == shape.size() || step % steps[d] != 0) return std::nullopt;
    int64_t own = step / steps[d];
    indices[d] = indices[d] + term(a, own);
    // What runs backwards starts at its end.
    int64_t start = own < 0 ? -own * (nest.math.extent(a) - 1) : 0;
    indices[d].constant += start;
    rest.constant -= start * steps[d];
  }
  if (rest.constant != 0) return std::nullopt;
  return indices;
}

// A load of which dimensions are padded with zeros, cut into digits, and these reversed.
std::optional<Arranged> padded_array(GraphBuilder& b, const Nest& nest, const NestValue& load,
                                     const Type& type) {
  auto indices = dimension_indices(nest, load, type.shape);
  if (!indices) return std::nullopt;
  const size_t rank = type.shape.size();
  Dims pads(2 * rank), starts, steps;
  Arranged result;
  for (size_t d = 0; d < rank; ++d) {
    const Linear& index = (*indices)[d];
    auto order = dense_order(nest, index);
    auto [low, high] = nest.math.range(index);
    if (!order || extent_of(nest, *order) != high - low + 1) return std::nullopt;
    pads[d] = -low;
    pads[rank + d] = high + 1 - type.shape[d];
    for (int a : *order) {
      bool backwards = *nest.math.stride(index, a) < 0;
      starts.push_back(backwards ? nest.math.extent(a) - 1 : 0);
      steps.push_back(backwards ? -1 : 1);
      result.order.push_back(a);
    }
  }
  const Dims extents = extents_of(nest, result.order);
  NodeId x = b.op("pad", {b.input("x", type)}, Attrs({{"pads", pads}}));
  x = reshaped(b, x, extents);
  result.node =
      b.op("slice", {x}, Attrs({{"starts", starts}, {"sizes", extents}, {"steps", steps}}));
  return result;
}

}  // namespace

std::optional<NodeId> arranged_operand(GraphBuilder& b, const Contraction& c, const Side& side,
                                       const Graph& group, const std::vector<int>& wanted) {
  const Nest& nest = c.nest;
  const NestValue& load = c.load(side);
  const Type& type = group.type(group.inputs[static_cast<size_t>(load.buffer)].node);
  auto users = std::ranges::count_if(nest.values, [&](const NestValue& v) {
    return v.kind == NestValue::Kind::load && v.buffer == load.buffer;
  });
  if (users != 1) return std::nullopt;
  auto x = whole_array(b, nest, load, type);
  if (!x) x = padded_array(b, nest, load, type);
  if (!x) return std::nullopt;
  Dims perm, shape;
  for (int a : wanted) {
    shape.push_back(nest.math.extent(a));
    auto it = std::ranges::find(x->order, a);
    if (it != x->order.end()) {
      perm.push_back(it - x->order.begin());
    } else if (nest.math.extent(a) != 1) {
      return std::nullopt;
    }
  }
  if (perm.size() != x->order.size()) return std::nullopt;
  return reshaped(b, b.op("transpose", {x->node}, Attrs({{"perm", perm}})), shape);
}

}  // namespace emend
