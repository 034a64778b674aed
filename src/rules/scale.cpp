#include "rules/scale.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>

#include "base/hash.h"

namespace emend {
namespace {

// Of one stored as sign, exponent and fraction: without the sign, its bits are ordered as the
// numbers are.
template <class Bits>
Scale scale_of_bits(const Tensor& t, int fraction, int exponents) {
  const Bits sign = static_cast<Bits>(Bits{1} << (fraction + exponents));
  const Bits first = static_cast<Bits>(Bits{1} << fraction);
  const Bits infinite = static_cast<Bits>(((Bits{1} << exponents) - 1) << fraction);
  // Lanes side by side, for weights are many and all of them are looked at.
  constexpr size_t kLanes = 16;
  Bits low[kLanes], high[kLanes] = {}, negative[kLanes] = {}, zero[kLanes] = {};
  std::fill_n(low, kLanes, infinite);
  auto look = [&](const std::byte* at, size_t lane) {
    Bits b;
    std::memcpy(&b, at + lane * sizeof b, sizeof b);
    const Bits size = static_cast<Bits>(b & ~sign);
    const bool normal = size >= first && size < infinite;
    const Bits l = normal ? size : infinite, h = normal ? size : Bits{0};
    low[lane] = l < low[lane] ? l : low[lane];
    high[lane] = h > high[lane] ? h : high[lane];
    negative[lane] = static_cast<Bits>(negative[lane] | b);
    zero[lane] = static_cast<Bits>(zero[lane] | Bits{size == 0});
  };
  const auto n = static_cast<size_t>(t.count());
  const std::byte* data = t.data();
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) look(data + i * sizeof(Bits), lane);
  }
  for (size_t lane = 0; i + lane < n; ++lane) look(data + i * sizeof(Bits), lane);
  const Bits least = *std::min_element(low, low + kLanes);
  const Bits most = *std::max_element(high, high + kLanes);
  const bool zeros = std::any_of(zero, zero + kLanes, [](Bits b) { return b != 0; });
  const bool negatives =
      std::any_of(negative, negative + kLanes, [&](Bits b) { return (b & sign) != 0; });
  Scale s{.zeros = zeros, .negatives = negatives};
  if (most == 0) return s;
  auto exponent = [&](Bits b) {
    std::byte stored[sizeof b];
    std::memcpy(stored, &b, sizeof b);
    return std::log2(load_real(t.dtype(), stored, 0));
  };
  s.least = exponent(least);
  s.most = exponent(most);
  return s;
}

Scale scale_of_numbers(const Tensor& t) {
  Scale s;
  const Scale normal = is_float(t.dtype()) ? normal_numbers(t.dtype()) : Scale{0, 1024};
  for (int64_t i = 0; i < t.count(); ++i) {
    double v = t.real(i);
    s.zeros |= v == 0;
    s.negatives |= v < 0;
    double size = std::log2(std::abs(v));
    if (v == 0 || !std::isfinite(v) || size < normal.least) continue;
    s.least = std::min(s.least, size);
    s.most = std::max(s.most, size);
  }
  return s;
}

// The exponent of the smallest normal number, and binary digits.
struct Format {
  int least, digits;
};
Format format_of(DType t) {
  switch (t) {
    case DType::f64:
      return {-1022, 53};
    case DType::f16:
      return {-14, 11};
    case DType::bf16:
      return {-126, 8};
    case DType::f8e4m3fn:
      return {-6, 4};
    case DType::f8e4m3fnuz:
      return {-7, 4};
    case DType::f8e5m2:
      return {-14, 3};
    case DType::f8e5m2fnuz:
      return {-15, 3};
    case DType::f8e8m0:
      return {-127, 1};
    case DType::f4e2m1:
      return {0, 2};
    default:
      return {-126, 24};
  }
}

Scale times(const Scale& a, const Scale& b) {
  return {a.least + b.least, a.most + b.most, a.zeros || b.zeros, a.negatives || b.negatives};
}
Scale inverse(const Scale& a) {
  return {-a.most, -a.least, false, a.negatives};
}
Scale root(const Scale& a) {
  return {a.least / 2, a.most / 2, a.zeros, false};
}
Scale either(const Scale& a, const Scale& b) {
  return {std::min(a.least, b.least), std::max(a.most, b.most), a.zeros || b.zeros,
          a.negatives || b.negatives};
}

