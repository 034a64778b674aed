#include "mutate/restrict.h"

#include <algorithm>
#include <functional>
#include <map>

#include "ops/contraction.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"
#include "ops/view.h"
#include "ops/window.h"

namespace emend {
namespace {

PositionBox whole_of(const Dims& shape) {
  return {Dims(shape.size(), 0), shape};
}

// What a window reads of a dimension at outputs low .. high - 1, and the padding around that.
struct Window {
  int64_t begin, end, before, after;
};
Window window_of(int64_t low, int64_t high, int64_t stride, int64_t pad, int64_t reach,
                 int64_t extent) {
  const int64_t first = low * stride - pad, last = (high - 1) * stride - pad + reach;
  // Windows in the padding only still have one element beside them.
  const int64_t begin = std::clamp<int64_t>(first, 0, extent - 1);
  const int64_t end = std::clamp<int64_t>(last, begin + 1, extent);
  return {begin, end, begin - first, last - end};
}

class Restriction {
 public:
  Restriction(GraphBuilder& b, const Graph& g, Args inputs) : b_(b), g_(g), inputs_(inputs) {}

  Result<NodeId> at(NodeId n, const PositionBox& box) {
    const auto key = std::tuple(n.value, box.low, box.high);
    if (auto it = made_.find(key); it != made_.end()) return it->second;
    auto made = compute(n, box);
    if (made) made_.emplace(key, *made);
    return made;
  }

  // Of a convolution, boxes that differ only in where they are: their windows, with zeros around
  // those that reach beyond, are images of one batch.
  Result<std::vector<NodeId>> together(NodeId n, std::span<const PositionBox> boxes) {
    const Node& node = g_.nodes[n];
    if (op_def(node).name != "conv") return fail("no convolution");
    std::vector<ConvPart> parts;
    for (const PositionBox& box : boxes) parts.push_back(part_of_conv(node, box));
    ConvPart all = parts[0];
    std::vector<NodeId> windows;
    for (const ConvPart& p : parts) {
      if (p.of_w != all.of_w || p.result.low[1] != all.result.low[1] ||
          !std::ranges::equal(p.result.high.begin() + 1, p.result.high.end(),
                              all.result.high.begin() + 1, all.result.high.end()))
        return fail("boxes of different shapes");
      auto x = at(node.args[0], p.of_x);
      if (!x) return Failure{x.error()};
      Pad zeros{.pads = Dims(2 * p.of_x.low.size(), 0)};
      for (size_t k = 0; k < p.attrs.pads.size(); ++k) {
        const size_t spatial = p.attrs.strides.size(), d = k % spatial;
        zeros.pads[2 + d + (k < spatial ? 0 : p.of_x.low.size())] = p.attrs.pads[k];
      }
      const bool none = std::ranges::all_of(zeros.pads, [](int64_t z) { return z == 0; });
      windows.push_back(none ? *x : b_.op("pad", {*x}, zeros));
    }
    auto w = at(node.args[1], all.of_w);
    if (!w) return Failure{w.error()};
    std::ranges::fill(all.attrs.pads, 0);
    const NodeId images = b_.op("concat", windows, to_attrs(Axis{0}));
    const NodeId made = b_.op("conv", {images, *w}, all.attrs);
    std::vector<NodeId> results;
    int64_t first = 0;
    for (const ConvPart& p : parts) {
      PositionBox mine = p.result;
      mine.low[0] = first;
      mine.high[0] = first += p.of_x.high[0] - p.of_x.low[0];
      results.push_back(part(made, mine));
    }
    return results;
  }

