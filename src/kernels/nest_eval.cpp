#include "kernels/nest_eval.h"

#include <cmath>

#include "base/error.h"
#include "ops/meaning_eval.h"
#include "ops/scalar_eval.h"

namespace emend {
namespace {

// A scalar body over plain numbers of one type.
template <class T>
T run(const Scalar& s, std::span<const T> args) {
  std::vector<T> at;
  for (const Instr& i : s.code) {
    auto operand = [&](int32_t k) { return at[static_cast<size_t>(k)]; };
    if (i.fn == Fn::constant) {
      at.push_back(number<T>(i.value));
    } else if (i.fn == Fn::arg) {
      at.push_back(args[static_cast<size_t>(i.a)]);
    } else if (i.fn == Fn::select) {
      at.push_back(choose(operand(i.a), operand(i.b), operand(i.c)));
    } else if (info(i.fn).arity == 1) {
      at.push_back(apply(i.fn, operand(i.a)));
    } else {
      at.push_back(apply(i.fn, operand(i.a), operand(i.b)));
    }
  }
  return at.back();
}

template <class T>
T combine(Reduce how, T acc, T x) {
  switch (how) {
    case Reduce::sum:
      return apply(Fn::add, acc, x);
    case Reduce::product:
      return apply(Fn::mul, acc, x);
    case Reduce::max:
      return apply(Fn::max, acc, x);
    default:
      return apply(Fn::min, acc, x);
  }
}

}  // namespace

int64_t NestPoints::index(const Linear& e) {
  int64_t n = e.constant;
  for (auto [a, coef] : e.terms) {
    const Atom& at = nest_.math.atom(a);
    switch (at.kind) {
      case Atom::Kind::iterator:
        n += coef * iterators_[static_cast<size_t>(a)];
        break;
      case Atom::Kind::quotient:
        n += coef * (index(at.of) / at.by);
        break;
      case Atom::Kind::remainder:
        n += coef * (index(at.of) % at.by);
        break;
      case Atom::Kind::value: {
        int64_t v = value(at.value).whole;
        n += coef * (v < 0 ? v + at.by : v);
        break;
      }
    }
  }
  return n;
}

NestPoints::Number NestPoints::rounded(const NestValue& u, Number n) const {
  // Floats keep the precision of the reference; integers wrap as they are stored.
  if (is_float(u.dtype)) return {n.real, static_cast<int64_t>(number<int64_t>(n.real))};
  if (is_float(u.work)) {
    n.whole = number<int64_t>(n.real);
    if (u.dtype == DType::boolean) n.whole = n.real != 0;
  }
  std::byte element[8];
  store_int(u.dtype, element, 0, n.whole);
  int64_t whole = u.dtype == DType::boolean ? n.whole != 0 : load_int(u.dtype, element, 0);
  return {u.work == DType::u64 ? static_cast<double>(static_cast<uint64_t>(whole))
                               : static_cast<double>(whole),
          whole};
}

NestPoints::Number NestPoints::load(const NestValue& u) {
  for (const Bound& b : u.bounds) {
    int64_t at = index(b.at);
    if (at < 0 || at >= b.extent) return {u.outside, number<int64_t>(u.outside)};
  }
  auto at = static_cast<size_t>(index(u.at));
  const std::byte* data = loads_[static_cast<size_t>(u.buffer)];
  if (!is_float(u.dtype)) {
    int64_t whole = load_int(u.dtype, data, at);
    return {static_cast<double>(whole), whole};
  }
  double real = load_real(u.dtype, data, at);
  return {real, number<int64_t>(real)};
}

NestPoints::Number NestPoints::reduction(const NestValue& u) {
  Number acc;
  bool first = true;
  for (int a : u.over) {
    iterators_[static_cast<size_t>(a)] = 0;
    if (nest_.math.extent(a) == 0)
      return {neutral<double>(u.reduce, u.dtype), neutral<int64_t>(u.reduce, u.dtype)};
  }
  for (bool more = true; more;) {
    Number x = value(u.args[0]);
    if (first) {
      acc = x;
    } else if (is_float(u.work)) {
      acc.real = combine(u.reduce, acc.real, x.real);
    } else if (u.work == DType::u64) {
      acc.whole = static_cast<int64_t>(
          combine(u.reduce, static_cast<uint64_t>(acc.whole), static_cast<uint64_t>(x.whole)));
    } else {
      acc.whole = combine(u.reduce, acc.whole, x.whole);
    }
    first = false;
    more = false;
    for (size_t k = u.over.size(); k-- > 0 && !more;) {
      int64_t& i = iterators_[static_cast<size_t>(u.over[k])];
      more = ++i < nest_.math.extent(u.over[k]);
      if (!more) i = 0;
    }
  }
  return acc;
}

NestPoints::Number NestPoints::value(int v) {
  const NestValue& u = nest_.values[static_cast<size_t>(v)];
  if (u.kind == NestValue::Kind::load) return load(u);
  if (u.kind == NestValue::Kind::index) {
    int64_t n = index(u.at);
    return {static_cast<double>(n), n};
  }
  std::vector<int64_t> at;
  if (u.kind == NestValue::Kind::reduce) {
    const auto& free = free_[static_cast<size_t>(v)];
    for (size_t a = 0; a < free.size(); ++a) {
      if (free[a]) at.push_back(iterators_[a]);
    }
    auto it = known_.find({v, at});
    if (it != known_.end()) return it->second;
    // The iterators may be in use outside.
    std::vector<int64_t> outside = iterators_;
    Number n = rounded(u, reduction(u));
    iterators_ = std::move(outside);
    return known_[{v, at}] = n;
  }
  Number n;
  if (is_float(u.work)) {
    std::vector<double> args;
    for (int a : u.args) args.push_back(value(a).real);
    n.real = run<double>(u.body, args);
  } else if (u.work == DType::u64) {
    std::vector<uint64_t> args;
    for (int a : u.args) args.push_back(static_cast<uint64_t>(value(a).whole));
    n.whole = static_cast<int64_t>(run<uint64_t>(u.body, args));
  } else {
    std::vector<int64_t> args;
    for (int a : u.args) args.push_back(value(a).whole);
    n.whole = run<int64_t>(u.body, args);
  }
  return rounded(u, n);
}

void NestPoints::set_point(std::span<const int64_t> point) {
  iterators_.assign(nest_.math.size(), 0);
  for (size_t k = 0; k < nest_.space.size(); ++k) {
    iterators_[static_cast<size_t>(nest_.space[k])] = point[k];
  }
}

double NestPoints::stored(const NestStore& store, std::span<const int64_t> point) {
  set_point(point);
  return value(store.value).real;
}

int64_t NestPoints::place(const NestStore& store, std::span<const int64_t> point) {
  set_point(point);
  return index(store.at);
}

}  // namespace emend
