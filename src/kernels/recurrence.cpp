#include "kernels/recurrence.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "kernels/cpu/contraction.h"
#include "kernels/group.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

using Place = Recurrence::Place;

// Thrown, and caught here: the loop is no recurrence.
struct Other {};
void require(bool holds) {
  if (!holds) throw Other{};
}

class Reader {
 public:
  explicit Reader(const Loop& loop)
      : loop_(loop), body_(*loop.body), product_of_(body_.size(), -1), level_(body_.size(), 0) {}

  Recurrence read() && {
    r_.loop = loop_;
    require(loop_.trips > 0 && !body_.outputs.empty());
    const Dims& shape = body_.type(body_.outputs[0].node).shape;
    require(!shape.empty());
    r_.units = shape.back();
    require(r_.units > 1 && count(shape) > 0);
    find_steps();
    find_needed();
    size_t last = 0;
    for (size_t i = 0; i < body_.size(); ++i) {
      if (!needed_.count(NodeId(i))) continue;
      visit(NodeId(i));
      last = std::max(last, level_[NodeId(i)]);
    }
    require(!r_.products.empty());
    for (size_t s = 0; s <= last; ++s) add_stage(s, s == last);
    return std::move(r_);
  }

 private:
  Place input(NodeId n) const {
    auto index = static_cast<size_t>(body_.nodes[n].attrs.get<int64_t>("index"));
    auto states = static_cast<size_t>(loop_.states);
    if (index == 0) return {Place::Kind::iteration, 0};
    if (index <= states) return {Place::Kind::state, index - 1};
    bool slice = index <= states + loop_.scan_axes.size();
    return {slice ? Place::Kind::slice : Place::Kind::operand, index - 1};
  }
  bool is_input(NodeId n) const { return body_.nodes[n].op == kInputOp; }
  bool is_captured(NodeId n) const { return is_input(n) && input(n).kind == Place::Kind::operand; }

  // Elements behind the axis along which steps follow one another.
  static int64_t behind(const Dims& shape, int64_t axis) {
    return count(std::span(shape).subspan(static_cast<size_t>(axis)));
  }
  void find_steps() {
    for (size_t i = 0; i < loop_.scan_axes.size(); ++i) {
      NodeId n = body_.inputs[1 + static_cast<size_t>(loop_.states) + i].node;
      r_.slices.push_back(
          {behind(body_.type(n).shape, loop_.scan_axes[i]), loop_.scan_reverse[i] != 0});
    }
    for (size_t i = 0; i < loop_.output_axes.size(); ++i) {
      NodeId n = body_.outputs[static_cast<size_t>(loop_.states) + i].node;
      r_.outputs.push_back(
          {behind(body_.type(n).shape, loop_.output_axes[i]), loop_.output_reverse[i] != 0});
    }
  }

  void find_needed() {
    std::vector<NodeId> open;
    for (const auto& o : body_.outputs) open.push_back(o.node);
    while (!open.empty()) {
      NodeId n = open.back();
      open.pop_back();
      if (!needed_.insert(n).second) continue;
      for (NodeId a : body_.nodes[n].args) open.push_back(a);
    }
  }

  // A node's level: the first stage that can compute it.
  void visit(NodeId n) {
    const Node& node = body_.nodes[n];
    require(body_.type(n).is_tensor());
    if (node.op == kInputOp) return;
    if (node.op == kConstantOp) return require(body_.constant(n).count() == 1);
    require(not_nestable(body_, n).empty());
    std::vector<Type> types;
    for (NodeId a : node.args) {
      types.push_back(body_.type(a));
      level_[n] = std::max(level_[n], level_[a]);
    }
    if (is_contraction(meaning_of(op_def(node), node.attrs, types))) add_product(n);
  }

