// What can be read off a nest.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "kernels/nest.h"

namespace emend {

std::vector<int> left_out(const Nest& nest) {
  std::vector<int> result;
  for (int a : nest.space) {
    bool named = std::ranges::all_of(
        nest.stores, [&](const NestStore& s) { return nest.math.stride(s.at, a) != 0; });
    if (!named) result.push_back(a);
  }
  return result;
}

std::vector<int> leaf_reductions(const Nest& nest) {
  std::vector<int> inner = left_out(nest), leaves;
  if (inner.empty()) return leaves;
  std::vector<bool> needed(nest.values.size(), false);  // while the space is run through
  for (const NestStore& s : nest.stores) {
    if (nest.math.stride(s.at, inner[0]) != 0) needed[static_cast<size_t>(s.value)] = true;
  }
  for (size_t v = nest.values.size(); v-- > 0;) {
    const NestValue& u = nest.values[v];
    if (!needed[v] && u.kind != NestValue::Kind::reduce) continue;
    if (!needed[v]) leaves.insert(leaves.begin(), static_cast<int>(v));
    for (int a : u.args) needed[static_cast<size_t>(a)] = true;
  }
  return leaves;
}

std::vector<std::vector<bool>> free_atoms(const Nest& nest) {
  std::vector<std::vector<bool>> all;
  for (const NestValue& v : nest.values) {
    std::vector<bool> free(nest.math.size(), false);
    auto merge = [&](int other) {
      const auto& theirs = all[static_cast<size_t>(other)];
      for (size_t a = 0; a < free.size(); ++a) free[a] = free[a] || theirs[a];
    };
    auto see = [&](const Linear& e) {
      nest.math.visit(e, [&](int a) {
        if (nest.math.atom(a).kind == Atom::Kind::value) {
          merge(nest.math.atom(a).value);
        } else {
          free[static_cast<size_t>(a)] = true;
        }
      });
    };
    see(v.at);
    for (const Bound& b : v.bounds) see(b.at);
    for (int a : v.args) merge(a);
    for (int a : v.over) free[static_cast<size_t>(a)] = false;
    all.push_back(std::move(free));
  }
  return all;
}

std::vector<bool> free_atoms(const Nest& nest, int value) {
  return free_atoms(nest)[static_cast<size_t>(value)];
}

namespace {

// In plain operations, measured on softmax.
double effort(const Scalar& body) {
  constexpr double kExp = 3.5, kFunction = 9;
  double n = operation_count(body);
  for (const Instr& i : body.code) {
    bool function = i.fn > Fn::sqrt && i.fn <= Fn::erf;
    n += i.fn == Fn::exp ? kExp - 1 : function ? kFunction - 1 : 0;
  }
  return n;
}

}  // namespace

double operation_count(const Nest& nest) {
  double total = 0;
  auto all_free = free_atoms(nest);
  for (size_t i = 0; i < nest.values.size(); ++i) {
    const NestValue& v = nest.values[i];
    double points = 1;
    std::vector<bool>& free = all_free[i];
    for (int a : v.over) free[static_cast<size_t>(a)] = true;
    for (size_t a = 0; a < free.size(); ++a) {
      if (free[a]) points *= static_cast<double>(nest.math.extent(static_cast<int>(a)));
    }
    if (v.kind == NestValue::Kind::compute) total += points * effort(v.body);
    if (v.kind == NestValue::Kind::reduce) total += points;
  }
  return total;
}

std::string to_text(const Nest& nest) {
  auto name = [&](int a) {
    const Atom& at = nest.math.atom(a);
    return at.kind == Atom::Kind::value ? str("v", at.value) : str("i", a);
  };
  std::string out = "space";
  for (int a : nest.space) out += str(" i", a, "<", nest.math.extent(a));
  out += "\n";
  for (size_t i = 0; i < nest.values.size(); ++i) {
    const NestValue& v = nest.values[i];
    out += str("v", i, ": ", to_text(v.dtype), " = ");
    switch (v.kind) {
      case NestValue::Kind::load:
        out += str("load ", v.buffer, "[", nest.math.text(v.at, name), "]");
        for (const Bound& b : v.bounds)
          out += str(" if 0 <= ", nest.math.text(b.at, name), " < ", b.extent);
        break;
      case NestValue::Kind::index:
        out += nest.math.text(v.at, name);
        break;
      case NestValue::Kind::compute:
        out += to_text(v.body) + " of";
        for (int a : v.args) out += str(" v", a);
        break;
      case NestValue::Kind::reduce:
        out += str(to_text(v.reduce), " of v", v.args[0], " over");
        for (int a : v.over) out += str(" i", a, "<", nest.math.extent(a));
        break;
    }
    out += "\n";
  }
  for (const NestStore& s : nest.stores)
    out += str("store ", s.buffer, "[", nest.math.text(s.at, name), "] = v", s.value, "\n");
  return out;
}

Range body_range(const Nest& nest, const NestValue& u) {
  std::vector<Range> at;
  for (const Instr& i : u.body.code) {
    auto operand = [&](int32_t k) { return at[static_cast<size_t>(k)]; };
    switch (i.fn) {
      case Fn::constant:
        at.push_back({i.value, i.value});
        break;
      case Fn::arg:
        at.push_back(known_range(nest, u.args[static_cast<size_t>(i.a)]));
        break;
      case Fn::min:
        at.push_back({std::min(operand(i.a).low, operand(i.b).low),
                      std::min(operand(i.a).high, operand(i.b).high)});
        break;
      case Fn::max:
        at.push_back({std::max(operand(i.a).low, operand(i.b).low),
                      std::max(operand(i.a).high, operand(i.b).high)});
        break;
      case Fn::trunc:
        at.push_back({std::trunc(operand(i.a).low), std::trunc(operand(i.a).high)});
        break;
      default:
        at.push_back({});
    }
  }
  return at.empty() ? Range{} : at.back();
}

Range known_range(const Nest& nest, int value) {
  const NestValue& u = nest.values[static_cast<size_t>(value)];
  if (is_integer(u.dtype) && info(u.dtype).bits <= 16) return {lowest(u.dtype), highest(u.dtype)};
  return u.kind == NestValue::Kind::compute ? body_range(nest, u) : Range{};
}

bool is_exp_of_distance(const Nest& nest, const NestValue& u) {
  auto value = [&](int v) -> const NestValue& { return nest.values[static_cast<size_t>(v)]; };
  if (u.work != DType::f32 || u.body != call(Fn::exp, arg(0))) return false;
  const NestValue& distance = value(u.args[0]);
  if (distance.work != DType::f32 || distance.body != arg(0) - arg(1)) return false;
  const NestValue& most = value(distance.args[1]);
  return most.kind == NestValue::Kind::reduce && most.reduce == Reduce::max &&
         most.args[0] == distance.args[0];
}

}  // namespace emend