 private:
  Result<NodeId> compute(NodeId n, const PositionBox& box) {
    const Node& node = g_.nodes[n];
    const OpDef& def = op_def(node);
    if (!g_.type(n).is_tensor()) return fail(def.name, " makes no tensor");
    if (node.op == kInputOp)
      return part(inputs_[static_cast<size_t>(node.attrs.get<int64_t>("index"))], box);
    if (g_.is_constant(n)) return part(b_.constant(g_.constant(n)), box);
    if (box == whole_of(g_.type(n).shape)) return copied(node);
    if (!def.body.empty()) return elementwise(n, node, box);
    if (def.name == "conv") return conv(node, box);
    if (def.name == "sum_pool" || def.name == "max_pool") return pool(node, box);
    if (def.name == "avg_pool") return average(node, box);
    if (def.name == "matmul") return matmul(node, box);
    if (def.name.starts_with("reduce_") && def.means) return reduction(node, box);
    if (def.kind == Kind::movement) return moved(n, node, box);
    return fail(def.name, " is not computed in part");
  }

  const Dims& shape(NodeId n) const { return g_.type(n).shape; }

  // A slice of what was made.
  NodeId part(NodeId made, const PositionBox& box) {
    if (box == whole_of(b_.shape(made))) return made;
    return b_.op("slice", {made},
                 Slice{.starts = box.low, .sizes = box.shape(), .steps = Dims(box.low.size(), 1)});
  }

  Result<NodeId> made_of(const Node& node, const std::vector<PositionBox>& boxes, Attrs attrs) {
    std::vector<NodeId> args;
    for (size_t i = 0; i < node.args.size(); ++i) {
      auto a = at(node.args[i], boxes[i]);
      if (!a) return a;
      args.push_back(*a);
    }
    return b_.try_op(node.op, args, attrs);
  }

  Result<NodeId> copied(const Node& node) {
    std::vector<PositionBox> boxes;
    for (NodeId a : node.args) {
      if (!g_.type(a).is_tensor()) return fail(op_def(node).name, " reads no tensor");
      boxes.push_back(whole_of(shape(a)));
    }
    return made_of(node, boxes, node.attrs);
  }

  // Of an operand that broadcasts to the box's dimensions.
  PositionBox broadcast_box(const Dims& x, std::span<const int64_t> low,
                            std::span<const int64_t> high) const {
    PositionBox to = whole_of(x);
    const size_t missing = low.size() - x.size();
    for (size_t d = 0; d < x.size(); ++d) {
      if (x[d] == 1) continue;
      to.low[d] = low[d + missing];
      to.high[d] = high[d + missing];
    }
    return to;
  }

  Result<NodeId> elementwise(NodeId n, const Node& node, const PositionBox& box) {
    std::vector<PositionBox> boxes;
    for (NodeId a : node.args) boxes.push_back(broadcast_box(shape(a), box.low, box.high));
    auto made = made_of(node, boxes, node.attrs);
    if (made && b_.shape(*made) != box.shape())
      return fail(op_def(g_.nodes[n]).name, " of operands that all broadcast");
    return made;
  }

  // What a convolution of a box reads, its attributes, and where the box is in what it computes.
  struct ConvPart {
    PositionBox of_x, of_w, result;
    Conv attrs;
  };
  ConvPart part_of_conv(const Node& node, const PositionBox& box) const {
    const Dims &x = shape(node.args[0]), &w = shape(node.args[1]);
    ConvPart p{whole_of(x), whole_of(w), whole_of(box.shape()), node.attrs.as<Conv>()};
    Conv& a = p.attrs;
    p.of_x.low[0] = box.low[0];
    p.of_x.high[0] = box.high[0];
    // Channels within one group are a convolution of that group; others take whole groups.
    const int64_t filters = w[0] / a.group;
    const int64_t first = box.low[1] / filters, last = (box.high[1] - 1) / filters + 1;
    const bool one = last - first == 1;
    p.of_w.low[0] = one ? box.low[1] : first * filters;
    p.of_w.high[0] = one ? box.high[1] : last * filters;
    p.of_x.low[1] = first * w[1];
    p.of_x.high[1] = last * w[1];
    p.result.low[1] = box.low[1] - p.of_w.low[0];
    p.result.high[1] = box.high[1] - p.of_w.low[0];
    a.group = last - first;
    const size_t n = a.strides.size();
    for (size_t d = 0; d < n; ++d) {
      Window at = window_of(box.low[d + 2], box.high[d + 2], a.strides[d], a.pads[d],
                            a.dilations[d] * (w[d + 2] - 1) + 1, x[d + 2]);
      p.of_x.low[d + 2] = at.begin;
      p.of_x.high[d + 2] = at.end;
      a.pads[d] = at.before;
      a.pads[d + n] = at.after;
    }
    return p;
  }
  Result<NodeId> conv(const Node& node, const PositionBox& box) {
    const ConvPart p = part_of_conv(node, box);
    auto made = made_of(node, {p.of_x, p.of_w}, to_attrs(p.attrs));
    if (!made) return made;
    return part(*made, p.result);
  }

