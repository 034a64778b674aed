#include "equiv/numbers.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ops/families.h"
#include "ops/table.h"

namespace emend {

bool any_node(const Graph& g, const Visit& visit) {
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    const OpDef& def = op_def(n);
    std::vector<Type> types;
    bool tensors = true;
    for (NodeId a : n.args) {
      types.push_back(g.types[a]);
      tensors &= types.back().is_tensor();
    }
    if (visit(g, id, def, types)) return true;
    for (const auto& [name, value] : n.attrs.entries()) {
      auto* body = value.as<GraphRef>();
      if (body && any_node(**body, visit)) return true;
    }
    bool composite = def.expand && !def.means && def.body.empty() && tensors;
    if (composite && any_node(expansion(def, n.attrs, types), visit)) return true;
  }
  return false;
}

std::vector<double> numbers_of(const Graph& a, const Graph& b) {
  std::set<double> all;
  auto add = [&](double v) {
    if (std::isfinite(v) && all.size() < 4096) all.insert(v);
  };
  auto add_tensor = [&](const Tensor& t) {
    bool number = is_float(t.dtype()) || is_integer(t.dtype());
    for (int64_t i = 0; number && i < t.count(); ++i) add(t.real(i));
  };
  for (const Graph* g : {&a, &b}) {
    any_node(*g, [&](const Graph& in, NodeId id, const OpDef&, Types) {
      const Node& n = in.nodes[id];
      if (in.is_constant(id)) add_tensor(in.constant(id));
      for (const auto& [name, value] : n.attrs.entries()) {
        if (auto* v = value.as<double>()) add(*v);
        if (auto* v = value.as<std::vector<double>>()) std::for_each(v->begin(), v->end(), add);
        if (auto* v = value.as<Tensor>()) add_tensor(*v);
      }
      return false;
    });
  }
  return {all.begin(), all.end()};
}

int64_t integer_at_ends(DType t, std::span<const double> numbers, uint64_t bits, uint64_t more) {
  bool is_signed = info(t).kind == DTypeClass::signed_int;
  int width = info(t).bits;
  auto all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  auto high = static_cast<int64_t>(is_signed ? all >> 1 : all);
  int64_t low = is_signed ? -static_cast<int64_t>(all >> 1) - 1 : 0;
  double number = numbers.empty() ? 0 : numbers[(more >> 16) % numbers.size()];
  int64_t n = std::abs(number) < 0x1p62 ? std::llround(number) : 1;
  auto wrapping = [](int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  };
  auto beside = static_cast<int64_t>(more >> 8) % 3 - 1;
  switch (bits % 8) {
    case 0:
      return wrapping(low, static_cast<int64_t>(more >> 12) % 3);
    case 1:
      return wrapping(high, -(static_cast<int64_t>(more >> 12) % 3));
    case 2:
      return wrapping(more >> 60 & 1 ? high : low, more >> 61 & 1 ? n : -n);
    case 3:
      return wrapping((more >> 60 & 1 ? high : low) / (n == 0 || n == -1 ? 2 : n), beside);
    case 4:
      return beside;
    case 5:
      return wrapping(n, beside);
    default:
      return static_cast<int64_t>(bits >> 3 ^ more << 7);
  }
}

}  // namespace emend
