#include "ops/view_compose.h"

#include <algorithm>

#include "ops/build.h"
#include "ops/terms.h"
#include "ops/view.h"

namespace emend {
namespace {

// Digits as a view's dimensions, if they are plain mixed-radix ones.
std::optional<std::vector<View::Dim>> dims_of(const Digits& digits, const Dims& shape) {
  std::vector<View::Dim> dims(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) dims[d] = {shape[d], {}};
  for (const Digits::One& one : digits.all)
    dims[static_cast<size_t>(one.dim)].radices.push_back(one.extent);
  size_t k = digits.all.size();
  for (size_t d = shape.size(); d-- > 0;) {
    int64_t weight = 1;
    for (size_t j = dims[d].radices.size(); j-- > 0;) {
      if (digits.all[--k].weight != weight) return std::nullopt;
      weight *= dims[d].radices[j];
    }
  }
  return dims;
}

bool holds(const Condition& c, const Dims& digits) {
  int64_t v = evaluate(c.of, digits.data());
  return 0 <= v && v < c.extent;
}

// Where all conditions hold, over the dimensions whose digits they name; nothing if that is
// wherever the view reads inside.
struct Masked {
  bool possible = true;
  std::optional<Tensor> mask;
};

Masked mask_of(const std::vector<Condition>& conditions, const std::vector<Condition>& borders,
               const Digits& digits, const Dims& shape) {
  std::vector<bool> named(shape.size(), false);
  auto dim = [&](int k) { return static_cast<size_t>(digits.all[static_cast<size_t>(k)].dim); };
  for (const Condition& c : conditions)
    for (auto [k, coef] : c.of.terms) named[dim(k)] = true;
  std::vector<Condition> known;  // borders that the named dimensions decide
  for (const Condition& b : borders) {
    auto terms = b.of.terms;
    if (std::all_of(terms.begin(), terms.end(), [&](const auto& t) { return named[dim(t.first)]; }))
      known.push_back(b);
  }
  Dims extents(shape.size(), 1);
  for (size_t d = 0; d < shape.size(); ++d) extents[d] = named[d] ? shape[d] : 1;
  if (count(extents) > kMaxMask) return {.possible = false};
  bool needed = false;
  std::vector<double> values;
  Dims at(digits.all.size(), 0);
  for (int64_t i = 0; i < count(extents); ++i) {
    int64_t rest = i;
    Dims position(shape.size());
    for (size_t d = shape.size(); d-- > 0; rest /= extents[d]) position[d] = rest % extents[d];
    for (size_t k = 0; k < at.size(); ++k) {
      const Digits::One& one = digits.all[k];
      at[k] = position[static_cast<size_t>(one.dim)] / one.weight % one.extent;
    }
    auto true_here = [&](const Condition& c) { return holds(c, at); };
    bool all = std::all_of(conditions.begin(), conditions.end(), true_here);
    needed |= !all && std::all_of(known.begin(), known.end(), true_here);
    values.push_back(all);
  }
  if (!needed) return {};
  return {.mask = Tensor::of_reals(DType::boolean, extents, values)};
}

}  // namespace

std::optional<ComposedView> composed(const View& outer, const View& inner, const Dims& shape) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, shape));
  NodeId between = b.op("view", {x}, ViewMap{to_text(inner)});
  b.output("y", b.op("view", {between}, ViewMap{to_text(outer)}));
  Graph g = std::move(b).build();
  const Dims out = shape_of(outer);
  Digits digits = digits_of(out);
  Leaves leaves;
  auto terms = terms_of(g, digits, leaves);
  if (!terms || terms->size() != 1) return std::nullopt;
  const IndexTerm& t = (*terms)[0];
  auto dims = dims_of(digits, out);
  if (!dims) return std::nullopt;
  ComposedView result{.view = {*dims, t.reads[0].index}};
  if (!fault(result.view).empty()) return std::nullopt;
  std::vector<Condition> conditions, borders;
  for (size_t d = 0; d < shape.size(); ++d)
    borders.push_back(upright({t.reads[0].index[d], shape[d]}));
  for (const Condition& c : t.conditions)
    if (std::find(borders.begin(), borders.end(), c) == borders.end()) conditions.push_back(c);
  Masked masked = mask_of(conditions, borders, digits, out);
  if (!masked.possible) return std::nullopt;
  result.mask = std::move(masked.mask);
  result.view = normalised(result.view);
  return result;
}

}  // namespace emend
