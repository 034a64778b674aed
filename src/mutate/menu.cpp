// What the generator may place, by the kind of the operators that it mutates.
#include <algorithm>
#include <set>

#include "mutate/generate.h"
#include "ops/contraction.h"
#include "ops/table.h"

namespace emend {
namespace {

Move digit(size_t from, bool from_slow, size_t to, bool to_slow, int64_t radix) {
  return {.from = from, .to = to, .radix = radix, .from_slow = from_slow, .to_slow = to_slow};
}

// Those given, and what windows step by.
std::set<int64_t> radices_of(const Conv& c, const Dims& given) {
  std::set<int64_t> all(given.begin(), given.end());
  for (const Dims* steps : {&c.strides, &c.dilations})
    for (int64_t s : *steps)
      if (s > 1 && s <= 8) all.insert(s);
  return all;
}

// The window along one axis.
struct Along {
  int64_t stride, dilation, begin, end;
  bool operator==(const Along&) const = default;
};

// The same window, undilated, without a stride, or over channels that lie between its elements.
std::vector<Along> changed(const Along& a, const std::set<int64_t>& radices) {
  std::vector<Along> all;
  auto add = [&](const Along& c) {
    if (!(c == a) && std::find(all.begin(), all.end(), c) == all.end()) all.push_back(c);
  };
  if (a.begin % a.dilation == 0 && a.end % a.dilation == 0)
    add({a.stride, 1, a.begin / a.dilation, a.end / a.dilation});
  add({a.stride, 1, a.begin, a.end});
  add({1, a.dilation, a.begin, a.end});
  if (a.begin % a.stride == 0) add({1, a.dilation, a.begin / a.stride, a.end / a.stride});
  if (a.dilation == 1)
    for (int64_t k : radices) add({a.stride * k, 1, a.begin * k, a.end * k});
  return all;
}

// Attributes with the window of one axis changed, or that of all alike.
std::vector<Conv> changed(const Conv& c, const std::set<int64_t>& radices) {
  const size_t axes = c.strides.size();
  auto along = [&](size_t k) {
    return Along{c.strides[k], c.dilations[k], c.pads[k], c.pads[axes + k]};
  };
  auto put = [&](Conv& to, size_t k, const Along& a) {
    to.strides[k] = a.stride;
    to.dilations[k] = a.dilation;
    to.pads[k] = a.begin;
    to.pads[axes + k] = a.end;
  };
  std::vector<Conv> all = {c};
  bool alike = true;
  for (size_t k = 0; k < axes; ++k) {
    alike &= along(k) == along(0);
    for (const Along& a : changed(along(k), radices)) put(all.emplace_back(c), k, a);
  }
  if (alike && axes > 1) {
    for (const Along& a : changed(along(0), radices)) {
      all.push_back(c);
      for (size_t k = 0; k < axes; ++k) put(all.back(), k, a);
    }
  }
  return all;
}

MutantMenu conv_menu(const ParallelOps& ops, const Dims& weights, const Dims& given) {
  MutantMenu menu;
  const Conv conv = ops.attrs.as<Conv>();
  const std::set<int64_t> radices = radices_of(conv, given);
  for (size_t axis = 2; axis < weights.size(); ++axis) {
    for (int64_t k : radices) {
      // Blocks and phases of an axis, as images and back; phases as blocks (D2H) and back.
      const Move layouts[] = {digit(0, false, axis, true, k), digit(0, false, axis, false, k),
                              digit(axis, false, axis, true, k)};
      for (const Move& m : layouts) {
        for (const Move& one : {m, inverse(m)}) {
          menu.first.push_back(one);
          menu.results.push_back(one);
        }
      }
      // Channels lie between the elements of an axis (C2H), of both operands, and back.
      const Move channels = digit(1, false, axis, false, k);
      for (const Move& one : {channels, inverse(channels)}) {
        menu.first.push_back(one);
        menu.second.push_back(one);
      }
    }
  }
  for (size_t axis = 3; axis < weights.size(); ++axis) {
    const Move m{.kind = Move::Kind::swap, .from = axis - 1, .to = axis};
    for (auto* list : {&menu.first, &menu.second, &menu.results}) list->push_back(m);
  }
  for (const Conv& c : changed(conv, radices)) {
    menu.computes.push_back({ops.op, to_attrs(c)});
    if (ops.count() == 1) continue;
    Conv grouped = c;
    grouped.group *= static_cast<int64_t>(ops.count());
    menu.computes.push_back({ops.op, to_attrs(grouped)});
  }
  // By one pixel, it is a product.
  if (std::all_of(weights.begin() + 2, weights.end(), [](int64_t r) { return r == 1; })) {
    menu.first.push_back({.kind = Move::Kind::merge, .from = 2});
    menu.second.push_back({.kind = Move::Kind::merge, .from = 1});
    menu.computes.push_back({op_named("matmul"), {}, true});
  }
  return menu;
}

MutantMenu matmul_menu(const ParallelOps& ops, const Dims& first, const Dims& second) {
  MutantMenu menu;
  auto turned = [](const Dims& shape) {
    return Move{.kind = Move::Kind::swap, .from = shape.size() - 2, .to = shape.size() - 1};
  };
  const Dims& wider = first.size() > second.size() ? first : second;
  menu.first.push_back(turned(first));
  menu.second.push_back(turned(second));
  menu.results.push_back(turned(wider));
  // Rows of a batch are rows of one product, where all share a matrix.
  for (size_t d = 0; d + 2 < first.size(); ++d) {
    if (first[d] < 2) continue;
    Move rows = digit(d, false, first.size() - 2, true, first[d]);
    menu.first.push_back(rows);
    menu.results.push_back(inverse(rows));
  }
  menu.computes = {{ops.op, ops.attrs}, {ops.op, ops.attrs, true}};
  return menu;
}

}  // namespace

MutantMenu menu_for(const ParallelOps& ops, const Graph& subprogram, const Dims& radices) {
  auto shape = [&](size_t slot) -> const Dims& {
    return subprogram.type(subprogram.inputs[ops.operands[slot][0]].node).shape;
  };
  const std::string& name = op_def(ops.op).name;
  if (name == "conv") return conv_menu(ops, shape(1), radices);
  if (name == "matmul" && shape(0).size() >= 2 && shape(1).size() >= 2)
    return matmul_menu(ops, shape(0), shape(1));
  return {};
}

}  // namespace emend
