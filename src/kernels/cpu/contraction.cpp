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

std::optional<Contraction> contraction_in(const Graph& group) {
  auto nest = nest_of(group);
  if (!nest) return std::nullopt;
  Contraction c;
  c.nest = std::move(*nest);
  for (size_t i = 0; i < c.nest.values.size(); ++i) {
    if (c.nest.values[i].kind != NestValue::Kind::reduce) continue;
    if (c.sum >= 0) return std::nullopt;
    c.sum = static_cast<int>(i);
  }
  if (c.sum < 0) return std::nullopt;
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
  for (Side* s : {&c.first, &c.second}) s->extent = extent_of(c.nest, s->iterators);
  c.batches = extent_of(c.nest, c.batch);
  c.depth = extent_of(c.nest, c.k);
  return c;
}

}  // namespace emend