  // The views that make an operand of a product from a captured tensor; none if something else
  // does.
  std::optional<std::vector<NodeId>> views_of_captured(NodeId n) const {
    std::vector<NodeId> views;
    for (; !is_captured(n); n = body_.nodes[n].args[0]) {
      bool view = op_def(body_.nodes[n]).kind == Kind::movement && body_.nodes[n].args.size() == 1;
      if (!view) return std::nullopt;
      views.insert(views.begin(), n);
    }
    return views;
  }

  void add_product(NodeId n) {
    const Node& node = body_.nodes[n];
    require(node.args.size() == 2);
    auto views = views_of_captured(node.args[1]);
    bool second = views.has_value();
    if (!views) views = views_of_captured(node.args[0]);
    require(views.has_value());
    NodeId vector = storage_of(body_, node.args[second ? 0 : 1]);
    views->push_back(n);
    Outline o = outlined(body_, {*views, {n}, false, ""});
    auto c = f32_contraction_in(nest_of(o.graph));
    require(c && c->batch.empty() && c->k.size() <= 1);
    auto source = [&](const Side& s) { return o.loads[static_cast<size_t>(c->load(s).buffer)]; };
    bool swapped = is_captured(source(c->first));
    const Side &rows = swapped ? c->second : c->first, &columns = swapped ? c->first : c->second;
    require(is_captured(source(columns)) && storage_of(body_, source(rows)) == vector);
    require(rows.iterators.size() <= 1 && columns.iterators.size() == 1);
    require(c->load(rows).bounds.empty() && c->load(columns).bounds.empty());

    auto stride = [&](const Linear& at, const std::vector<int>& of) {
      return of.empty() ? 0 : c->nest.math.stride(at, of[0]).value_or(-1);
    };
    const Linear& stored = c->nest.stores[0].at;
    require(c->nest.stores[0].value == c->sum && stride(stored, columns.iterators) == 1);
    require(rows.extent == 1 || stride(stored, rows.iterators) == columns.extent);
    Recurrence::Product p{.gates = columns.extent / r_.units, .rows = rows.extent};
    require(columns.extent % r_.units == 0);
    const Linear &v = c->load(rows).at, &w = c->load(columns).at;
    p.row_step = stride(v, rows.iterators);
    p.k_step = stride(v, c->k);
    require(v.constant == 0 && p.row_step >= 0 && p.k_step >= 0);
    add_matrix(p, c->depth, body_.type(source(columns)), input(source(columns)).index, w.constant,
               stride(w, columns.iterators), stride(w, c->k));
    add_vector(p, vector);
    product_of_[n] = static_cast<int>(r_.products.size());
    level_[n] = p.stage;
    r_.products.push_back(p);
  }

  void add_matrix(Recurrence::Product& p, int64_t depth, const Type& type, size_t operand,
                  int64_t first, int64_t column_step, int64_t k_step) {
    int64_t gates = count(type.shape) / (depth * r_.units);
    require(count(type.shape) == gates * depth * r_.units);
    bool straight = column_step == 1 && (depth == 1 || k_step == gates * r_.units);
    bool transposed = column_step == depth && (depth == 1 || k_step == 1);
    require(straight || transposed);
    int64_t gate = column_step * r_.units;
    require(first % gate == 0);
    p.first_gate = first / gate;
    Recurrence::Matrix m{operand, depth, gates, !straight};
    for (size_t i = 0; i < r_.matrices.size(); ++i) {
      if (r_.matrices[i].operand != operand) continue;
      p.matrix = i;
      require(r_.matrices[i].depth == depth && r_.matrices[i].transposed == m.transposed);
      return;
    }
    p.matrix = r_.matrices.size();
    r_.matrices.push_back(m);
  }

  // States and slices are there when a step begins; everything else is stored by the stage before.
  void add_vector(Recurrence::Product& p, NodeId vector) {
    if (is_input(vector)) p.vector = input(vector);
    if (p.vector.kind == Place::Kind::state) return;
    if (p.vector.kind == Place::Kind::slice && places_rows(p)) return;
    p.stage = level_[vector] + 1;
    auto [it, fresh] = vectors_.try_emplace(vector, r_.vectors.size());
    if (fresh) r_.vectors.push_back(body_.type(vector));
    p.vector = {Place::Kind::vector, it->second};
  }

