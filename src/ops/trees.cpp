// Tree ensembles of ai.onnx.ml: every row walks through all trees; the leaves that it reaches vote
// for targets. The record keeps ONNX's form of version 5 (interior nodes and leaves in lists of
// their own); what is done to the scores afterwards are operators of their own.
#include <algorithm>
#include <cmath>
#include <set>

#include "ops/build.h"
#include "ops/compose.h"
#include "ops/evaluate.h"
#include "ops/table.h"

namespace emend {
namespace {

struct TreeEnsemble {
  int64_t aggregate_function = 1;  // average, sum, min, max
  Dims leaf_targetids;
  Tensor leaf_weights;
  Tensor membership_values;  // sets of numbers, each closed by a NaN, one per node of mode 6
  int64_t n_targets = 0;
  Dims nodes_falseleafs, nodes_falsenodeids, nodes_featureids, nodes_missing_value_tracks_true;
  Tensor nodes_modes;  // <=, <, >=, >, ==, !=, member of a set
  Tensor nodes_splits;
  Dims nodes_trueleafs, nodes_truenodeids;
  Dims tree_roots;
  EMEND_FIELDS(aggregate_function, leaf_targetids, leaf_weights, membership_values, n_targets,
               nodes_falseleafs, nodes_falsenodeids, nodes_featureids,
               nodes_missing_value_tracks_true, nodes_modes, nodes_splits, nodes_trueleafs,
               nodes_truenodeids, tree_roots)
};
enum Aggregate : int64_t { kAverage, kSum, kMin, kMax };
constexpr int64_t kMember = 6;

// Every index is checked here, so that walking needs no checks.
Result<Type> tree_infer(const TreeEnsemble& a, Types in) {
  const char* op = "tree_ensemble";
  if (in[0].rank() != 2 || !is_float(in[0].dtype))
    return fail(op, ": ", to_text(in[0]), " is no matrix of floats");
  size_t nodes = a.nodes_featureids.size(), leaves = a.leaf_targetids.size();
  for (size_t n :
       {a.nodes_truenodeids.size(), a.nodes_falsenodeids.size(), a.nodes_trueleafs.size(),
        a.nodes_falseleafs.size(), static_cast<size_t>(a.nodes_modes.count()),
        static_cast<size_t>(a.nodes_splits.count()),
        a.nodes_missing_value_tracks_true.empty() ? nodes
                                                  : a.nodes_missing_value_tracks_true.size()})
    if (n != nodes) return fail(op, ": lists of nodes differ in length");
  if (static_cast<size_t>(a.leaf_weights.count()) != leaves)
    return fail(op, ": lists of leaves differ in length");
  auto inside = [](const Dims& list, size_t n) {
    return std::all_of(list.begin(), list.end(),
                       [&](int64_t i) { return i >= 0 && static_cast<size_t>(i) < n; });
  };
  if (!inside(a.tree_roots, nodes) ||
      !inside(a.nodes_featureids, static_cast<size_t>(in[0].shape[1])) ||
      !inside(a.leaf_targetids, static_cast<size_t>(std::max<int64_t>(a.n_targets, 0))))
    return fail(op, ": a root, feature or target is out of range");
  for (size_t i = 0; i < nodes; ++i) {
    if (!inside({a.nodes_truenodeids[i]}, a.nodes_trueleafs[i] ? leaves : nodes) ||
        !inside({a.nodes_falsenodeids[i]}, a.nodes_falseleafs[i] ? leaves : nodes))
      return fail(op, ": a branch of node ", i, " leads nowhere");
    int64_t mode = a.nodes_modes.integer(static_cast<int64_t>(i));
    if (mode < 0 || mode > kMember) return fail(op, ": node ", i, " has mode ", mode);
  }
  if (a.aggregate_function < kAverage || a.aggregate_function > kMax)
    return fail(op, ": no aggregate function has the number ", a.aggregate_function);
  return Type::tensor(in[0].dtype, {in[0].shape[0], a.n_targets});
}

// The set of each node of mode 6, by node.
std::vector<std::set<double>> member_sets(const TreeEnsemble& a) {
  std::vector<std::set<double>> sets(a.nodes_featureids.size());
  int64_t next = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (a.nodes_modes.integer(static_cast<int64_t>(i)) != kMember) continue;
    for (; next < a.membership_values.count(); ++next) {
      double v = a.membership_values.real(next);
      if (std::isnan(v)) break;
      sets[i].insert(v);
    }
    if (next++ >= a.membership_values.count())
      throw Error("TreeEnsemble: membership_values has no set for each node that needs one");
  }
  return sets;
}

bool compare(int64_t mode, double x, double split, const std::set<double>& set) {
  switch (mode) {
    case 0:
      return x <= split;
    case 1:
      return x < split;
    case 2:
      return x >= split;
    case 3:
      return x > split;
    case 4:
      return x == split;
    case 5:
      return x != split;
    default:
      return set.contains(x);
  }
}

Value tree_eval(const EvalContext& c, const TreeEnsemble& a, std::span<const Value> v) {
  const Tensor& x = v[0].tensor;
  int64_t rows = x.shape()[0], features = x.shape()[1];
  auto sets = member_sets(a);
  std::vector<double> splits = a.nodes_splits.reals();
  Dims modes = a.nodes_modes.ints();
  auto leaf_of = [&](int64_t row, int64_t root) {
    auto at = static_cast<size_t>(root);
    for (size_t steps = 0; steps <= modes.size(); ++steps) {
      double value = x.real(row * features + a.nodes_featureids[at]);
      bool track = !a.nodes_missing_value_tracks_true.empty() &&
                   a.nodes_missing_value_tracks_true[at] != 0 && std::isnan(value);
      bool yes = track || compare(modes[at], value, splits[at], sets[at]);
      auto next = static_cast<size_t>(yes ? a.nodes_truenodeids[at] : a.nodes_falsenodeids[at]);
      if ((yes ? a.nodes_trueleafs[at] : a.nodes_falseleafs[at]) != 0) return next;
      at = next;
    }
    throw Error("TreeEnsemble: a tree leads back to itself");
  };
  std::vector<double> scores(static_cast<size_t>(rows * a.n_targets), 0.0);
  std::vector<bool> voted(scores.size(), false);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t root : a.tree_roots) {
      size_t leaf = leaf_of(row, root);
      auto target = static_cast<size_t>(row * a.n_targets + a.leaf_targetids[leaf]);
      double weight = a.leaf_weights.real(static_cast<int64_t>(leaf)), &score = scores[target];
      if (a.aggregate_function == kAverage)
        score += weight / static_cast<double>(a.tree_roots.size());
      else if (a.aggregate_function == kSum || !voted[target])
        score += weight;
      else
        score = a.aggregate_function == kMin ? std::min(score, weight) : std::max(score, weight);
      voted[target] = true;
    }
  }
  return Tensor::of_reals(c.result_dtype(), c.type.shape, scores);
}

