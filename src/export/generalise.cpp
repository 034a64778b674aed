#include "export/generalise.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>

#include "export/number_writer.h"
#include "export/onnx_types.h"
#include "ops/build.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"
#include "ops/onnx_row.h"
#include "ops/table.h"

namespace emend {
namespace {

std::string label(const Graph& g, NodeId id) {
  auto node = g.nodes[id].attrs.as<OnnxNode>();
  return str(node.type, g.names[id].empty() ? "" : " " + emend::quoted(g.names[id]));
}

bool are_numbers(const Tensor& t) {
  return is_integer(t.dtype()) && t.shape().size() <= 1 && t.count() <= kMostNumbersOfAShape;
}

// The graph with a constant of its own for every use of numbers: at one size numbers may be equal,
// and then one constant, that are not at another.
Graph with_numbers_apart(const Graph& g) {
  GraphBuilder b;
  IdVec<NodeId, NodeId> made(g.size());
  auto use = [&](NodeId id) {
    if (!g.is_constant(id) || !are_numbers(g.constant(id))) return made[id];
    b.set_origin(g.names[id]);
    return b.constant(g.constant(id));
  };
  for (const auto& i : g.inputs) made[i.node] = b.input(i.name, g.types[i.node], i.donated);
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    if (n.op == kInputOp || (n.op == kConstantOp && are_numbers(g.constant(id)))) continue;
    std::vector<NodeId> operands;
    for (NodeId a : n.args) operands.push_back(use(a));
    b.set_origin(g.names[id]);
    made[id] = n.op == kConstantOp ? b.constant(g.constant(id))
                                   : b.try_op(n.op, operands, n.attrs).value_or_throw();
  }
  for (const auto& o : g.outputs) b.output(o.name, use(o.node));
  return std::move(b).build();
}

bool is_fixed(const Dims& numbers) {
  return std::ranges::all_of(numbers, [&](int64_t n) { return n == numbers[0]; });
}

class Generaliser {
 public:
  Generaliser(const std::vector<Graph>& raised, int64_t opset)
      : raised_(raised), g_(raised[0]), opset_(opset) {}

  std::variant<Graph, NotGeneral> run() {
    if (!compare()) return std::move(obstacle_);
    GraphBuilder b;
    NumberWriter writer(b, opset_, all_numbers());
    IdVec<NodeId, NodeId> made(g_.size());
    for (size_t i = 0; i < g_.size(); ++i) {
      NodeId id{i};
      const Node& n = g_.nodes[id];
      b.set_origin(g_.names[id]);
      if (n.op == kInputOp) {
        const auto& input = g_.inputs[static_cast<size_t>(n.attrs.get<int64_t>("index"))];
        made[id] = b.input(input.name, g_.types[id], input.donated);
      } else if (n.op == kConstantOp) {
        made[id] = constant(b, g_.constant(id));
      } else {
        std::vector<NodeId> operands;
        for (NodeId a : n.args) operands.push_back(made[a]);
        for (const auto& [at, numbers] : numbers_[id])
          operands[at] = writer.write(numbers, g_.types[n.args[at]], made);
        b.set_origin(g_.names[id]);
        made[id] = b.try_op(n.op, operands, n.attrs).value_or_throw();
      }
    }
    for (const auto& o : g_.outputs) {
      auto numbers = output_numbers_.find(o.node);
      b.output(o.name, numbers == output_numbers_.end()
                           ? made[o.node]
                           : writer.write(numbers->second, g_.types[o.node], made));
    }
    return std::move(b).build();
  }

 private:
  bool fails(NodeId id, const std::string& reason) {
    obstacle_.reason = reason;
    for (const Graph& v : raised_) {
      if (id.value < v.size() && !v.names[id].empty()) obstacle_.nodes.push_back(v.names[id]);
    }
    return false;
  }

  // All programs are the same up to `varying_` constants, each of which has a general form.
  bool compare() {
    for (const Graph& v : raised_) {
      if (v.inputs.size() != g_.inputs.size() || v.outputs.size() != g_.outputs.size())
        return fails({}, "the program has other inputs or outputs at another size");
      types_.push_back(value_types(v));
    }
    for (size_t i = 0; i < g_.size(); ++i) {
      if (!compare(NodeId(i)) || !find_numbers(NodeId(i))) return false;
      note_dimensions(NodeId(i));
    }
    bool same = std::ranges::all_of(
        raised_, [&](const Graph& v) { return v.size() == g_.size() && v.outputs == g_.outputs; });
    if (!same) return fails(NodeId(g_.size() - 1), kAnother);
    return find_output_numbers();
  }

