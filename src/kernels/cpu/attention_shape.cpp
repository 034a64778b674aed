#include "kernels/cpu/attention_shape.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "kernels/nest_part.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

bool is_leaf(const Graph& g, NodeId n) {
  return g.nodes[n].op == kInputOp || g.nodes[n].op == kConstantOp;
}

std::vector<NodeId> contractions_of(const Graph& g) {
  std::vector<NodeId> found;
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n{i};
    if (is_leaf(g, n) || !not_nestable(g, n).empty()) continue;
    std::vector<Type> types;
    for (NodeId a : g.nodes[n].args) types.push_back(g.type(a));
    if (is_contraction(meaning_of(op_def(g.nodes[n]), g.nodes[n].attrs, types))) found.push_back(n);
  }
  return found;
}

// Which nodes depend on one of them.
std::vector<bool> dependents(const Graph& g, NodeId of) {
  std::vector<bool> found(g.size(), false);
  found[of.value] = true;
  for (size_t i = of.value + 1; i < g.size(); ++i) {
    for (NodeId a : g.nodes[NodeId(i)].args) found[i] = found[i] || found[a.value];
  }
  return found;
}

// The operand of a node that depends on another; invalid if there is none or more than one.
NodeId operand_behind(const Graph& g, NodeId node, NodeId first) {
  auto depends = dependents(g, first);
  NodeId found;
  for (NodeId a : g.nodes[node].args) {
    if (!depends[a.value]) continue;
    if (found.valid()) return {};
    found = a;
  }
  return found;
}

Graph up_to(Graph g, NodeId n) {
  g.outputs = {{"p", n}};
  return without_dead_nodes(g);
}

// What is made of a node, which becomes an input behind the others.
Graph behind(const Graph& g, NodeId n) {
  GraphBuilder b;
  std::map<NodeId, NodeId> made;
  for (const auto& in : g.inputs) made[in.node] = b.input(in.name, g.type(in.node));
  made[n] = b.input("p", g.type(n));
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId at{i};
    if (made.count(at)) continue;
    if (g.is_constant(at)) {
      made[at] = b.constant(g.constant(at));
      continue;
    }
    std::vector<NodeId> args;
    for (NodeId a : g.nodes[at].args) args.push_back(made.at(a));
    made[at] = b.try_op(g.nodes[at].op, args, g.nodes[at].attrs).value_or_throw();
  }
  for (const auto& o : g.outputs) b.output(o.name, made.at(o.node));
  return std::move(b).build();
}

// The sum of products of a nest whose other reductions run along one iterator of the space.
std::optional<Contraction> rows_of_sums(const Graph& group) {
  auto nest = nest_of(group);
  if (!nest || nest->stores.size() != 1) return std::nullopt;
  std::vector<int> sums;
  auto in_space = [&](int a) { return std::ranges::find(nest->space, a) != nest->space.end(); };
  for (size_t i = 0; i < nest->values.size(); ++i) {
    const NestValue& v = nest->values[i];
    if (v.kind != NestValue::Kind::reduce) continue;
    if (std::ranges::none_of(v.over, in_space)) {
      sums.push_back(static_cast<int>(i));
    } else if (v.over.size() != 1) {
      return std::nullopt;
    }
  }
  if (sums.size() != 1) return std::nullopt;
  return contraction_of(std::move(*nest), sums[0]);
}

// Reductions other than the sum of products are done for a row as a whole.
bool reduces_along(const Contraction& c, int lane) {
  for (size_t i = 0; i < c.nest.values.size(); ++i) {
    const NestValue& v = c.nest.values[i];
    bool other = v.kind == NestValue::Kind::reduce && static_cast<int>(i) != c.sum;
    if (other && v.over != std::vector<int>{lane}) return false;
  }
  // Numbers that the nest computes may name any element, but not of what is being computed.
  for (size_t a = 0; a < c.nest.math.size(); ++a) {
    if (c.nest.math.atom(static_cast<int>(a)).kind == Atom::Kind::value) return false;
  }
  return true;
}

bool contains(const std::vector<int>& list, int a) {
  return std::ranges::find(list, a) != list.end();
}

// The contraction with iterators cut into digits where a form, of which they are digits, has a
// stride of `strides`.
std::optional<Contraction> cut_at(Contraction c,
                                  const std::function<Linear(const Contraction&)>& form,
                                  const std::set<int64_t>& strides) {
  for (bool again = true; again;) {
    again = false;
    for (auto [a, step] : form(c).terms) {
      if (c.nest.math.atom(a).kind != Atom::Kind::iterator || step <= 0) return std::nullopt;
      auto inside = strides.upper_bound(step);
      int64_t all = step * c.nest.math.extent(a);
      if (inside == strides.end() || *inside >= all) continue;
      if (*inside % step != 0 || all % *inside != 0) return std::nullopt;
      auto nest = with_digits(c.nest, a, *inside / step);
      if (!nest) return std::nullopt;
      auto finer = contraction_of(std::move(*nest), c.sum);
      if (!finer) return std::nullopt;
      c = std::move(*finer);
      again = true;
      break;
    }
  }
  return c;
}

// Where an element of p is written, and read.
Linear written(const Contraction& scores) {
  return scores.nest.stores[0].at;
}
Linear read(const Contraction& context, int p) {
  for (const Side* s : {&context.first, &context.second}) {
    if (context.load(*s).buffer == p) return context.load(*s).at;
  }
  return {};
}

