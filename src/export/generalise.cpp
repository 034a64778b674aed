#include "export/generalise.h"

#include <algorithm>
#include <climits>
#include <map>

#include "export/onnx_types.h"
#include "export/size_formula.h"
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

bool is_fixed(const Dims& numbers) {
  return std::ranges::all_of(numbers, [&](int64_t n) { return n == numbers[0]; });
}

// A number of an operand as the file will have it: written, or computed when the program runs.
using Number = std::variant<int64_t, SizeFormula>;

// Writes numbers as nodes that compute them from shapes; what was written once is used again.
class NumberWriter {
 public:
  NumberWriter(GraphBuilder& b, int64_t opset) : b_(b), opset_(opset) {}

  // `made` maps values of the old graph to the new one.
  NodeId write(const std::vector<Number>& numbers, const Type& type,
               const IdVec<NodeId, NodeId>& made) {
    std::vector<NodeId> pieces;
    Dims written;
    auto end_of_written = [&] {
      if (!written.empty()) pieces.push_back(b_.ints(written));
      written.clear();
    };
    scalar_ = type.rank() == 0;
    for (size_t i = 0; i < numbers.size();) {
      if (const auto* n = std::get_if<int64_t>(&numbers[i])) {
        written.push_back(*n);
        ++i;
        continue;
      }
      end_of_written();
      size_t many = dimensions_from(numbers, i);
      const auto& f = std::get<SizeFormula>(numbers[i]);
      pieces.push_back(many > 1 ? dimensions(f.product[0], many, made) : formula(f, made));
      i += many;
    }
    end_of_written();
    NodeId all = pieces.size() == 1 ? pieces[0] : concat(pieces);
    if (type.dtype != DType::i64)
      all = emit("Cast", {all}, type, {{"to", int64_t{info(type.dtype).onnx}}});
    return all;
  }

 private:
  // How many numbers from i on are dimensions of one value that stand beside one another.
  static size_t dimensions_from(const std::vector<Number>& numbers, size_t i) {
    const auto* first = std::get_if<SizeFormula>(&numbers[i]);
    if (!first->is_dimension()) return 1;
    size_t many = 1;
    for (; i + many < numbers.size(); ++many) {
      const auto* next = std::get_if<SizeFormula>(&numbers[i + many]);
      bool beside = next && next->is_dimension() &&
                    next->product[0].value == first->product[0].value &&
                    next->product[0].axis == first->product[0].axis + static_cast<int64_t>(many);
      if (!beside) break;
    }
    return many;
  }

  NodeId dimensions(const SizedDimension& from, size_t many, const IdVec<NodeId, NodeId>& made) {
    auto count = static_cast<int64_t>(many);
    auto [it, fresh] = dimensions_.try_emplace({made[from.value], from.axis, scalar_ ? 0 : count});
    if (!fresh) return it->second;
    Type type = Type::tensor(DType::i64, scalar_ ? Dims() : Dims{count});
    if (opset_ >= 15 && !scalar_) {
      return it->second = emit("Shape", {made[from.value]}, type,
                               {{"start", from.axis}, {"end", from.axis + count}});
    }
    auto [shape, unknown] = shapes_.try_emplace(made[from.value]);
    if (unknown)
      shape->second = emit("Shape", {made[from.value]},
                           Type::tensor(DType::i64, {b_.type(made[from.value]).rank()}));
    Dims axes;
    for (int64_t a = 0; a < count; ++a) axes.push_back(from.axis + a);
    NodeId which = scalar_ ? number(from.axis) : b_.ints(axes);
    return it->second = emit("Gather", {shape->second, which}, type, {{"axis", int64_t{0}}});
  }

  NodeId formula(const SizeFormula& f, const IdVec<NodeId, NodeId>& made) {
    NodeId value = dimensions(f.product[0], 1, made);
    for (size_t i = 1; i < f.product.size(); ++i)
      value = arithmetic("Mul", value, dimensions(f.product[i], 1, made));
    if (f.factor != 1) value = arithmetic("Mul", value, number(f.factor));
    if (f.inner != 0) value = arithmetic("Add", value, number(f.inner));
    if (f.divisor != 1) value = arithmetic("Div", value, number(f.divisor));
    if (f.more) value = arithmetic("Add", value, dimensions(*f.more, 1, made));
    if (f.less) value = arithmetic("Sub", value, dimensions(*f.less, 1, made));
    if (f.offset != 0) value = arithmetic("Add", value, number(f.offset));
    return value;
  }

