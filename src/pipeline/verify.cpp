#include "pipeline/verify.h"

#include <algorithm>

#include "import/open_sizes.h"
#include "ops/build.h"
#include "ops/table.h"
#include "pipeline/declared.h"
#include "simplify/simplify.h"

namespace emend {
namespace {

// Where each of `wanted` stands in `given`; nullopt unless both are the same names, each once.
template <class Named>
std::optional<std::vector<size_t>> places(const std::vector<Named>& wanted,
                                          const std::vector<Named>& given) {
  std::vector<size_t> at;
  for (const Named& w : wanted) {
    auto same = [&](const Named& g) { return g.name == w.name; };
    if (std::count_if(given.begin(), given.end(), same) != 1) return std::nullopt;
    at.push_back(
        static_cast<size_t>(std::find_if(given.begin(), given.end(), same) - given.begin()));
  }
  if (wanted.size() != given.size()) return std::nullopt;
  return at;
}

// `b` with inputs and outputs in the order of `a`, where they have the same names: users feed
// models by name, and a list in another order is no difference.
Graph in_order_of(const Graph& a, Graph b) {
  if (auto at = places(a.outputs, b.outputs)) {
    auto outputs = b.outputs;
    for (size_t k = 0; k < at->size(); ++k) b.outputs[k] = outputs[(*at)[k]];
  }
  auto at = places(a.inputs, b.inputs);
  if (!at || std::is_sorted(at->begin(), at->end())) return b;
  const Graph old = b;
  IdVec<NodeId, NodeId> moved(b.size());
  for (size_t i = 0; i < b.size(); ++i) moved[NodeId(i)] = NodeId(i);
  for (size_t k = 0; k < at->size(); ++k) {
    NodeId from = old.inputs[(*at)[k]].node, to{k};
    moved[from] = to;
    b.inputs[k] = old.inputs[(*at)[k]];
    b.inputs[k].node = to;
    b.types[to] = old.types[from];
    b.names[to] = old.names[from];
  }
  for (Node& n : b.nodes) {
    for (NodeId& arg : n.args) arg = moved[arg];
  }
  for (GraphOutput& o : b.outputs) o.node = moved[o.node];
  return b;
}

// Proofs know no infinities, and for all other numbers a bound at the end of its type is none.
Graph without_ends_of_types(const Graph& g, bool& changed) {
  GraphBuilder b;
  IdVec<NodeId, NodeId> made(g.size());
  auto kept = [&](const Node& n) {
    std::vector<NodeId> operands;
    for (NodeId a : n.args) operands.push_back(made[a]);
    return b.try_op(n.op, operands, n.attrs).value_or_throw();
  };
  for (size_t i = 0; i < g.size(); ++i) {
    const NodeId id{i};
    const Node& n = g.nodes[id];
    const DType t = g.types[id].dtype;
    if (n.op == kInputOp) {
      made[id] =
          b.input(g.inputs[static_cast<size_t>(n.attrs.get<int64_t>("index"))].name, g.types[id]);
    } else if (n.op == kConstantOp) {
      made[id] = b.constant(g.constant(id));
    } else if (op_def(n).name == "clip" && is_float(t)) {
      const double low = n.attrs.get<double>("min"), high = n.attrs.get<double>("max");
      if (low != lowest(t) && high != highest(t)) {
        made[id] = kept(n);
        continue;
      }
      made[id] = made[n.args[0]];
      if (low != lowest(t)) made[id] = b.op("max", {made[id], b.scalar(low, t)});
      if (high != highest(t)) made[id] = b.op("min", {made[id], b.scalar(high, t)});
      changed = true;
    } else {
      made[id] = kept(n);
    }
  }
  for (const GraphOutput& o : g.outputs) b.output(o.name, made[o.node]);
  return std::move(b).build();
}

}  // namespace

Verdict verify(const Model& a, const Model& b, const CompareOptions& options) {
  const Graph same_order = in_order_of(a.graph, b.graph);
  Verdict as_they_are = compare(a.graph, same_order, options);
  if (as_they_are.kind != Verdict::Kind::unknown || as_they_are.out_of_time) return as_they_are;
  bool finite_only = false;
  const Graph finite_a = without_ends_of_types(a.graph, finite_only),
              finite_b = without_ends_of_types(same_order, finite_only);
  Verdict cleaned = compare(simplify(finite_a), simplify(finite_b), options);
  cleaned.finite_only |= finite_only;
  // A difference between cleaned programs may be one that folding made: only equality counts.
  if (cleaned.kind != Verdict::Kind::equal) return as_they_are;
  cleaned.reason = "after both were cleaned by the rules, " + cleaned.reason;
  return cleaned;
}

namespace {

// The input of B that stands for each of A; by place where names differ.
std::vector<size_t> twins_of_inputs(const Model& a, const Model& b) {
  if (auto at = places(a.info.inputs, b.info.inputs)) return *at;
  std::vector<size_t> at(std::min(a.info.inputs.size(), b.info.inputs.size()));
  for (size_t i = 0; i < at.size(); ++i) at[i] = i;
  return at;
}

bool is_open(const Model& m, const Declaration& d, size_t dim) {
  if (d.type.shape[dim] >= 0) return false;
  const std::string& symbol = d.symbols[dim];
  return symbol.empty() ? !m.info.defaulted.empty() : m.info.defaulted.contains(symbol);
}

// A dimension that one model leaves open and the other fixes.
struct OpenOnOneSide {
  std::string input, symbol;
  size_t dim = 0;
  int64_t size = 0;  // that the other one takes
  bool in_a = false;
};

std::optional<OpenOnOneSide> open_on_one_side(const Model& a, const Model& b) {
  auto twins = twins_of_inputs(a, b);
  for (size_t i = 0; i < twins.size(); ++i) {
    const Declaration &x = a.info.inputs[i], &y = b.info.inputs[twins[i]];
    if (!x.has_shape || !y.has_shape || x.type.shape.size() != y.type.shape.size()) continue;
    for (size_t d = 0; d < x.type.shape.size(); ++d) {
      bool open_a = is_open(a, x, d), open_b = is_open(b, y, d);
      if (open_a == open_b) continue;
      int64_t size = open_a ? y.type.shape[d] : x.type.shape[d];
      if (size < 0) continue;  // the user fixed it
      return OpenOnOneSide{x.name, (open_a ? x : y).symbols[d], d, size, open_a};
    }
  }
  return std::nullopt;
}

// Shapes of B's inputs as those of A are.
ImportOptions at_shapes_of(const Model& a, const Model& b, ImportOptions options) {
  auto twins = twins_of_inputs(a, b);
  for (size_t i = 0; i < twins.size() && i < a.graph.inputs.size(); ++i) {
    const Type& t = a.graph.types[a.graph.inputs[i].node];
    const Declaration& twin = b.info.inputs[twins[i]];
    bool same_rank = twin.has_shape && twin.type.shape.size() == t.shape.size();
    if (t.is_tensor() && same_rank) options.shapes[twin.name] = t.shape;
  }
  return options;
}

Verdict declared_wrongly(const Model& b, const DeclaredOtherwise& d) {
  Verdict v;
  v.kind = Verdict::Kind::different;
  v.method = "signature";
  v.reason = str("the second model says that dimension ", d.dim, " of output ",
                 b.info.outputs[d.output].name, " is ", d.said, ", and gives ", d.is);
  return v;
}

std::string sizes_text(const std::map<std::string, int64_t>& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes)
    text += str(text.empty() ? "" : ", ", symbol, " = ", size);
  return text;
}

// Sizes of open dimensions to compare at: those that the first model was read at, others that it
// takes, distinct and above 1, and 1.
std::vector<SymbolSizes> sizes_to_try(const OnnxFile& file, const ImportOptions& given,
                                      const SymbolSizes& defaulted) {
  std::vector<SymbolSizes> all = {defaulted};
  for (SymbolSizes& sizes : drawn_sizes(file, given, 1)) all.push_back(std::move(sizes));
  for (auto& [symbol, size] : all.emplace_back(defaulted)) size = 1;
  return all;
}

// What two verdicts about one pair at two sizes come to: the worse one.
void take_worse(Verdict& v, Verdict other, const std::string& sizes) {
  auto rank = [](const Verdict& w) {
    return w.kind == Verdict::Kind::different ? 2 : w.kind == Verdict::Kind::unknown ? 1 : 0;
  };
  if (rank(other) <= rank(v)) return;
  v = std::move(other);
  v.reason = str("at ", sizes, ": ", v.reason);
}

Verdict verify_at_several_sizes(const OnnxFile& a, const OnnxFile& b, const Model& first_a,
                                const Model& first_b, const ImportOptions& given,
                                CompareOptions options) {
  const auto tries = sizes_to_try(a, given, first_a.info.defaulted);
  options.seconds /= static_cast<double>(tries.size());
  Verdict v;
  std::string held;
  for (size_t k = 0; k < tries.size(); ++k) {
    if (k > 0 && std::find(tries.begin(), tries.begin() + static_cast<ptrdiff_t>(k), tries[k]) !=
                     tries.begin() + static_cast<ptrdiff_t>(k))
      continue;
    ImportOptions sizes = given;
    for (const auto& [symbol, size] : tries[k]) sizes.symbols[symbol] = size;
    std::optional<Model> x, y;
    std::string sizes_now = sizes_text(tries[k]);
    try {
      x = k == 0 ? first_a : a.import(sizes);
    } catch (const Error&) {
      continue;  // the model itself does not take these
    }
    Verdict now;
    try {
      y = b.import(at_shapes_of(*x, first_b, given));
      const auto untrue = declared_otherwise(*y);
      now = !untrue.empty() && declared_otherwise(*x).empty() ? declared_wrongly(*y, untrue[0])
                                                              : verify(*x, *y, options);
    } catch (const Error& e) {
      now.kind = Verdict::Kind::different;
      now.method = "signature";
      now.reason = str("only the first model takes these: ", e.what());
    }
    held += str(held.empty() ? "" : "; ", sizes_now);
    if (k == 0) {
      v = std::move(now);
      if (v.kind != Verdict::Kind::equal) v.reason = str("at ", sizes_now, ": ", v.reason);
    } else {
      take_worse(v, std::move(now), sizes_now);
    }
    if (v.kind == Verdict::Kind::different) return v;
  }
  if (v.kind == Verdict::Kind::equal) v.reason += str("; compared at ", held);
  return v;
}

// The side that leaves a dimension open is compared as the other one fixes it, which says whether
// the models are the same there; they are not the same model.
Verdict verify_where_both_stand(const OnnxFile& a, const OnnxFile& b, const Model& first_a,
                                const Model& first_b, const OpenOnOneSide& open,
                                const std::string& narrow, const ImportOptions& given,
                                const CompareOptions& options) {
  Verdict v;
  try {
    v = open.in_a ? verify(a.import(at_shapes_of(first_b, first_a, given)), first_b, options)
                  : verify(first_a, b.import(at_shapes_of(first_a, first_b, given)), options);
  } catch (const Error& e) {
    v.reason = e.what();
  }
  const std::string dim =
      open.symbol.empty() ? str("dimension ", open.dim, " of input ", open.input) : open.symbol;
  v.reason = str(to_text(v.kind), " at ", dim, " = ", open.size, ", but ", narrow, " takes only ",
                 open.size, " as dimension ", open.dim, " of input ", open.input,
                 ", which the other model leaves open; ", v.reason);
  v.kind = Verdict::Kind::different;
  v.method = "signature";
  return v;
}

}  // namespace

Verdict verify_files(const std::filesystem::path& a, const std::filesystem::path& b,
                     const ImportOptions& sizes, const CompareOptions& options) {
  OnnxFile file_a(a), file_b(b);
  const Model x = file_a.import(sizes), y = file_b.import(sizes);
  if (auto open = open_on_one_side(x, y)) {
    std::string narrow = (open->in_a ? b : a).string();
    return verify_where_both_stand(file_a, file_b, x, y, *open, narrow, sizes, options);
  }
  if (x.info.defaulted.empty()) return verify(x, y, options);
  return verify_at_several_sizes(file_a, file_b, x, y, sizes, options);
}

}  // namespace emend
