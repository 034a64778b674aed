#include "pipeline/weights_ahead.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/bytes.h"
#include "ops/build.h"
#include "ops/evaluate.h"
#include "ops/fold.h"
#include "ops/table.h"
#include "pipeline/memory_limit.h"

namespace emend {
namespace {

// Does it depend on no input, and always on the same weights in the same way?
IdVec<NodeId, char> weight_only(const Graph& g) {
  IdVec<NodeId, char> known(g.size(), 0);
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n{i};
    const Node& node = g.nodes[n];
    known[n] =
        node.op == kConstantOp ||
        (node.op != kInputOp && is_determined(op_def(node), node.attrs) && !node.args.empty() &&
         std::ranges::all_of(node.args, [&](NodeId a) { return known[a] != 0; }));
  }
  return known;
}

bool can_be_constant(const Type& t) {
  return t.is_tensor() && t.dtype != DType::string;
}

}  // namespace

bool is_move(const Graph& g, NodeId n) {
  const Node& node = g.nodes[n];
  if (op_def(node).kind != Kind::movement || node.args.size() != 1) return false;
  const Type &to = g.type(n), &from = g.type(node.args[0]);
  return to.is_tensor() && from.is_tensor() && count(to.shape) == count(from.shape);
}

namespace {

NodeId without_moves(const Graph& g, NodeId n) {
  while (is_move(g, n)) n = g.nodes[n].args[0];
  return n;
}

// The nodes that depend on weights alone and are read by others.
std::vector<NodeId> read_by_others(const Graph& g, const IdVec<NodeId, char>& weights) {
  std::set<NodeId> read;
  for (size_t i = 0; i < g.size(); ++i) {
    if (weights[NodeId(i)]) continue;
    for (NodeId a : g.nodes[NodeId(i)].args) {
      if (weights[a] && !g.is_constant(a) && can_be_constant(g.type(a))) read.insert(a);
    }
  }
  for (const GraphOutput& o : g.outputs) {
    if (weights[o.node] && !g.is_constant(o.node) && can_be_constant(g.type(o.node)))
      read.insert(o.node);
  }
  return {read.begin(), read.end()};
}

// A program of its own that computes this node alone.
Graph part_for(const Graph& g, NodeId wanted) {
  GraphBuilder b;
  IdVec<NodeId, char> needed(g.size(), 0);
  needed[wanted] = 1;
  IdVec<NodeId, NodeId> made(g.size());
  for (size_t i = wanted.value + 1; i-- > 0;) {
    if (!needed[NodeId(i)]) continue;
    for (NodeId a : g.nodes[NodeId(i)].args) needed[a] = 1;
  }
  for (size_t i = 0; i <= wanted.value; ++i) {
    NodeId n{i};
    if (!needed[n]) continue;
    std::vector<NodeId> args;
    for (NodeId a : g.nodes[n].args) args.push_back(made[a]);
    made[n] = g.is_constant(n) ? b.constant(g.constant(n))
                               : b.try_op(g.nodes[n].op, args, g.nodes[n].attrs).value_or_throw();
  }
  b.output("", made[wanted]);
  return std::move(b).build();
}

// As the program itself would compute it; nothing where an operator refuses these values, which
// the program says when it runs, or where that takes more memory than there is.
std::optional<Tensor> value_of(const Graph& part) {
  try {
    require_memory_to_evaluate(part);
    Value value = evaluate(part, {})[0];
    for (const Tensor& t : part.constants) t.drop_pages();
    if (!value.is_tensor() || value.tensor.type() != part.type(part.outputs[0].node))
      return std::nullopt;
    return value.tensor;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Graph with_constants(const Graph& g, const std::map<NodeId, Tensor>& values) {
  if (values.empty()) return g;
  GraphBuilder b;
  IdVec<NodeId, NodeId> made(g.size());
  for (const GraphInput& i : g.inputs) made[i.node] = b.input(i.name, g.type(i.node), i.donated);
  // What was needed for the values alone is not needed any more.
  IdVec<NodeId, char> needed(g.size(), 0);
  for (const GraphOutput& o : g.outputs) needed[o.node] = 1;
  for (size_t i = g.size(); i-- > 0;) {
    if (!needed[NodeId(i)] || values.count(NodeId(i))) continue;
    for (NodeId a : g.nodes[NodeId(i)].args) needed[a] = 1;
  }
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n{i};
    const Node& node = g.nodes[n];
    if (!needed[n] || node.op == kInputOp) continue;
    b.set_origin(g.names[n]);
    if (auto it = values.find(n); it != values.end()) {
      made[n] = b.constant(it->second);
    } else if (node.op == kConstantOp) {
      made[n] = b.constant(g.constant(n));
    } else {
      std::vector<NodeId> args;
      for (NodeId a : node.args) args.push_back(made[a]);
      made[n] = b.try_op(node.op, args, node.attrs).value_or_throw();
    }
  }
  for (const GraphOutput& o : g.outputs) b.output(o.name, made[o.node]);
  return std::move(b).build();
}

// Are only some of its elements looked up? Then the others need not be computed at all.
bool is_looked_up(const Graph& g, NodeId n) {
  bool read = false;
  for (size_t i = 0; i < g.size(); ++i) {
    const Node& node = g.nodes[NodeId(i)];
    for (size_t k = 0; k < node.args.size(); ++k) {
      if (node.args[k] != n) continue;
      if (k > 0 || op_def(node).kind != Kind::index) return false;
      read = true;
    }
  }
  return read && std::ranges::find(g.outputs, n, &GraphOutput::node) == g.outputs.end();
}

// Do the elements of a narrower weight only become wider numbers?
bool is_widened(const Graph& part) {
  const Type& result = part.type(part.outputs[0].node);
  bool narrower = false;
  for (size_t i = 0; i < part.size(); ++i) {
    NodeId n{i};
    if (part.is_constant(n)) {
      const Type& t = part.type(n);
      narrower |=
          count(t.shape) == count(result.shape) && info(t.dtype).bits < info(result.dtype).bits;
    } else if (Kind kind = op_def(part.nodes[n]).kind;
               kind != Kind::elementwise && kind != Kind::movement) {
      return false;
    }
  }
  return narrower;
}

}  // namespace

Graph computed_ahead(const Graph& g, const AheadOptions& options, AheadReport* report) {
  double room = options.room;
  std::map<NodeId, Tensor> values;
  std::set<NodeId> charged;  // what room was taken for
  std::set<const std::byte*> replaced;
  // What is computed takes the place of the weights that it is made of, each of them once.
  auto growth_of = [&](NodeId core, const Graph& part) {
    double bytes = bytes_of(g.type(core));
    for (const Tensor& t : part.constants)
      bytes -= replaced.count(t.data()) ? 0 : static_cast<double>(t.bytes().size());
    return std::max(0.0, bytes);
  };
  for (NodeId n : read_by_others(g, weight_only(g))) {
    const NodeId core = without_moves(g, n), target = options.stand_ins ? n : core;
    if (values.count(target)) continue;
    if (!g.is_constant(core) && !charged.count(core)) {
      const Graph part = part_for(g, core);
      const double growth = growth_of(core, part);
      if (growth > 0 && (is_looked_up(g, core) || is_widened(part))) continue;
      if (growth > room) {
        if (report) {
          report->left.push_back(core);
          report->missing += growth;
        }
        continue;
      }
      if (!options.stand_ins) {
        auto value = value_of(part);
        if (!value) continue;
        values.emplace(core, std::move(*value));
      }
      room -= growth;
      charged.insert(core);
      for (const Tensor& t : part.constants) replaced.insert(t.data());
    }
    if (options.stand_ins) values.emplace(n, Tensor::zeros(g.type(n).dtype, g.type(n).shape));
  }
  return with_constants(g, values);
}

Graph with_computed(const Graph& g, std::span<const NodeId> nodes) {
  std::map<NodeId, Tensor> values;
  for (NodeId n : nodes) {
    if (auto value = value_of(part_for(g, n))) values.emplace(n, std::move(*value));
  }
  return with_constants(g, values);
}

double constant_bytes(const Graph& g) {
  double bytes = 0;
  for (const Tensor& t : g.constants) bytes += static_cast<double>(t.bytes().size());
  return bytes;
}

}  // namespace emend
