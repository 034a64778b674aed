#include "kernels/cpu/contraction.h"

#include <algorithm>

namespace emend {

int64_t extent_of(const Nest& nest, const std::vector<int>& iterators) {
  int64_t n = 1;
  for (int a : iterators) n *= nest.math.extent(a);
  return n;
}

namespace {

bool is_plain_factor(const Nest& nest, const NestValue& v) {
  if (v.kind != NestValue::Kind::load || v.dtype != DType::f32 || v.outside != 0 || v.faults)
    return false;
  for (auto [a, coef] : v.at.terms) {
    if (nest.math.atom(a).kind != Atom::Kind::iterator) return false;
  }
  return true;
}

}  // namespace

std::optional<Contraction> contraction_of(Nest nest, int sum_) {
  Contraction c;
  c.nest = std::move(nest);
  c.sum = sum_;
  const NestValue& sum = c.nest.values[static_cast<size_t>(c.sum)];
  if (sum.reduce != Reduce::sum || sum.work != DType::f32) return std::nullopt;
  const NestValue& product = c.nest.values[static_cast<size_t>(sum.args[0])];
  if (product.kind != NestValue::Kind::compute || !is_product(product.body)) return std::nullopt;
  c.first.load = product.args[0];
  c.second.load = product.args[1];
  if (!is_plain_factor(c.nest, c.load(c.first)) || !is_plain_factor(c.nest, c.load(c.second)))
    return std::nullopt;
  c.k = sum.over;
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
  return c;
}

void Contraction::measure() {
  for (Side* s : {&first, &second}) s->extent = extent_of(nest, s->iterators);
  batches = extent_of(nest, batch);
  depth = extent_of(nest, k);
}

std::optional<Contraction> contraction_in(const Graph& group) {
  auto nest = nest_of(group);
  if (!nest) return std::nullopt;
  int sum = -1;
  for (size_t i = 0; i < nest->values.size(); ++i) {
    if (nest->values[i].kind != NestValue::Kind::reduce) continue;
    if (sum >= 0) return std::nullopt;
    sum = static_cast<int>(i);
  }
  if (sum < 0) return std::nullopt;
  return contraction_of(std::move(*nest), sum);
}

namespace {

// The load's own strides of all its iterators, if they are the digits of a dense array.
std::optional<std::vector<int>> dense_order(const Nest& nest, const NestValue& load) {
  auto terms = load.at.terms;
  std::sort(terms.begin(), terms.end(), [](auto a, auto b) { return a.second > b.second; });
  int64_t step = 1;
  std::vector<int> order;
  for (size_t i = terms.size(); i-- > 0;) {
    if (terms[i].second != step) return std::nullopt;
    step *= nest.math.extent(terms[i].first);
    order.insert(order.begin(), terms[i].first);
  }
  if (load.at.constant != 0 || !load.bounds.empty()) return std::nullopt;
  return order;
}

}  // namespace

std::optional<NodeId> arranged_operand(GraphBuilder& b, const Contraction& c, const Side& side,
                                       const Graph& group, const std::vector<int>& wanted) {
  const Nest& nest = c.nest;
  auto order = dense_order(nest, c.load(side));
  const Type& type = group.type(group.inputs[static_cast<size_t>(c.load(side).buffer)].node);
  if (!order || extent_of(nest, *order) != count(type.shape)) return std::nullopt;
  auto users = std::ranges::count_if(nest.values, [&](const NestValue& v) {
    return v.kind == NestValue::Kind::load && v.buffer == c.load(side).buffer;
  });
  if (users != 1) return std::nullopt;
  Dims extents, perm, shape;
  for (int a : *order) extents.push_back(nest.math.extent(a));
  for (int a : wanted) {
    shape.push_back(nest.math.extent(a));
    auto it = std::ranges::find(*order, a);
    if (it != order->end()) {
      perm.push_back(it - order->begin());
    } else if (nest.math.extent(a) != 1) {
      return std::nullopt;
    }
  }
  if (perm.size() != order->size()) return std::nullopt;
  NodeId x = b.input("x", type);
  x = b.op("reshape", {x}, Attrs({{"shape", extents}}));
  x = b.op("transpose", {x}, Attrs({{"perm", perm}}));
  return b.op("reshape", {x}, Attrs({{"shape", shape}}));
}

}  // namespace emend
