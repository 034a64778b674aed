#include "export/generalise.h"

#include <algorithm>
#include <map>
#include <optional>

#include "export/onnx_types.h"
#include "ops/build.h"
#include "ops/onnx_raise.h"
#include "ops/onnx_row.h"
#include "ops/table.h"

namespace emend {
namespace {

std::string label(const Graph& g, NodeId id) {
  auto node = g.nodes[id].attrs.as<OnnxNode>();
  return str(node.type, g.names[id].empty() ? "" : " " + emend::quoted(g.names[id]));
}

// One position of a target shape: its size in every variant, and the operand's size there.
struct Position {
  Dims target;
  std::optional<Dims> operand;

  bool fixed() const {
    return std::all_of(target.begin(), target.end(), [&](int64_t d) { return d == target[0]; });
  }
  bool follows_operand() const { return operand && *operand == target; }
};

// Reshape: 0 is the operand's size at the same place, -1 what is left over.
Result<Dims> reshape_target(const std::vector<Position>& positions) {
  Dims shape;
  bool left_over = false;
  for (const Position& p : positions) {
    if (p.fixed()) {
      if (p.target[0] <= 0) return fail("has an empty dimension");
      shape.push_back(p.target[0]);
    } else if (p.follows_operand()) {
      shape.push_back(0);
    } else if (!left_over) {
      left_over = true;
      shape.push_back(-1);
    } else {
      return fail("has several dimensions that depend on the size");
    }
  }
  return shape;
}

// Expand: 1 leaves the operand's size as it is.
Result<Dims> expand_target(const std::vector<Position>& positions) {
  Dims shape;
  for (const Position& p : positions) {
    if (!p.fixed() && !p.follows_operand()) return fail("makes a dimension of that size");
    shape.push_back(p.fixed() ? p.target[0] : 1);
  }
  return shape;
}

class Generaliser {
 public:
  explicit Generaliser(const std::vector<Graph>& raised) : raised_(raised), g_(raised[0]) {}

  Result<Graph> run() {
    if (auto same = compare(); !same) return Failure{same.error()};
    IdVec<NodeId, NodeId> made(g_.size());
    for (size_t i = 0; i < g_.size(); ++i) {
      NodeId id{i};
      const Node& n = g_.nodes[id];
      b_.set_origin(g_.names[id]);
      if (n.op == kInputOp) {
        const auto& input = g_.inputs[static_cast<size_t>(n.attrs.get<int64_t>("index"))];
        made[id] = b_.input(input.name, g_.types[id], input.donated);
      } else if (n.op == kConstantOp) {
        made[id] = b_.constant(g_.constant(id));
      } else {
        std::vector<NodeId> operands;
        for (NodeId a : n.args) operands.push_back(made[a]);
        for (auto [at, shape] : targets_[id]) operands[at] = b_.ints(shape);
        made[id] = b_.try_op(n.op, operands, n.attrs).value_or_throw();
      }
    }
    for (const auto& o : g_.outputs) b_.output(o.name, made[o.node]);
    return std::move(b_).build();
  }

 private:
  // All variants are the same up to `varying_` constants, each of which has a general form.
  Result<bool> compare() {
    for (const Graph& v : raised_) {
      if (v.size() != g_.size() || v.inputs.size() != g_.inputs.size() || v.outputs != g_.outputs)
        return fail("the program has another structure at another size");
    }
    for (size_t i = 0; i < g_.size(); ++i) {
      NodeId id{i};
      const Node& n = g_.nodes[id];
      for (const Graph& v : raised_) {
        const Node& m = v.nodes[id];
        if (m.op != n.op || !std::equal(m.args.begin(), m.args.end(), n.args.begin(), n.args.end()))
          return fail("the program has another structure at another size");
        if (n.op == kConstantOp) {
          if (!(v.constant(id) == g_.constant(id))) varying_[id] = true;
        } else if (op_def(n).kind == Kind::opaque) {
          if (n.attrs.without("result") != m.attrs.without("result"))
            return fail(label(g_, id), " has other attributes at another size");
        } else if (n.attrs != m.attrs) {
          return fail("the program has another structure at another size");
        }
      }
      if (auto general = find_targets(id); !general) return general;
    }
    return true;
  }

  // The operands of a node that vary with the size must be shapes that can be said in general.
  Result<bool> find_targets(NodeId id) {
    const Node& n = g_.nodes[id];
    for (size_t at = 0; at < n.args.size(); ++at) {
      if (!varying_.contains(n.args[at])) continue;
      if (op_def(n).kind != Kind::opaque) return fail("a constant depends on the size");
      auto node = n.attrs.as<OnnxNode>();
      bool reshape = node.type == "Reshape" && !node.attributes.get_or<int64_t>("allowzero", 0);
      bool expand = node.type == "Expand";
      if (at != 1 || !node.domain.empty() || (!reshape && !expand))
        return fail(label(g_, id), " depends on the size");
      auto positions = positions_of(n, expand);
      if (!positions) return Failure{positions.error()};
      auto shape = reshape ? reshape_target(*positions) : expand_target(*positions);
      if (!shape) return fail(label(g_, id), " ", shape.error());
      targets_[id][at] = *shape;
    }
    for (const auto& o : g_.outputs) {
      if (o.node == id && varying_.contains(id)) return fail("an output depends on the size");
    }
    return true;
  }