// What is done to the scores: none, softmax, logistic, softmax of what is not zero, probit.
Result<NodeId> post_transform(GraphBuilder& b, NodeId scores, int64_t which) {
  switch (which) {
    case 0:
      return scores;
    case 1:
      return b.op("softmax", {scores}, Attrs({{"axis", 1}}));
    case 2:
      return b.op("reciprocal", {exp(-Formula(b, scores)) + 1.0});
    default:
      return fail("post_transform ", which, " is not supported");
  }
}

Result<std::vector<NodeId>> tree_lower(OnnxCall& c) {
  Attrs a = c.node.attributes.without("post_transform").without("nodes_hitrates");
  Dims targets = c.ints_attr("leaf_targetids");
  if (!c.has_attr("n_targets") && !targets.empty())
    a = a.with("n_targets", *std::max_element(targets.begin(), targets.end()) + 1);
  c.type(0);
  NodeId scores = c.b.op("tree_ensemble", {c.inputs[0]}, a);
  auto result = post_transform(c.b, scores, c.int_attr("post_transform", 0));
  if (!result) return Failure{result.error()};
  return std::vector{*result};
}

std::vector<NodeId> tree_raise(OnnxWriter& w) {
  return w.emit("TreeEnsemble", w.args, given_attributes(w.attrs), 1, "ai.onnx.ml");
}

}  // namespace

std::vector<OpDef> tree_ops() {
  return {
      define<TreeEnsemble>({.name = "tree_ensemble",
                            .kind = Kind::host,
                            .infer = tree_infer,
                            .eval = tree_eval,
                            .onnx = {{.type = "TreeEnsemble",
                                      .domain = "ai.onnx.ml",
                                      .since = 5,
                                      .lower = tree_lower,
                                      .raise = tree_raise}},
                            .doc = "the votes of decision trees for targets, aggregated, by row"}),
  };
}

}  // namespace emend