  PositionBox pooled_box(const Node& node, const PositionBox& box, Pool& a) const {
    const Dims& x = shape(node.args[0]);
    PositionBox of_x = box;
    const size_t n = a.kernel.size();
    for (size_t d = 0; d < n; ++d) {
      Window at = window_of(box.low[d + 2], box.high[d + 2], a.strides[d], a.pads[d],
                            a.dilations[d] * (a.kernel[d] - 1) + 1, x[d + 2]);
      of_x.low[d + 2] = at.begin;
      of_x.high[d + 2] = at.end;
      a.pads[d] = at.before;
      a.pads[d + n] = at.after;
    }
    return of_x;
  }
  Result<NodeId> pool(const Node& node, const PositionBox& box) {
    auto a = node.attrs.as<Pool>();
    PositionBox of_x = pooled_box(node, box, a);
    return made_of(node, {of_x}, to_attrs(a));
  }
  // Padding that counts ends where it did: the last windows may reach beyond it.
  Result<NodeId> average(const Node& node, const PositionBox& box) {
    auto a = node.attrs.as<AveragePool>();
    const Dims& x = shape(node.args[0]);
    Pool windows{a.kernel, a.strides, a.dilations, a.pads};
    PositionBox of_x = pooled_box(node, box, windows);
    const size_t n = a.kernel.size();
    bool beyond = false;
    for (size_t d = n; d < 2 * n; ++d) {
      const int64_t counted = x[d - n + 2] + a.pads[d] - of_x.high[d - n + 2];
      beyond |= windows.pads[d] > counted;
      if (a.count_include_pad) windows.pads[d] = std::min(windows.pads[d], counted);
    }
    a.pads = windows.pads;
    a.ceil_mode = a.count_include_pad && beyond;
    auto made = made_of(node, {of_x}, to_attrs(a));
    if (made && b_.shape(*made) != box.shape())
      return fail("windows of avg_pool that reach beyond the padding");
    return made;
  }

  Result<NodeId> matmul(const Node& node, const PositionBox& box) {
    const Dims &a = shape(node.args[0]), &c = shape(node.args[1]);
    if (a.size() < 2 || c.size() < 2) return fail("matmul by a vector");
    const size_t batch = box.low.size() - 2;
    const auto low = std::span(box.low).first(batch), high = std::span(box.high).first(batch);
    std::vector<PositionBox> boxes;
    for (const Dims* x : {&a, &c}) {
      PositionBox of = broadcast_box(Dims(x->begin(), x->end() - 2), low, high);
      const bool left = boxes.empty();
      for (size_t k = 0; k < 2; ++k) {
        const bool kept = (k == 0) == left;  // rows of the left one, columns of the right one
        of.low.push_back(kept ? box.low[batch + k] : 0);
        of.high.push_back(kept ? box.high[batch + k] : (*x)[x->size() - 2 + k]);
      }
      boxes.push_back(std::move(of));
    }
    return made_of(node, boxes, node.attrs);
  }