  // Expand lines shapes up at their ends, Reshape at their beginnings.
  Result<std::vector<Position>> positions_of(const Node& n, bool from_end) {
    if (types_.empty()) {
      for (const Graph& v : raised_) types_.push_back(value_types(v));
    }
    std::vector<Position> positions;
    for (size_t k = 0; k < raised_.size(); ++k) {
      const Type& operand = types_[k][n.args[0]];
      Dims target = raised_[k].constant(n.args[1]).ints();
      if (k == 0) positions.resize(target.size());
      if (target.size() != positions.size()) return fail("a rank depends on the size");
      for (size_t p = 0; p < target.size(); ++p) {
        positions[p].target.push_back(target[p]);
        size_t shift = from_end ? target.size() - operand.shape.size() : 0;
        if (!operand.is_tensor() || p < shift || p - shift >= operand.shape.size()) continue;
        if (k == 0) positions[p].operand.emplace();
        if (positions[p].operand) positions[p].operand->push_back(operand.shape[p - shift]);
      }
    }
    return positions;
  }

  const std::vector<Graph>& raised_;
  const Graph& g_;
  GraphBuilder b_;
  std::map<NodeId, bool> varying_;                    // constants that are not the same everywhere
  std::map<NodeId, std::map<size_t, Dims>> targets_;  // operands to replace
  std::vector<IdVec<NodeId, Type>> types_;            // of each variant's values
};

using Symbols = std::map<std::string, int64_t>;

// Sizes to try beside the default: apart from one another, and multiples of a default that means
// something (a picture's width), so that strides still fit.
Symbols other_sizes(const Symbols& defaults, const Symbols& kept, bool second) {
  static constexpr int64_t kPrimes[] = {5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43};
  Symbols sizes = defaults;
  size_t index = second ? 1 : 0;
  for (const auto& [symbol, size] : kept) {
    auto step = static_cast<int64_t>(index);
    sizes[symbol] =
        size <= 1 ? kPrimes[index % std::size(kPrimes)] + 40 * (step / 12) : size * (2 + step);
    index += 2;
  }
  return sizes;
}

Result<Generalised> keep_symbols(const Model& model, int64_t opset, const AtSizes& at_sizes,
                                 const Symbols& kept) {
  Generalised result;
  result.programs = {model.graph};
  result.sizes = {model.info.defaulted};
  try {
    for (bool second : {false, true}) {
      result.sizes.push_back(other_sizes(model.info.defaulted, kept, second));
      result.programs.push_back(at_sizes(result.sizes.back()));
    }
    std::vector<Graph> raised;
    for (const Graph& g : result.programs) raised.push_back(raise_onnx(g, opset));
    auto general = generalise(raised);
    if (!general) return Failure{general.error()};
    result.raised = std::move(*general);
  } catch (const Error& e) {
    return fail(e.what());  // at some size the program does not even exist
  }
  for (auto& sizes : result.sizes)
    std::erase_if(sizes, [&](const auto& s) { return !kept.contains(s.first); });
  return result;
}

std::string pinned_note(const std::string& symbol, int64_t size, const std::string& why) {
  std::string name = symbol.starts_with("?") ? symbol.substr(1) : symbol;
  return str("dimension ", name, " is written as ", size, why.empty() ? "" : ": ", why);
}

}  // namespace

Result<Graph> generalise(const std::vector<Graph>& raised) {
  EMEND_ASSERT(!raised.empty());
  return Generaliser(raised).run();
}

std::variant<std::monostate, int64_t, std::string> Generalised::dimension(
    const std::vector<Type>& types, size_t i, const std::string& declared) const {
  const auto is = [&](const std::string& symbol) {
    for (size_t k = 0; k < types.size(); ++k) {
      if (types[k].shape.at(i) != sizes[k].at(symbol)) return false;
    }
    return true;
  };
  const auto written = [](const std::string& symbol) -> decltype(dimension(types, i, declared)) {
    if (symbol.empty() || symbol.starts_with("?")) return std::monostate();
    return symbol;
  };
  if (sizes[0].contains(declared) && is(declared)) return written(declared);
  for (const auto& [symbol, size] : sizes[0]) {
    if (is(symbol)) return written(symbol);
  }
  return sizes[0].contains(declared) ? written("") : written(declared);
}

Generalised for_all_sizes(const Model& model, int64_t opset, const AtSizes& at_sizes) {
  const Symbols& all = model.info.defaulted;
  std::map<std::string, std::string> reasons;
  std::optional<Generalised> best;
  if (at_sizes && !all.empty()) {
    auto together = keep_symbols(model, opset, at_sizes, all);
    if (together) return std::move(*together);
    if (all.size() == 1) reasons[all.begin()->first] = together.error();
  }
  // Not all together: as many as go, in the order of their names.
  Symbols kept;
  for (const auto& [symbol, size] : all) {
    if (!at_sizes || all.size() == 1) break;
    Symbols more = kept;
    more.emplace(symbol, size);
    auto result = keep_symbols(model, opset, at_sizes, more);
    if (!result) {
      reasons[symbol] = result.error();
      continue;
    }
    kept = std::move(more);
    best = std::move(*result);
  }
  if (!best) {
    best = {.raised = raise_onnx(model.graph, opset), .programs = {model.graph}, .sizes = {{}}};
  }
  for (const auto& [symbol, size] : all) {
    if (!kept.contains(symbol)) best->notes.push_back(pinned_note(symbol, size, reasons[symbol]));
  }
  return std::move(*best);
}

}  // namespace emend
