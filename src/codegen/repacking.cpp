#include "codegen/repacking.h"

#include <algorithm>

#include "kernels/nest.h"

namespace emend {
namespace {

// The coefficients of a form over these iterators, if it has no other atoms.
std::optional<Dims> coefficients(const Linear& form, const std::vector<int>& iterators) {
  Dims coefs(iterators.size());
  for (auto [atom, coef] : form.terms) {
    auto it = std::find(iterators.begin(), iterators.end(), atom);
    if (it == iterators.end()) return std::nullopt;
    coefs[static_cast<size_t>(it - iterators.begin())] = coef;
  }
  return coefs;
}

// The iterators of the space, outermost digit of the stored number first.
std::optional<std::vector<int>> digits(const Nest& nest, const Linear& stored, int64_t count) {
  auto terms = stored.terms;
  std::sort(terms.begin(), terms.end(), [](auto a, auto b) { return a.second > b.second; });
  std::vector<int> order;
  for (auto [atom, coef] : terms) {
    if (nest.math.atom(atom).kind != Atom::Kind::iterator) return std::nullopt;
    if (coef * nest.math.extent(atom) != count) return std::nullopt;
    count = coef;
    order.push_back(atom);
  }
  if (stored.constant != 0 || count != 1) return std::nullopt;
  return order;
}

}  // namespace

std::optional<Repacking> repacking_of(const Graph& packing) {
  if (packing.inputs.size() != 1 || packing.outputs.size() != 1) return std::nullopt;
  auto nest = nest_of(packing);
  if (!nest || nest->stores.size() != 1) return std::nullopt;
  const NestStore& store = nest->stores[0];
  const NestValue& load = nest->values[static_cast<size_t>(store.value)];
  const Type& to = packing.type(packing.outputs[0].node);
  bool moved = load.kind == NestValue::Kind::load && load.outside == 0 && !load.faults &&
               to.dtype == packing.type(packing.inputs[0].node).dtype && info(to.dtype).bits >= 8;
  if (!moved) return std::nullopt;
  auto order = digits(*nest, store.at, count(to.shape));
  if (!order) return std::nullopt;
  auto strides = coefficients(load.at, *order);
  if (!strides) return std::nullopt;
  Repacking r{.strides = std::move(*strides), .first = load.at.constant};
  for (int a : *order) r.extents.push_back(nest->math.extent(a));
  for (const Bound& b : load.bounds) {
    auto coefs = coefficients(b.at, *order);
    if (!coefs) return std::nullopt;
    r.limits.push_back({std::move(*coefs), b.at.constant, b.extent});
  }
  return r;
}

}  // namespace emend