// Terms of both signs may cancel: what is left is no less than the last digit of the smaller one.
Scale summed(const Scale& a, const Scale& b, DType t) {
  Scale s = either(a, b);
  if (a.empty() || b.empty()) return s;
  s.most += 1;
  if (a.negatives || b.negatives) {
    s.least -= format_of(t).digits;
    s.zeros = true;
  } else {
    s.zeros = a.zeros && b.zeros;
    if (!a.zeros) s.least = b.zeros ? a.least : std::max(a.least, b.least);
    if (a.zeros && !b.zeros) s.least = b.least;
  }
  return s;
}

Magnitude::Atoms times(const Magnitude::Atoms& a, const Magnitude::Atoms& b, double power) {
  std::map<uint64_t, double> sum(a.begin(), a.end());
  for (auto [name, p] : b) sum[name] += power * p;
  std::erase_if(sum, [](const auto& one) { return one.second == 0; });
  return {sum.begin(), sum.end()};
}

enum class Form : uint8_t {
  other,        // nothing is known: a value by itself
  same,         // every element is one of the operands', or is no larger
  sum,          // of two
  product,      // of two
  quotient,     // of two
  reciprocal,   // of one
  root,         // the square root of one
  contraction,  // sums of products of two
  total,        // sums of one
  gemm,
  batch_norm,
};

Form form_of(const OpDef& def) {
  static const std::map<std::string_view, Form> kForms = {{"neg", Form::same},
                                                          {"abs", Form::same},
                                                          {"relu", Form::same},
                                                          {"leaky_relu", Form::same},
                                                          {"max", Form::same},
                                                          {"min", Form::same},
                                                          {"where", Form::same},
                                                          {"get", Form::same},
                                                          {"cast", Form::same},
                                                          {"gather", Form::same},
                                                          {"max_pool", Form::same},
                                                          {"avg_pool", Form::same},
                                                          {"reduce_max", Form::same},
                                                          {"reduce_min", Form::same},
                                                          {"reduce_mean", Form::same},
                                                          {"add", Form::sum},
                                                          {"sub", Form::sum},
                                                          {"mul", Form::product},
                                                          {"div", Form::quotient},
                                                          {"reciprocal", Form::reciprocal},
                                                          {"sqrt", Form::root},
                                                          {"matmul", Form::contraction},
                                                          {"conv", Form::contraction},
                                                          {"conv_bias", Form::gemm},
                                                          {"reduce_sum", Form::total},
                                                          {"sum_pool", Form::total},
                                                          {"gemm", Form::gemm},
                                                          {"batch_norm", Form::batch_norm},
                                                          {"dequantize_linear", Form::product}};
  if (def.kind == Kind::movement) return Form::same;
  auto it = kForms.find(def.name);
  return it == kForms.end() ? Form::other : it->second;
}

bool is_floating(const Type& t) {
  return t.is_tensor() ? is_float(t.dtype) : !t.items.empty() && is_floating(t.items[0]);
}

// How many numbers are summed, as a power of two.
double terms_of(const OpDef& def, Attrs attrs, Types types, const Type& result) {
  auto extent = [](int64_t n) { return std::log2(static_cast<double>(std::max<int64_t>(n, 1))); };
  if (def.name == "conv" || def.name == "conv_bias") {
    const Dims& w = types[1].shape;
    return extent(count(w) / std::max<int64_t>(w[0], 1));
  }
  if (def.name == "gemm") return extent(types[0].shape[attrs.get_or("trans_a", false) ? 0 : 1]);
  if (def.name == "matmul") return extent(types[0].shape.empty() ? 1 : types[0].shape.back());
  if (def.name == "sum_pool") return extent(count(attrs.get_or("kernel", Dims{})));
  return extent(count(types[0].shape) / std::max<int64_t>(count(result.shape), 1));
}

// Arithmetic of magnitudes for one operator.
class Maker {
 public:
  Maker(const OpDef& def, Attrs attrs, std::span<const Magnitude> operands, Types types,
        const Type& result)
      : def_(def), attrs_(attrs), operands_(operands), types_(types), result_(result) {}