  bool compare(NodeId id) {
    const Node& n = g_.nodes[id];
    for (const Graph& v : raised_) {
      if (id.value >= v.size()) return fails(id, kAnother);
      const Node& m = v.nodes[id];
      if (m.op != n.op || !std::equal(m.args.begin(), m.args.end(), n.args.begin(), n.args.end()))
        return fails(id, kAnother);
      if (n.op == kConstantOp) {
        if (!(v.constant(id) == g_.constant(id))) varying_[id] = true;
      } else if (op_def(n).kind == Kind::opaque) {
        if (n.attrs.without("result") == m.attrs.without("result")) continue;
        return fails(id, label(g_, id) + " has other attributes at another size");
      } else if (n.attrs != m.attrs) {
        return fails(id, kAnother);
      }
    }
    return true;
  }

  // Operands of a node that vary with the size must be numbers that can be said in general.
  bool find_numbers(NodeId id) {
    const Node& n = g_.nodes[id];
    for (size_t at = 0; at < n.args.size(); ++at) {
      if (!varying_.contains(n.args[at])) continue;
      auto numbers = numbers_of(id, at);
      if (!numbers) {
        fails(n.args[at], "");
        return fails(id, label(g_, id) + " depends on the size");
      }
      numbers_[id][at] = std::move(*numbers);
    }
    return true;
  }

  bool find_output_numbers() {
    for (const auto& o : g_.outputs) {
      if (!varying_.contains(o.node)) continue;
      auto lists = lists_of(o.node);
      std::vector<Number> numbers;
      for (size_t p = 0; lists && p < lists->at(0).size(); ++p) {
        Dims sizes = at_position(*lists, p);
        auto f = is_fixed(sizes) ? std::nullopt : formula_of(sizes, of_inputs_, of_others_);
        if (!is_fixed(sizes) && !f) return fails(o.node, "an output depends on the size");
        numbers.push_back(f ? Number(SizeNumber{std::move(*f), sizes}) : Number(sizes[0]));
      }
      if (!lists) return fails(o.node, "an output depends on the size");
      output_numbers_[o.node] = std::move(numbers);
    }
    return true;
  }

  // Numbers that are the same everywhere are one constant again.
  NodeId constant(GraphBuilder& b, const Tensor& value) {
    if (!are_numbers(value)) return b.constant(value);
    auto [it, fresh] = constants_.try_emplace(str(to_text(value.type()), shape_text(value.ints())));
    if (fresh) it->second = b.constant(value);
    return it->second;
  }

  std::vector<std::vector<Number>> all_numbers() const {
    std::vector<std::vector<Number>> all;
    for (const auto& [id, operands] : numbers_) {
      for (const auto& [at, numbers] : operands) {
        if (g_.types[g_.nodes[id].args[at]].rank() == 1) all.push_back(numbers);
      }
    }
    return all;
  }

  // The numbers that a constant holds in each program, if they are few.
  std::optional<std::vector<Dims>> lists_of(NodeId constant) const {
    std::vector<Dims> lists;
    for (const Graph& v : raised_) {
      const Tensor& t = v.constant(constant);
      if (!are_numbers(t) || t.shape() != g_.constant(constant).shape()) return std::nullopt;
      lists.push_back(t.ints());
    }
    return lists;
  }

  static Dims at_position(const std::vector<Dims>& lists, size_t p) {
    Dims numbers;
    for (const Dims& list : lists) numbers.push_back(list[p]);
    return numbers;
  }

  std::optional<std::vector<Number>> numbers_of(NodeId id, size_t at) {
    const Node& n = g_.nodes[id];
    if (op_def(n).kind != Kind::opaque) return std::nullopt;
    auto lists = lists_of(n.args[at]);
    if (!lists) return std::nullopt;
    auto numbers = one_by_one(n, at, *lists);
    if (!numbers || !is_joined(*numbers) || joined_.contains(text_of(*numbers))) return numbers;
    if (auto together = dimensions_of_one_value(id, *lists)) return together;
    joined_.insert(text_of(*numbers));
    return numbers;
  }

  // A list as text: its words, and the sizes of its computed numbers in each program.
  static std::string text_of(const std::vector<Number>& numbers) {
    std::string text;
    for (const Number& n : numbers) {
      const auto* computed = std::get_if<SizeNumber>(&n);
      text += " " + (computed ? shape_text(computed->sizes) : str(std::get<int64_t>(n)));
    }
    return text;
  }

