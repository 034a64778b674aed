#include "kernels/layout.h"

#include <algorithm>

#include "base/text.h"
#include "ops/build.h"

namespace emend {
namespace {

const Layout kPlain;

const Layout& at_or_plain(const std::vector<Layout>& all, size_t i) {
  return i < all.size() ? all[i] : kPlain;
}

bool all_plain(const std::vector<Layout>& all) {
  return std::ranges::all_of(all, [](const Layout& l) { return l.plain(); });
}

Dims inverse(const Dims& order) {
  Dims back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return back;
}

NodeId transposed(GraphBuilder& b, NodeId n, Dims perm) {
  return b.op("transpose", {n}, Attrs({{"perm", std::move(perm)}}));
}

}  // namespace

const Layout& Layouts::load(size_t i) const {
  return at_or_plain(loads, i);
}
const Layout& Layouts::store(size_t i) const {
  return at_or_plain(stores, i);
}
bool Layouts::plain() const {
  return all_plain(loads) && all_plain(stores);
}

Layout channels_last(const Dims& shape) {
  if (shape.size() < 3) return {};
  bool one_channel = shape[1] == 1;
  bool one_place = std::all_of(shape.begin() + 2, shape.end(), [](int64_t n) { return n == 1; });
  if (one_channel || one_place || count(shape) == 0) return {};
  Layout l;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != 1) l.order.push_back(static_cast<int64_t>(d));
  }
  l.order.push_back(1);
  return l;
}

Dims stored_shape(const Dims& shape, const Layout& layout) {
  if (layout.order.empty()) return shape;
  Dims stored;
  for (int64_t d : layout.order) stored.push_back(shape[static_cast<size_t>(d)]);
  return stored;
}

Graph laid_out(const Graph& group, const Layouts& layouts) {
  if (layouts.plain()) return group;
  GraphBuilder b;
  std::vector<NodeId> args;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    Type t = group.type(group.inputs[i].node);
    t.shape = stored_shape(t.shape, layouts.load(i));
    args.push_back(b.input(str("x", i), t));
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const Layout& l = layouts.load(i);
    if (!l.plain()) args[i] = transposed(b, args[i], inverse(l.order));
  }
  std::vector<NodeId> results = splice(b, group, args);
  for (size_t i = 0; i < results.size(); ++i) {
    const Layout& l = layouts.store(i);
    b.output(str("y", i), l.order.empty() ? results[i] : transposed(b, results[i], l.order));
  }
  Graph g = std::move(b).build();
  for (size_t i = 0; i < g.outputs.size(); ++i) g.outputs[i].strides = layouts.store(i).strides;
  return g;
}

Graph identity_group(const Type& type) {
  GraphBuilder b;
  b.output("y0", b.input("x0", type));
  return std::move(b).build();
}

std::string to_text(const Layouts& layouts) {
  if (layouts.plain()) return "";
  auto listed = [](const std::vector<Layout>& all) {
    std::string text;
    for (const Layout& l : all) {
      text += text.empty() ? "" : " ";
      if (l.plain()) text += "-";
      for (int64_t d : l.order) text += str(d);
      if (!l.strides.empty()) text += "/";
    }
    return text;
  };
  return str(listed(layouts.loads), " to ", listed(layouts.stores));
}

}  // namespace emend