  // Where the rows of a slice lie in the whole tensor, if that is one step apart.
  bool places_rows(Recurrence::Product& p) const {
    int64_t stride = r_.slices[p.vector.index - static_cast<size_t>(loop_.states)].stride;
    int64_t row = (r_.matrices[p.matrix].depth - 1) * p.k_step;
    if ((p.rows - 1) * p.row_step + row < stride) return true;
    if (row >= stride || p.row_step % stride != 0) return false;
    p.row_step *= loop_.trips;
    return true;
  }

  void add_stage(size_t number, bool last) {
    std::vector<std::pair<NodeId, Place>> stores;
    for (auto [n, v] : vectors_) {
      if (level_[n] == number) stores.push_back({n, {Place::Kind::vector, v}});
    }
    auto states = static_cast<size_t>(loop_.states);
    for (size_t o = 0; last && o < body_.outputs.size(); ++o) {
      Place state{Place::Kind::state, o}, output{Place::Kind::output, o - states};
      stores.push_back({body_.outputs[o].node, o < states ? state : output});
    }
    Recurrence::Stage stage;
    stage.graph = graph_of(stores, stage);
    auto nest = nest_of(stage.graph, r_.units);
    require(nest.has_value());
    stage.nest = std::move(*nest);
    check(stage);
    place(stage);
    r_.stages.push_back(std::move(stage));
  }

  // What the stores are made of, products and the body's inputs being loads.
  Graph graph_of(const std::vector<std::pair<NodeId, Place>>& stores, Recurrence::Stage& stage) {
    std::set<NodeId> leaves, inner;
    std::vector<NodeId> open;
    for (const auto& [n, place] : stores) open.push_back(n);
    while (!open.empty()) {
      NodeId n = open.back();
      open.pop_back();
      bool leaf = is_input(n) || product_of_[n] >= 0;
      if (!(leaf ? leaves : inner).insert(n).second || leaf) continue;
      for (NodeId a : body_.nodes[n].args) open.push_back(a);
    }
    GraphBuilder b;
    std::map<NodeId, NodeId> made;
    for (NodeId n : leaves) {
      made[n] = b.input(str("x", made.size()), body_.type(n));
      Place sum{Place::Kind::sum, static_cast<size_t>(std::max(product_of_[n], 0))};
      stage.loads.push_back(is_input(n) ? input(n) : sum);
    }
    for (NodeId n : inner) {
      const Node& node = body_.nodes[n];
      std::vector<NodeId> args;
      for (NodeId a : node.args) args.push_back(made.at(a));
      made[n] = body_.is_constant(n) ? b.constant(body_.constant(n))
                                     : b.try_op(node.op, args, node.attrs).value_or_throw();
    }
    for (const auto& [n, place] : stores) {
      b.output(str("y", stage.stores.size()), made.at(n));
      stage.stores.push_back(place);
    }
    return std::move(b).build();
  }

  void check(Recurrence::Stage& stage) {
    Nest& nest = stage.nest;
    require(!nest.space.empty() && nest.math.extent(nest.space.back()) == r_.units);
    require(left_out(nest).empty());
    Linear unit = term(nest.space.back());
    for (const NestValue& v : nest.values) {
      require(v.kind != NestValue::Kind::reduce);
      if (v.kind != NestValue::Kind::load) continue;
      const Place& place = stage.loads[static_cast<size_t>(v.buffer)];
      if (place.kind == Place::Kind::sum) {
        require(v.bounds.empty() && nest.math.remainder(v.at, r_.units) == unit);
      }
      // Matrices are packed: nobody else may read them.
      for (const Recurrence::Matrix& m : r_.matrices) {
        require(place != Place{Place::Kind::operand, m.operand});
      }
    }
  }