  // Whether numbers are computed, and are pieces of a list.
  static bool is_joined(const std::vector<Number>& numbers) {
    return numbers.size() > 1 && std::ranges::any_of(numbers, [](const Number& n) {
             return std::holds_alternative<SizeNumber>(n);
           });
  }

  // The dimensions of a value made before, beside one another: one node reads them.
  std::optional<std::vector<Number>> dimensions_of_one_value(NodeId id,
                                                             const std::vector<Dims>& lists) const {
    auto stands_at = [&](NodeId value, int64_t axis) {
      for (size_t k = 0; k < lists.size(); ++k) {
        const Type& t = types_[k][value];
        if (!t.is_tensor() || t.rank() < axis + std::ssize(lists[k]) ||
            !std::equal(lists[k].begin(), lists[k].end(), t.shape.begin() + axis))
          return false;
      }
      return true;
    };
    for (NodeId value(0); value < id; value = NodeId(value.value + 1)) {
      if (g_.is_constant(value) || !types_[0][value].is_tensor()) continue;
      for (int64_t axis = 0; axis < types_[0][value].rank(); ++axis) {
        if (!stands_at(value, axis)) continue;
        std::vector<Number> numbers;
        for (size_t p = 0; p < lists[0].size(); ++p) {
          Dims sizes = at_position(lists, p);
          SizedDimension d{value, axis + static_cast<int64_t>(p), sizes};
          numbers.emplace_back(SizeNumber{SizeFormula{.product = {std::move(d)}}, sizes});
        }
        return numbers;
      }
    }
    return std::nullopt;
  }

  std::optional<std::vector<Number>> one_by_one(const Node& n, size_t at,
                                                const std::vector<Dims>& lists) const {
    auto node = n.attrs.as<OnnxNode>();
    bool reshape = node.type == "Reshape" && at == 1 && node.domain.empty() &&
                   !node.attributes.get_or<int64_t>("allowzero", 0);
    std::vector<Number> numbers;
    bool left_over = false;
    for (size_t p = 0; p < lists[0].size(); ++p) {
      Dims sizes = at_position(lists, p);
      if (is_fixed(sizes)) {
        if (reshape && sizes[0] <= 0) return std::nullopt;  // 0 has another meaning there
        numbers.emplace_back(sizes[0]);
      } else if (auto word = word_for(node, n, at, p, lists[0].size(), sizes)) {
        numbers.emplace_back(*word);
      } else if (auto f = formula(n, sizes); f && !(reshape && !left_over)) {
        numbers.emplace_back(SizeNumber{std::move(*f), sizes});
      } else if (reshape && !left_over) {
        left_over = true;
        numbers.emplace_back(int64_t{-1});
      } else {
        return std::nullopt;
      }
    }
    return numbers;
  }

  // What ONNX has a word for: the operand's own size, its end, or so much before it.
  std::optional<int64_t> word_for(const OnnxNode& node, const Node& n, size_t at, size_t p,
                                  size_t count, const Dims& sizes) const {
    if (!node.domain.empty()) return std::nullopt;
    if (node.type == "Reshape" && at == 1) {
      auto own = operand_sizes(n, static_cast<int64_t>(p));
      return own && *own == sizes ? std::optional<int64_t>(0) : std::nullopt;
    }
    if (node.type == "Expand" && at == 1) {
      int64_t rank = types_[0][n.args[0]].rank();
      auto own = operand_sizes(n, static_cast<int64_t>(p) + rank - static_cast<int64_t>(count));
      return own && *own == sizes ? std::optional<int64_t>(1) : std::nullopt;
    }
    if (node.type == "Slice" && (at == 1 || at == 2) && n.args.size() == 5)
      return bound_of_slice(n, at, p, sizes);
    return std::nullopt;
  }

  std::optional<int64_t> bound_of_slice(const Node& n, size_t at, size_t p,
                                        const Dims& sizes) const {
    auto number = [&](size_t operand) -> std::optional<int64_t> {
      if (!g_.is_constant(n.args[operand]) || varying_.contains(n.args[operand]))
        return std::nullopt;
      return g_.constant(n.args[operand]).ints().at(p);
    };
    auto axis = number(3), step = number(4);
    auto own = axis ? operand_sizes(n, *axis) : std::nullopt;
    if (!own || !step || *step < 0) return std::nullopt;
    Dims before;
    for (size_t k = 0; k < sizes.size(); ++k) before.push_back((*own)[k] - sizes[k]);
    if (at == 2 && std::ranges::all_of(before, [](int64_t b) { return b <= 0; })) return INT64_MAX;
    if (is_fixed(before) && before[0] > 0) return -before[0];
    return std::nullopt;
  }