  Made made() {
    const Form form = form_of(def_);
    out_.value.ahead = std::ranges::all_of(operands_, [](const Magnitude& m) { return m.ahead; }) &&
                       def_.kind != Kind::random && def_.kind != Kind::opaque;
    if (!is_floating(result_)) return named();
    out_.adds = form == Form::sum || form == Form::total;
    out_.multiplies = form == Form::product || form == Form::quotient || form == Form::reciprocal ||
                      form == Form::root || form == Form::contraction || form == Form::gemm ||
                      form == Form::batch_norm;
    auto made = value(form);
    if (!made || made->parts.size() > kMostParts) return named();
    out_.value.parts = std::move(made->parts);
    return std::move(out_);
  }

 private:
  static constexpr size_t kMostParts = 16;
  using Some = std::optional<Magnitude>;  // none: it is a value by itself

  Some value(Form form) {
    switch (form) {
      case Form::other:
        return std::nullopt;
      case Form::same:
        return all_floats();
      case Form::sum:
        return sum(operand(0), operand(1));
      case Form::product:
        return def_.name == "dequantize_linear" ? dequantized() : product(operand(0), operand(1));
      case Form::quotient:
        return product(operand(0), inverted(operand(1)));
      case Form::reciprocal:
        return noted(inverted(operand(0)));
      case Form::root:
        return rooted(operand(0));
      case Form::contraction:
        return many(product(seen_in_sum(operand(0)), seen_in_sum(operand(1))));
      case Form::total:
        return many(operand(0));
      case Form::gemm:
        return with_addend();
      case Form::batch_norm:
        return normalised();
    }
    return std::nullopt;
  }

  // A value that has a name of its own: the same for equal operators over equal operands.
  Made named() {
    out_.value.parts.clear();
    if (out_.value.ahead) return std::move(out_);
    uint64_t name = hash_mix(hash_text(def_.name), attrs_.hash());
    for (const Magnitude& m : operands_) {
      for (const Magnitude::Part& p : m.parts) {
        for (auto [atom, power] : p.atoms)
          name = hash_mix(hash_mix(name, atom), static_cast<uint64_t>(power * 64));
        name = hash_mix(name, hash_text(str(p.scale.least, " ", p.scale.most)));
      }
    }
    out_.value = Magnitude::of_value(name);
    return std::move(out_);
  }

  Some operand(size_t i) const {
    if (i >= operands_.size() || !operands_[i].known()) return std::nullopt;
    return operands_[i];
  }

