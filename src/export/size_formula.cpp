#include "export/size_formula.h"

#include <algorithm>

namespace emend {
namespace {

// The one number that all are, if they are one.
std::optional<int64_t> one_number(const Dims& numbers) {
  bool same = std::ranges::all_of(numbers, [&](int64_t n) { return n == numbers[0]; });
  return same ? std::optional(numbers[0]) : std::nullopt;
}

template <class F>
Dims each(const Dims& a, const Dims& b, F&& f) {
  Dims out;
  for (size_t k = 0; k < a.size(); ++k) out.push_back(f(a[k], b[k]));
  return out;
}

Dims times(const Dims& a, const Dims& b) {
  return each(a, b, [](int64_t x, int64_t y) { return x * y; });
}

Dims minus(const Dims& a, const Dims& b) {
  return each(a, b, [](int64_t x, int64_t y) { return x - y; });
}

// numbers = factor * sizes / divisor with whole factor and divisor.
std::optional<SizeFormula> multiple(const Dims& numbers, const Dims& sizes,
                                    std::vector<SizedDimension> product) {
  if (std::ranges::any_of(sizes, [](int64_t s) { return s <= 0; })) return std::nullopt;
  auto divides = [](const Dims& a, const Dims& b) -> std::optional<int64_t> {
    for (size_t k = 0; k < a.size(); ++k) {
      if (b[k] == 0 || a[k] % b[k] != 0 || a[k] / b[k] != a[0] / b[0]) return std::nullopt;
    }
    return a[0] / b[0];
  };
  if (auto factor = divides(numbers, sizes))
    return SizeFormula{.factor = *factor, .product = std::move(product)};
  if (auto divisor = divides(sizes, numbers))
    return SizeFormula{.divisor = *divisor, .product = std::move(product)};
  return std::nullopt;
}

// numbers = sizes / divisor, rounded down or up: what striding leaves of a dimension.
std::optional<SizeFormula> quotient(const Dims& numbers, const SizedDimension& d) {
  for (int64_t divisor : {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 32, 64, 128}) {
    for (int64_t add : {int64_t{0}, divisor - 1}) {
      bool fits = true;
      for (size_t k = 0; k < numbers.size() && fits; ++k)
        fits = d.sizes[k] >= 0 && numbers[k] == (d.sizes[k] + add) / divisor;
      if (fits) return SizeFormula{.inner = add, .divisor = divisor, .product = {d}};
    }
  }
  return std::nullopt;
}

std::optional<SizeFormula> of_one(const Dims& numbers, const SizedDimension& d) {
  if (auto f = multiple(numbers, d.sizes, {d})) return f;
  if (auto offset = one_number(minus(numbers, d.sizes)))
    return SizeFormula{.offset = *offset, .product = {d}};
  return quotient(numbers, d);
}

// numbers = factor * d + offset.
std::optional<SizeFormula> affine(const Dims& numbers, const SizedDimension& d) {
  for (size_t k = 1; k < numbers.size(); ++k) {
    int64_t step = d.sizes[k] - d.sizes[0], rise = numbers[k] - numbers[0];
    if (step == 0) continue;
    if (rise % step != 0) return std::nullopt;
    int64_t factor = rise / step, offset = numbers[0] - factor * d.sizes[0];
    for (size_t j = 0; j < numbers.size(); ++j) {
      if (numbers[j] != factor * d.sizes[j] + offset) return std::nullopt;
    }
    return SizeFormula{.factor = factor, .offset = offset, .product = {d}};
  }
  return std::nullopt;
}

std::optional<SizeFormula> of_two(const Dims& numbers, const SizedDimension& a,
                                  const SizedDimension& b) {
  if (auto f = multiple(numbers, times(a.sizes, b.sizes), {a, b})) return f;
  if (auto offset = one_number(minus(minus(numbers, a.sizes), b.sizes)))
    return SizeFormula{.offset = *offset, .product = {a}, .more = b};
  if (auto offset = one_number(minus(numbers, minus(a.sizes, b.sizes))))
    return SizeFormula{.offset = *offset, .product = {a}, .less = b};
  return std::nullopt;
}

}  // namespace

std::optional<SizeFormula> formula_of(const Dims& numbers, const std::vector<SizedDimension>& near,
                                      const std::vector<SizedDimension>& far) {
  // Two unknowns at most are solved for; what is left must confirm them.
  if (numbers.size() < 3) return std::nullopt;
  for (const auto* list : {&near, &far}) {
    for (const SizedDimension& d : *list) {
      if (d.sizes == numbers) return SizeFormula{.product = {d}};
    }
  }
  for (const auto* list : {&near, &far}) {
    for (const SizedDimension& d : *list) {
      if (auto f = of_one(numbers, d)) return f;
    }
  }
  for (const SizedDimension& a : near) {
    for (const SizedDimension& b : near) {
      if (auto f = of_two(numbers, a, b)) return f;
    }
  }
  for (const SizedDimension& d : near) {
    if (auto f = affine(numbers, d)) return f;
  }
  for (const SizedDimension& a : near) {
    for (const SizedDimension& b : near) {
      for (const SizedDimension& c : near) {
        if (auto f = multiple(numbers, times(times(a.sizes, b.sizes), c.sizes), {a, b, c}))
          return f;
      }
    }
  }
  return std::nullopt;
}

}  // namespace emend