  void place(Recurrence::Stage& stage) {
    Nest& nest = stage.nest;
    auto within = [&](const Linear& at, int64_t stride) {
      return apart(nest.math, at, stride, stride * loop_.trips);
    };
    for (NestValue& v : nest.values) {
      if (v.kind != NestValue::Kind::load) continue;
      const Place& from = stage.loads[static_cast<size_t>(v.buffer)];
      if (from.kind != Place::Kind::slice) continue;
      v.at = within(v.at, r_.slices[from.index - static_cast<size_t>(loop_.states)].stride);
    }
    for (NestStore& s : nest.stores) {
      const Place& to = stage.stores[static_cast<size_t>(s.buffer)];
      if (to.kind == Place::Kind::output) s.at = within(s.at, r_.outputs[to.index].stride);
    }
  }

  const Loop& loop_;
  const Graph& body_;
  Recurrence r_;
  std::set<NodeId> needed_;
  std::map<NodeId, size_t> vectors_;
  IdVec<NodeId, int> product_of_;
  IdVec<NodeId, size_t> level_;
};

}  // namespace

Linear apart(IndexMath& math, const Linear& at, int64_t block, int64_t step) {
  return math.sum(math.quotient(at, block) * step, math.remainder(at, block));
}

std::optional<Recurrence> recurrence_of(const Loop& loop) {
  try {
    return Reader(loop).read();
  } catch (const Other&) {
    return std::nullopt;
  }
}

namespace {

// Loads and stores of states and vectors are of the row and the unit at hand.
bool keeps_rows(const Recurrence& r, const Recurrence::Stage& s, int64_t rows) {
  IndexMath math = s.nest.math;
  const std::vector<int>& space = s.nest.space;
  if (space.size() != 2 || math.extent(space[0]) != rows) return false;
  Linear own = math.sum(term(space[0]) * r.units, term(space[1]));
  auto carried = [](const Place& p) {
    return p.kind == Place::Kind::state || p.kind == Place::Kind::vector;
  };
  for (const NestValue& v : s.nest.values) {
    if (v.kind != NestValue::Kind::load || !carried(s.loads[static_cast<size_t>(v.buffer)]))
      continue;
    if (v.at != own || !v.bounds.empty()) return false;
  }
  return std::ranges::all_of(s.nest.stores, [&](const NestStore& to) {
    return !carried(s.stores[static_cast<size_t>(to.buffer)]) || to.at == own;
  });
}

}  // namespace

int64_t separate_rows(const Recurrence& r) {
  int64_t rows = r.products[0].rows;
  for (const Recurrence::Product& p : r.products) {
    bool own = p.vector.kind == Place::Kind::slice || (p.row_step == r.units && p.k_step == 1);
    bool whole = r.matrices[p.matrix].depth <= r.units || p.vector.kind == Place::Kind::slice;
    if (p.rows != rows || !own || !whole) return 0;
  }
  for (const Recurrence::Stage& s : r.stages) {
    if (!keeps_rows(r, s, rows)) return 0;
  }
  return rows;
}

double operation_count(const Recurrence& r) {
  double each = 0;
  for (const Recurrence::Product& p : r.products) {
    each += 2.0 * static_cast<double>(p.rows * p.gates * r.units * r.matrices[p.matrix].depth);
  }
  for (const Recurrence::Stage& s : r.stages) each += operation_count(s.nest);
  return each * static_cast<double>(r.loop.trips);
}

double matrix_bytes(const Recurrence& r) {
  double bytes = 0;
  for (const Recurrence::Matrix& m : r.matrices) {
    bytes += static_cast<double>(m.depth * m.gates * r.units) * info(DType::f32).bits / 8;
  }
  return bytes;
}

std::optional<Recurrence> recurrence_of(const Graph& g, NodeId n) {
  if (op_def(g.nodes[n]).name != "loop") return std::nullopt;
  return recurrence_of(g.nodes[n].attrs.as<Loop>());
}

}  // namespace emend