  // How large a dimension of the first operand is in each program.
  std::optional<Dims> operand_sizes(const Node& n, int64_t axis) const {
    Dims sizes;
    for (const auto& types : types_) {
      const Type& t = types[n.args[0]];
      if (!t.is_tensor() || axis < 0 || axis >= t.rank()) return std::nullopt;
      sizes.push_back(t.shape[static_cast<size_t>(axis)]);
    }
    return sizes;
  }

  std::optional<SizeFormula> formula(const Node& n, const Dims& sizes) const {
    std::vector<SizedDimension> near = of_inputs_;
    for (NodeId a : n.args) {
      for (SizedDimension& d : dimensions_of(a)) near.push_back(std::move(d));
    }
    return formula_of(sizes, near, of_others_);
  }

  // The dimensions of a value that are not the same in all programs.
  std::vector<SizedDimension> dimensions_of(NodeId value) const {
    std::vector<SizedDimension> found;
    const Type& type = types_[0][value];
    if (!type.is_tensor() || g_.is_constant(value)) return found;
    for (int64_t axis = 0; axis < type.rank(); ++axis) {
      SizedDimension d{value, axis, {}};
      for (const auto& types : types_) {
        if (!types[value].is_tensor() || types[value].rank() != type.rank()) return {};
        d.sizes.push_back(types[value].shape[static_cast<size_t>(axis)]);
      }
      if (!is_fixed(d.sizes)) found.push_back(std::move(d));
    }
    return found;
  }

  void note_dimensions(NodeId id) {
    for (SizedDimension& d : dimensions_of(id)) {
      auto& list = g_.nodes[id].op == kInputOp ? of_inputs_ : of_others_;
      auto same = [&](const SizedDimension& other) { return other.sizes == d.sizes; };
      if (std::ranges::none_of(of_inputs_, same) && std::ranges::none_of(of_others_, same))
        list.push_back(std::move(d));
    }
  }

  static constexpr const char* kAnother = "the program has another structure at another size";
  const std::vector<Graph>& raised_;
  const Graph& g_;
  int64_t opset_;
  NotGeneral obstacle_;
  std::map<NodeId, bool> varying_;  // constants that are not the same everywhere
  std::map<NodeId, std::map<size_t, std::vector<Number>>> numbers_;  // operands to replace
  std::map<NodeId, std::vector<Number>> output_numbers_;             // outputs that are numbers
  std::vector<IdVec<NodeId, Type>> types_;                           // of each program's values
  std::vector<SizedDimension> of_inputs_, of_others_;
  std::set<std::string> joined_;  // lists of pieces, which serve again
  std::map<std::string, NodeId> constants_;
};

}  // namespace

std::variant<Graph, NotGeneral> generalise(const std::vector<Graph>& raised, int64_t opset) {
  EMEND_ASSERT(!raised.empty());
  std::vector<Graph> apart;
  for (const Graph& g : raised) apart.push_back(with_numbers_apart(g));
  return Generaliser(apart, opset).run();
}

std::variant<std::monostate, int64_t, std::string> Generalised::dimension(
    const std::vector<Type>& types, size_t i, const std::string& declared) const {
  const auto is = [&](const std::string& symbol) {
    for (size_t k = 0; k < types.size(); ++k) {
      if (types[k].shape.at(i) != programs[k].sizes.at(symbol)) return false;
    }
    return true;
  };
  const auto written = [](const std::string& symbol) -> decltype(dimension(types, i, declared)) {
    if (symbol.empty() || symbol.starts_with("?")) return std::monostate();
    return symbol;
  };
  const SymbolSizes& known = programs[0].sizes;
  if (known.contains(declared) && is(declared)) return written(declared);
  for (const auto& [symbol, size] : known) {
    if (is(symbol)) return written(symbol);
  }
  return known.contains(declared) ? written("") : written(declared);
}

std::variant<Generalised, NotGeneral> for_all_sizes(std::vector<AtSizes> programs, int64_t opset) {
  EMEND_ASSERT(!programs.empty());
  if (programs.size() == 1) {
    Graph raised = raise_onnx(programs[0].program, opset);
    return Generalised{std::move(raised), std::move(programs)};
  }
  std::vector<Graph> raised;
  for (const AtSizes& p : programs) raised.push_back(raise_onnx(p.program, opset));
  auto general = generalise(raised, opset);
  if (auto* obstacle = std::get_if<NotGeneral>(&general)) return std::move(*obstacle);
  return Generalised{std::move(std::get<Graph>(general)), std::move(programs)};
}

}  // namespace emend