  Result<NodeId> reduction(const Node& node, const PositionBox& box) {
    const Dims& x = shape(node.args[0]);
    const bool keeps = node.attrs.get<bool>("keepdims");
    auto axes = normal_axes(node.attrs.get<Dims>("axes"), static_cast<int64_t>(x.size()));
    if (!axes) return Failure{axes.error()};
    PositionBox of = whole_of(x);
    size_t next = 0;
    for (size_t d = 0; d < x.size(); ++d) {
      const bool reduced =
          axes->empty() || std::ranges::binary_search(*axes, static_cast<int64_t>(d));
      if (!reduced) {
        of.low[d] = box.low[next];
        of.high[d] = box.high[next];
      }
      next += !reduced || keeps;
    }
    return made_of(node, {of}, node.attrs);
  }

  // What only moves elements reads those of the box, wherever they are; where a view cannot say
  // that, the box is cut out of the whole.
  Result<NodeId> moved(NodeId n, const Node& node, const PositionBox& box) {
    std::optional<View> v;
    if (node.args.size() == 1 && op_def(node).means && g_.type(node.args[0]).is_tensor()) {
      auto whole = as_view(
          meaning_of(op_def(node), node.attrs, std::span(&g_.type(node.args[0]), 1)), shape(n));
      if (whole) v = view_in_box(*whole, box.low, box.high);
    }
    if (!v) {
      auto whole = copied(node);
      return whole ? Result<NodeId>(part(*whole, box)) : whole;
    }
    const Dims& from = shape(node.args[0]);
    PositionBox of = whole_of(from);
    const auto reached = reach(*v);
    for (size_t d = 0; d < reached.size(); ++d) {
      of.low[d] = std::clamp<int64_t>(reached[d].first, 0, from[d] - 1);
      of.high[d] = std::clamp<int64_t>(reached[d].second + 1, of.low[d] + 1, from[d]);
    }
    auto x = at(node.args[0], of);
    if (!x) return x;
    for (size_t d = 0; d < reached.size(); ++d) v->index[d].constant -= of.low[d];
    return b_.op("view", {*x}, ViewMap{to_text(normalised(*v))});
  }

  GraphBuilder& b_;
  const Graph& g_;
  Args inputs_;
  std::map<std::tuple<uint32_t, Dims, Dims>, NodeId> made_;
};

}  // namespace

Dims PositionBox::shape() const {
  Dims s;
  for (size_t d = 0; d < low.size(); ++d) s.push_back(high[d] - low[d]);
  return s;
}

namespace {

// Boxes that one convolution may compute: equal channels, and windows of equal size.
bool alike(const PositionBox& a, const PositionBox& b) {
  const Dims m = a.shape(), n = b.shape();
  return a.low.size() > 2 && a.low[1] == b.low[1] &&
         std::ranges::equal(m.begin() + 1, m.end(), n.begin() + 1, n.end());
}

}  // namespace

Result<NodeId> restricted(GraphBuilder& b, const Graph& program, Args inputs,
                          const PositionBox& box) {
  return Restriction(b, program, inputs).at(program.outputs[0].node, box);
}

Result<std::vector<NodeId>> restricted(GraphBuilder& b, const Graph& program, Args inputs,
                                       std::span<const PositionBox> boxes, bool together) {
  Restriction r(b, program, inputs);
  const NodeId out = program.outputs[0].node;
  std::vector<NodeId> made(boxes.size());
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (made[i].valid()) continue;
    std::vector<size_t> which;
    std::vector<PositionBox> group;
    for (size_t k = i; together && k < boxes.size(); ++k) {
      if (!alike(boxes[i], boxes[k])) continue;
      which.push_back(k);
      group.push_back(boxes[k]);
    }
    if (group.size() > 1) {
      if (auto results = r.together(out, group)) {
        for (size_t k = 0; k < which.size(); ++k) made[which[k]] = (*results)[k];
        continue;
      }
    }
    auto one = r.at(out, boxes[i]);
    if (!one) return Failure{one.error()};
    made[i] = *one;
  }
  return made;
}

}  // namespace emend