  Some all_floats() const {
    Some all;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!is_floating(types_[i])) continue;
      if (!operands_[i].known()) return std::nullopt;
      all = all ? united(*all, operands_[i]) : operands_[i];
    }
    const bool borders = def_.name == "pad" || def_.name == "view" || def_.name == "border";
    if (borders && all) {
      for (Magnitude::Part& p : all->parts) p.scale.zeros = true;
    }
    return all;
  }

  static Magnitude united(Magnitude a, const Magnitude& b) {
    for (const Magnitude::Part& p : b.parts) {
      auto same = std::ranges::find(a.parts, p.atoms, &Magnitude::Part::atoms);
      if (same == a.parts.end()) {
        a.parts.push_back(p);
      } else {
        same->scale = either(same->scale, p.scale);
      }
    }
    return a;
  }

  Some sum(const Some& a, const Some& b) {
    if (!a || !b) return std::nullopt;
    if (!out_.value.ahead) return united(*a, *b);
    Scale right = b->parts[0].scale;
    right.negatives |= def_.name == "sub";
    out_.terms = summed(a->parts[0].scale, right, result_.dtype);
    return Magnitude::of_constant(out_.terms);
  }

  Some product(const Some& a, const Some& b) {
    if (!a || !b) return std::nullopt;
    Magnitude all;
    for (const Magnitude::Part& x : a->parts) {
      for (const Magnitude::Part& y : b->parts)
        all = united(std::move(all), {{{times(x.atoms, y.atoms, 1), times(x.scale, y.scale)}}});
    }
    return noted(all);
  }

  Some noted(Some made) {
    if (made && out_.value.ahead) out_.terms = made->parts[0].scale;
    return made;
  }

  // Of several parts nobody knows which is the largest.
  static Some inverted(Some m) {
    if (!m || m->parts.size() != 1) return std::nullopt;
    m->parts[0].atoms = times({}, m->parts[0].atoms, -1);
    m->parts[0].scale = inverse(m->parts[0].scale);
    return m;
  }

  Some rooted(Some m) {
    if (!m || m->parts.size() != 1) return std::nullopt;
    m->parts[0].atoms = times({}, m->parts[0].atoms, 0.5);
    m->parts[0].scale = root(m->parts[0].scale);
    return noted(m);
  }

  // Far below the largest numbers of a weight, others are lost beside them in its sums.
  Some seen_in_sum(Some m) const {
    if (m && out_.value.ahead) m->parts[0].scale = seen_in_sum(m->parts[0].scale);
    return m;
  }
  Scale seen_in_sum(Scale s) const {
    s.least = std::max(s.least, s.most - 2 * format_of(result_.dtype).digits);
    return s;
  }

  Some many(Some m) {
    if (!m) return m;
    const double terms = terms_of(def_, attrs_, types_, result_);
    for (Magnitude::Part& p : m->parts) p.scale.most += terms;
    if (!out_.value.ahead) return m;
    Scale& s = m->parts[0].scale;
    noted(m);
    if (terms > 0 && s.negatives) {
      s.least -= format_of(result_.dtype).digits;
      s.zeros = true;
    }
    s = s.empty() ? s : seen_in_sum(s);
    return m;
  }

  static Some scaled(Some m, double factor) {
    if (!m || factor == 1) return m;
    const double by = std::log2(std::abs(factor));
    for (Magnitude::Part& p : m->parts) {
      p.scale.least += by;
      p.scale.most += by;
    }
    return m;
  }

  Some with_addend() {
    Some made = scaled(many(product(operand(0), operand(1))), attrs_.get_or("alpha", 1.0));
    if (!made || operands_.size() < 3) return made;
    Some addend = scaled(operand(2), attrs_.get_or("beta", 1.0));
    return addend ? Some(united(*made, *addend)) : std::nullopt;
  }

  // (x - mean) times a factor, and a shift.
  Some normalised() {
    if (operands_.size() != 5) return std::nullopt;
    for (size_t i = 1; i < 5; ++i) {
      if (!operands_[i].ahead || !operands_[i].known()) return std::nullopt;
    }
    Scale epsilon;
    epsilon.least = epsilon.most = std::log2(attrs_.get_or("epsilon", 1e-5));
    Scale deviation = root(summed(operands_[4].parts[0].scale, epsilon, result_.dtype));
    Magnitude factor =
        Magnitude::of_constant(times(operands_[1].parts[0].scale, inverse(deviation)));
    Some x = product(operand(0), factor), mean = product(operand(3), factor);
    if (!x || !mean) return std::nullopt;
    return united(united(*x, *mean), operands_[2]);
  }

  Some dequantized() {
    constexpr double kBits = 9;  // of a difference of two bytes
    Some scale = operand(1);
    if (!scale) return std::nullopt;
    return product(scale, Magnitude::of_constant({0, kBits, true, true}));
  }

  const OpDef& def_;
  const Attrs attrs_;
  std::span<const Magnitude> operands_;
  Types types_;
  const Type& result_;
  Made out_;
};

}  // namespace

namespace {

Scale looked_at(const Tensor& t) {
  switch (t.dtype()) {
    case DType::f32:
      return scale_of_bits<uint32_t>(t, 23, 8);
    case DType::f64:
      return scale_of_bits<uint64_t>(t, 52, 11);
    case DType::f16:
      return scale_of_bits<uint16_t>(t, 10, 5);
    case DType::bf16:
      return scale_of_bits<uint16_t>(t, 7, 8);
    default:
      return scale_of_numbers(t);
  }
}

}  // namespace

Scale scale_of(const Tensor& t) {
  constexpr int64_t kLarge = 1 << 16;
  constexpr double kStep = 16;
  Scale scale = looked_at(t);
  t.drop_pages();  // most are not asked for again
  if (t.count() <= kLarge || format_of(t.dtype()).least > -100 || scale.empty()) return scale;
  return {kStep * std::floor(scale.least / kStep), kStep * std::ceil(scale.most / kStep), true,
          true};
}

Scale normal_numbers(DType t) {
  return {static_cast<double>(format_of(t).least), std::log2(highest(t)), true, true};
}

Made made_by(const OpDef& def, Attrs attrs, std::span<const Magnitude> operands, Types types,
             const Type& result) {
  return Maker(def, attrs, operands, types, result).made();
}

}  // namespace emend