  NodeId number(int64_t n) { return scalar_ ? b_.constant(Tensor::of_int(n)) : b_.ints({n}); }

  NodeId arithmetic(const char* type, NodeId a, NodeId b) {
    std::string key = str(type, " ", a.value, " ", text_of(b));
    auto [it, fresh] = computed_.try_emplace(key);
    if (fresh)
      it->second = emit(type, {a, b}, Type::tensor(DType::i64, scalar_ ? Dims() : Dims{1}));
    return it->second;
  }

  NodeId concat(const std::vector<NodeId>& pieces) {
    std::string key = "Concat";
    int64_t count = 0;
    for (NodeId p : pieces) {
      key += " " + text_of(p);
      count += b_.shape(p)[0];
    }
    auto [it, fresh] = computed_.try_emplace(key);
    if (fresh)
      it->second =
          emit("Concat", pieces, Type::tensor(DType::i64, {count}), {{"axis", int64_t{0}}});
    return it->second;
  }

  std::string text_of(NodeId n) const {
    if (!b_.graph().is_constant(n)) return str(n.value);
    return shape_text(b_.graph().constant(n).ints());
  }

  NodeId emit(const char* type, const std::vector<NodeId>& operands, Type result,
              std::vector<Attrs::Entry> attributes = {}) {
    b_.set_origin("");
    OnnxNode node{.type = type,
                  .version = opset_,
                  .attributes = Attrs(std::move(attributes)),
                  .present = Dims(operands.size(), 1),
                  .result = std::move(result)};
    return add_onnx_node(b_, node, operands);
  }

  GraphBuilder& b_;
  int64_t opset_;
  bool scalar_ = false;  // the numbers that are being written are one of rank 0
  // By value, first axis and how many; 0 for a scalar.
  std::map<std::tuple<NodeId, int64_t, int64_t>, NodeId> dimensions_;
  std::map<NodeId, NodeId> shapes_;
  std::map<std::string, NodeId> computed_;
};

class Generaliser {
 public:
  Generaliser(const std::vector<Graph>& raised, int64_t opset)
      : raised_(raised), g_(raised[0]), opset_(opset) {}

  std::variant<Graph, NotGeneral> run() {
    if (!compare()) return std::move(obstacle_);
    GraphBuilder b;
    NumberWriter writer(b, opset_);
    IdVec<NodeId, NodeId> made(g_.size());
    for (size_t i = 0; i < g_.size(); ++i) {
      NodeId id{i};
      const Node& n = g_.nodes[id];
      b.set_origin(g_.names[id]);
      if (n.op == kInputOp) {
        const auto& input = g_.inputs[static_cast<size_t>(n.attrs.get<int64_t>("index"))];
        made[id] = b.input(input.name, g_.types[id], input.donated);
      } else if (n.op == kConstantOp) {
        made[id] = b.constant(g_.constant(id));
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
        numbers.push_back(f ? Number(std::move(*f)) : Number(sizes[0]));
      }
      if (!lists) return fails(o.node, "an output depends on the size");
      output_numbers_[o.node] = std::move(numbers);
    }
    return true;
  }

  // The numbers that a constant holds in each program, if they are few.
  std::optional<std::vector<Dims>> lists_of(NodeId constant) const {
    std::vector<Dims> lists;
    for (const Graph& v : raised_) {
      const Tensor& t = v.constant(constant);
      if (!is_integer(t.dtype()) || t.shape().size() > 1 || t.count() > kMostNumbersOfAShape ||
          t.shape() != g_.constant(constant).shape())
        return std::nullopt;
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
    auto all = lists_of(n.args[at]);
    if (!all) return std::nullopt;
    const std::vector<Dims>& lists = *all;
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
        numbers.emplace_back(std::move(*f));
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
};

}  // namespace

std::variant<Graph, NotGeneral> generalise(const std::vector<Graph>& raised, int64_t opset) {
  EMEND_ASSERT(!raised.empty());
  return Generaliser(raised, opset).run();
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
