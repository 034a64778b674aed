#include "kernels/nest_part.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace emend {
namespace {

// What an instruction compares, if it compares indices and whole numbers: left - right.
std::optional<Linear> compared(const Nest& nest, const NestValue& u, const Instr& i) {
  if (i.fn != Fn::lt && i.fn != Fn::le) return std::nullopt;
  auto side = [&](int32_t at) -> std::optional<Linear> {
    const Instr& x = u.body.code[static_cast<size_t>(at)];
    if (x.fn == Fn::constant && std::abs(x.value) < 1e15 && x.value == std::floor(x.value))
      return whole(static_cast<int64_t>(x.value));
    if (x.fn != Fn::arg) return std::nullopt;
    const NestValue& v = nest.values[static_cast<size_t>(u.args[static_cast<size_t>(x.a)])];
    if (v.kind != NestValue::Kind::index) return std::nullopt;
    return v.at;
  };
  auto left = side(i.a), right = side(i.b);
  if (!left || !right) return std::nullopt;
  return *left + *right * -1;
}

std::optional<bool> decided(const Nest& nest, const NestValue& u, const Instr& i) {
  auto difference = compared(nest, u, i);
  if (!difference) return std::nullopt;
  auto [low, high] = nest.math.range(*difference);
  int64_t least = i.fn == Fn::lt ? 0 : 1;  // from which on it is false
  if (high < least) return true;
  if (low >= least) return false;
  return std::nullopt;
}

// The body with what is decided left out; arguments that it no longer needs go, too.
void decide(const Nest& nest, NestValue& u) {
  Scalar body{u.body};
  body.code.clear();
  std::vector<int32_t> now;  // where each instruction's result is
  auto known = [&](int32_t at) -> std::optional<bool> {
    const Instr& i = body.code[static_cast<size_t>(at)];
    return i.fn == Fn::constant ? std::optional(i.value != 0) : std::nullopt;
  };
  auto add = [&](const Instr& i) {
    body.code.push_back(i);
    return static_cast<int32_t>(body.code.size() - 1);
  };
  for (Instr i : u.body.code) {
    bool reads = i.fn != Fn::arg && i.fn != Fn::iter && i.fn != Fn::attr;
    auto comparison = decided(nest, u, i);
    if (reads) {
      for (int32_t* operand : {&i.a, &i.b, &i.c}) {
        if (*operand >= 0) *operand = now[static_cast<size_t>(*operand)];
      }
    }
    if (comparison) {
      now.push_back(add({.fn = Fn::constant, .value = *comparison ? 1.0 : 0.0}));
    } else if (i.fn == Fn::select && known(i.a)) {
      now.push_back(*known(i.a) ? i.b : i.c);
    } else {
      now.push_back(add(i));
    }
  }
  // The last instruction is the result.
  body.code.resize(static_cast<size_t>(now.back()) + 1);
  u.body = simplified(body);
  std::vector<int> args;
  std::vector<int32_t> place(u.args.size(), -1);
  for (Instr& i : u.body.code) {
    if (i.fn != Fn::arg) continue;
    int32_t& p = place[static_cast<size_t>(i.a)];
    if (p < 0) {
      p = static_cast<int32_t>(args.size());
      args.push_back(u.args[static_cast<size_t>(i.a)]);
    }
    i.a = p;
  }
  u.args = std::move(args);
}

}  // namespace

std::vector<int64_t> changes_along(const Nest& nest, int iterator) {
  std::set<int64_t> all;
  for (const NestValue& u : nest.values) {
    if (u.kind != NestValue::Kind::compute) continue;
    for (const Instr& i : u.body.code) {
      auto d = compared(nest, u, i);
      if (!d || d->terms.size() != 1 || d->terms[0].first != iterator) continue;
      auto [atom, coef] = d->terms[0];
      if (std::abs(coef) != 1) continue;
      // coef * it + constant < 0, or <= 0: where that changes.
      int64_t at = coef > 0 ? -d->constant + (i.fn == Fn::le) : d->constant + (i.fn == Fn::lt);
      if (at > 0 && at < nest.math.extent(iterator)) all.insert(at);
    }
  }
  return {all.begin(), all.end()};
}

std::optional<Nest> with_digits(const Nest& nest, int iterator, int64_t lower) {
  EMEND_ASSERT(lower > 0 && nest.math.extent(iterator) % lower == 0);
  for (size_t a = 0; a < nest.math.size(); ++a) {
    bool made_of = false;
    const Atom& atom = nest.math.atom(static_cast<int>(a));
    if (atom.kind == Atom::Kind::quotient || atom.kind == Atom::Kind::remainder)
      nest.math.visit(atom.of, [&](int b) { made_of |= b == iterator; });
    if (made_of) return std::nullopt;
  }
  Nest cut = nest;
  int high = cut.math.iterator(nest.math.extent(iterator) / lower), low = cut.math.iterator(lower);
  auto place = [&](Linear& e) {
    auto coef = nest.math.stride(e, iterator);
    if (*coef != 0) e = e + term(iterator, -*coef) + term(high, *coef * lower) + term(low, *coef);
  };
  auto list = [&](std::vector<int>& iterators) {
    auto it = std::ranges::find(iterators, iterator);
    if (it == iterators.end()) return;
    *it = low;
    iterators.insert(it, high);
  };
  list(cut.space);
  for (NestValue& u : cut.values) {
    place(u.at);
    for (Bound& b : u.bounds) place(b.at);
    list(u.over);
  }
  for (NestStore& s : cut.stores) place(s.at);
  return cut;
}

Nest part_of(const Nest& nest, int iterator, int64_t from, int64_t to) {
  EMEND_ASSERT(0 <= from && from < to && to <= nest.math.extent(iterator));
  Nest part = nest;
  part.math.narrow(iterator, from, to);
  for (NestValue& u : part.values) {
    if (u.kind == NestValue::Kind::compute) decide(part, u);
  }
  return part;
}

}  // namespace emend