// Whether p is read by the product only: elsewhere it does not exist.
bool read_once(const Contraction& context, int p) {
  const auto& values = context.nest.values;
  auto reads = std::ranges::count_if(
      values, [&](const NestValue& v) { return v.kind == NestValue::Kind::load && v.buffer == p; });
  int load = context.load(context.first).buffer == p ? context.first.factor.load
                                                     : context.second.factor.load;
  auto users = std::ranges::count_if(
      values, [&](const NestValue& v) { return std::ranges::find(v.args, load) != v.args.end(); });
  auto stored =
      std::ranges::any_of(context.nest.stores, [&](const NestStore& s) { return s.value == load; });
  return reads == 1 && users == 1 && !stored;
}

// Views may cut p in one way where it is made (heads) and in another where it is read (heads that
// share values, and their groups): both are cut in both ways.
bool cut_alike(Contraction& scores, Contraction& context, int p) {
  auto reading = [p](const Contraction& c) { return read(c, p); };
  std::set<int64_t> strides;
  for (const Linear& form : {written(scores), reading(context)}) {
    for (auto [a, step] : form.terms) strides.insert(step);
  }
  auto first = cut_at(scores, written, strides), second = cut_at(context, reading, strides);
  if (!first || !second) return false;
  scores = std::move(*first);
  context = std::move(*second);
  return true;
}

// Iterators of the second nest by those of the first's space, which are digits of one number: the
// place of an element of p. Nothing unless both cut it in the same way.
std::optional<std::map<int, int>> counterparts(const Contraction& scores,
                                               const Contraction& context, const NestValue& p) {
  const Linear& written = scores.nest.stores[0].at;
  if (context.k.size() != 1 || written.constant != 0 || p.at.constant != 0 || !p.bounds.empty() ||
      written.terms.size() != p.at.terms.size() ||
      written.terms.size() != scores.nest.space.size()) {
    return std::nullopt;
  }
  std::map<int, int> same;
  for (auto [a, step] : written.terms) {
    for (auto [other, other_step] : p.at.terms) {
      if (step == other_step && scores.nest.math.extent(a) == context.nest.math.extent(other)) {
        same[a] = other;
      }
    }
    if (!same.count(a)) return std::nullopt;
  }
  return same;
}

// Both numbered alike: a batch is one for both products, the others are rows.
void align(AttentionShape& at, const std::map<int, int>& same) {
  std::vector<int> batch, rows;
  for (int a : at.scores.nest.space) {
    if (a == at.lane) continue;
    bool shared = contains(at.scores.batch, a) || contains(at.context.batch, same.at(a));
    (shared ? batch : rows).push_back(a);
  }
  auto mapped = [&](const std::vector<int>& from) {
    std::vector<int> to;
    for (int a : from) to.push_back(same.at(a));
    return to;
  };
  at.scores.batch = batch;
  at.scores.first.iterators = rows;
  at.context.batch = mapped(batch);
  at.context.first.iterators = mapped(rows);
  at.scores.measure();
  at.context.measure();
}

// Exponentials of distances from the maximum are never above one, and one somewhere: neither their
// sum nor what is multiplied by them overflows where dividing first would not, but for values near
// the largest number there is.
void find_division(AttentionShape& at) {
  const Nest& nest = at.scores.nest;
  auto value = [&](int v) -> const NestValue& { return nest.values[static_cast<size_t>(v)]; };
  const NestValue& p = value(nest.stores[0].value);
  if (p.kind != NestValue::Kind::compute || p.args.size() != 2 || p.work != DType::f32) return;
  bool divides = p.body.code == (arg(0) / arg(1)).code;
  const NestValue &e = value(p.args[0]), &total = value(p.args[1]);
  bool sums = total.kind == NestValue::Kind::reduce && total.reduce == Reduce::sum &&
              total.args[0] == p.args[0] && total.work == DType::f32;
  bool exponential =
      e.kind == NestValue::Kind::compute && e.dtype == DType::f32 && is_exp_of_distance(nest, e);
  if (!divides || !sums || !exponential) return;
  at.numerator = p.args[0];
  at.divisor = p.args[1];
}

}  // namespace

std::optional<AttentionShape> attention_in(const Graph& group) {
  auto products = contractions_of(group);
  if (products.size() != 2) return std::nullopt;
  NodeId p = operand_behind(group, products[1], products[0]);
  if (!p.valid() || group.type(p).dtype != DType::f32) return std::nullopt;
  AttentionShape at;
  at.scores_group = up_to(group, p);
  at.context_group = behind(group, p);
  // Nothing else may need the scores.
  if (contractions_of(at.scores_group).size() != 1 || contractions_of(at.context_group).size() != 1)
    return std::nullopt;
  auto context = contraction_in(nest_of(at.context_group));
  auto scores = rows_of_sums(at.scores_group);
  if (!context || !scores) return std::nullopt;
  if (context->product != Product::f32 || scores->product != Product::f32) return std::nullopt;
  auto place = static_cast<int>(group.inputs.size());
  if (!read_once(*context, place) || !cut_alike(*scores, *context, place)) return std::nullopt;
  at.scores = std::move(*scores);
  at.context = std::move(*context);
  auto reads_p = [&](const Side& s) { return at.context.load(s).buffer == place; };
  if (reads_p(at.context.second)) std::swap(at.context.first, at.context.second);
  if (!reads_p(at.context.first) || reads_p(at.context.second)) return std::nullopt;
  auto same = counterparts(at.scores, at.context, at.context.load(at.context.first));
  if (!same) return std::nullopt;
  for (auto [a, other] : *same) {
    if (other == at.context.k[0]) at.lane = a;
  }
  if (contains(at.scores.first.iterators, at.lane)) std::swap(at.scores.first, at.scores.second);
  if (at.lane < 0 || at.scores.second.iterators != std::vector<int>{at.lane} ||
      !reduces_along(at.scores, at.lane) || at.scores.depth < 1) {
    return std::nullopt;
  }
  align(at, *same);
  find_division(at);
  return at;
}

}  // namespace emend
