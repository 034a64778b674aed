// Whole runs in double precision: random inputs, differences, witnesses.
#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "equiv/compare.h"
#include "ops/evaluate.h"

namespace emend {

std::string_view to_text(Verdict::Kind k) {
  static constexpr std::string_view kNames[] = {"equal", "different", "unknown"};
  return kNames[static_cast<size_t>(k)];
}

Tensor random_tensor(const Type& type, uint64_t seed, uint64_t stream, double scale) {
  if (type.dtype == DType::string) return Tensor::zeros(type.dtype, type.shape);
  bool complex = is_complex(type.dtype);
  DType part = type.dtype == DType::c64    ? DType::f32
               : type.dtype == DType::c128 ? DType::f64
                                           : type.dtype;
  auto n = static_cast<size_t>(count(type.shape)) * (complex ? 2 : 1);
  return Tensor::make(type.dtype, type.shape, [&](std::byte* data) {
    for (size_t i = 0; i < n; ++i) {
      if (is_float(part)) {
        store_real(part, data, i, scale * random_normal(seed, stream, i));
      } else {
        // Small enough to be an index into most tables, different enough to tell places apart.
        store_int(part, data, i, static_cast<int64_t>(random_bits(seed, stream, i) % 2));
      }
    }
  });
}

std::vector<Value> random_inputs(const Graph& g, uint64_t seed, double scale) {
  std::vector<Value> inputs;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Type& t = g.types[g.inputs[i].node];
    if (!t.is_tensor())
      throw Error(str("input ", g.inputs[i].name, " is ", to_text(t), ": give it a value"));
    inputs.emplace_back(random_tensor(t, seed, i, scale));
  }
  return inputs;
}

namespace {

void compare_tensors(const std::string& name, const Tensor& a, const Tensor& b,
                     Verdict::Worst& worst) {
  auto note = [&](int64_t at, double abs, double rel, double va, double vb) {
    if (!(rel > worst.rel) && !worst.output.empty()) return;
    Dims position(a.shape().size());
    int64_t rest = at;
    for (size_t d = position.size(); d-- > 0;) {
      position[d] = a.shape()[d] ? rest % a.shape()[d] : 0;
      rest /= std::max<int64_t>(a.shape()[d], 1);
    }
    worst = {name, std::move(position), abs, rel, va, vb};
  };
  if (a.dtype() == DType::string) {
    for (size_t i = 0; i < a.strings().size(); ++i) {
      if (a.strings()[i] != b.strings()[i]) note(static_cast<int64_t>(i), INFINITY, INFINITY, 0, 0);
    }
    return;
  }
  bool complex = is_complex(a.dtype());
  DType part = a.dtype() == DType::c64 ? DType::f32 : DType::f64;
  int64_t n = a.count() * (complex ? 2 : 1);
  auto at = [&](const Tensor& t, int64_t i) {
    return complex ? load_real(part, t.data(), static_cast<size_t>(i)) : t.real(i);
  };
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isfinite(at(a, i))) largest = std::max(largest, std::abs(at(a, i)));
  }
  bool whole = !is_float(a.dtype()) && !complex;
  for (int64_t i = 0; i < n; ++i) {
    double va = at(a, i), vb = at(b, i);
    if (va == vb || (std::isnan(va) && std::isnan(vb))) continue;
    double abs = std::abs(va - vb);
    if (std::isnan(abs)) abs = INFINITY;
    note(complex ? i / 2 : i, abs, whole || largest == 0 ? INFINITY : abs / largest, va, vb);
  }
}

void compare_values(const std::string& name, const Value& a, const Value& b,
                    Verdict::Worst& worst) {
  if (a.kind != b.kind || a.items.size() != b.items.size() ||
      (a.is_tensor() &&
       (a.tensor.shape() != b.tensor.shape() || a.tensor.dtype() != b.tensor.dtype()))) {
    worst = {name, {}, INFINITY, INFINITY, 0, 0};
    return;
  }
  if (a.is_tensor()) compare_tensors(name, a.tensor, b.tensor, worst);
  for (size_t i = 0; i < a.items.size(); ++i) compare_values(name, a.items[i], b.items[i], worst);
}

}  // namespace

Verdict::Worst worst_difference(const Graph& names, std::span<const Value> a,
                                std::span<const Value> b) {
  Verdict::Worst worst;
  for (size_t i = 0; i < a.size(); ++i) compare_values(names.outputs[i].name, a[i], b[i], worst);
  return worst;
}

}  // namespace emend
