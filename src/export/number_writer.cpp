#include "export/number_writer.h"

#include "ops/onnx_lower.h"
#include "ops/table.h"

namespace emend {
namespace {

// How many numbers from i on are dimensions of one value that stand beside one another.
size_t dimensions_from(const std::vector<Number>& numbers, size_t i) {
  const SizeFormula& first = std::get<SizeNumber>(numbers[i]).formula;
  if (!first.is_dimension()) return 1;
  size_t many = 1;
  for (; i + many < numbers.size(); ++many) {
    const auto* next = std::get_if<SizeNumber>(&numbers[i + many]);
    bool beside =
        next && next->formula.is_dimension() &&
        next->formula.product[0].value == first.product[0].value &&
        next->formula.product[0].axis == first.product[0].axis + static_cast<int64_t>(many);
    if (!beside) break;
  }
  return many;
}

std::vector<Dims> sizes_of(const std::vector<Number>& numbers, size_t from, size_t many) {
  std::vector<Dims> sizes;
  for (size_t k = from; k < from + many; ++k)
    sizes.push_back(std::get<SizeNumber>(numbers[k]).sizes);
  return sizes;
}

}  // namespace

NumberWriter::NumberWriter(GraphBuilder& b, int64_t opset,
                           const std::vector<std::vector<Number>>& lists)
    : b_(b), opset_(opset) {
  for (const auto& numbers : lists) {
    for (size_t i = 0; i < numbers.size();) {
      bool computed = std::holds_alternative<SizeNumber>(numbers[i]);
      size_t many = computed ? dimensions_from(numbers, i) : 1;
      if (computed && many == 1) will_stand_alone_.insert(std::get<SizeNumber>(numbers[i]).sizes);
      i += many;
    }
  }
}

NodeId NumberWriter::write(const std::vector<Number>& numbers, const Type& type,
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
    const auto& n = std::get<SizeNumber>(numbers[i]);
    pieces.push_back(many > 1 ? dimensions(n.formula.product[0], sizes_of(numbers, i, many), made)
                              : computed(n, made));
    i += many;
  }
  end_of_written();
  NodeId all = pieces.size() == 1 ? pieces[0] : concat(pieces);
  if (type.dtype != DType::i64)
    all = emit("Cast", {all}, type, {{"to", int64_t{info(type.dtype).onnx}}});
  return all;
}

NodeId NumberWriter::dimensions(const SizedDimension& from, const std::vector<Dims>& sizes,
                                const IdVec<NodeId, NodeId>& made) {
  auto [it, fresh] = runs_.try_emplace(sizes);
  if (fresh) it->second = read(made[from.value], from.axis, sizes.size());
  return it->second;
}

// A number alone, of rank 0 or as a list of one.
NodeId NumberWriter::computed(const SizeNumber& n, const IdVec<NodeId, NodeId>& made) {
  auto& known = scalar_ ? scalars_ : lists_;
  auto& other = scalar_ ? lists_ : scalars_;
  if (auto it = known.find(n.sizes); it != known.end()) return it->second;
  bool list_first =
      scalar_ && n.formula.is_dimension() && opset_ >= 15 && will_stand_alone_.contains(n.sizes);
  NodeId value;
  if (list_first && !other.contains(n.sizes)) {
    scalar_ = false;
    computed(n, made);
    scalar_ = true;
  }
  if (auto it = other.find(n.sizes); it != other.end())
    value = emit("Reshape", {it->second, b_.ints(type().shape)}, type());
  else if (n.formula.is_dimension())
    value = read(made[n.formula.product[0].value], n.formula.product[0].axis, 1);
  else
    value = formula(n.formula, made);
  known.emplace(n.sizes, value);
  return value;
}

NodeId NumberWriter::dimension(const SizedDimension& d, const IdVec<NodeId, NodeId>& made) {
  return computed({SizeFormula{.product = {d}}, d.sizes}, made);
}

// Dimensions of a value that stand beside one another.
NodeId NumberWriter::read(NodeId value, int64_t axis, size_t many) {
  auto count = static_cast<int64_t>(many);
  Type result = scalar_ ? type() : Type::tensor(DType::i64, {count});
  if (opset_ >= 15 && !scalar_)
    return emit("Shape", {value}, result, {{"start", axis}, {"end", axis + count}});
  auto [shape, unknown] = shapes_.try_emplace(value);
  if (unknown)
    shape->second = emit("Shape", {value}, Type::tensor(DType::i64, {b_.type(value).rank()}));
  Dims axes;
  for (int64_t a = 0; a < count; ++a) axes.push_back(axis + a);
  NodeId which = scalar_ ? number(axis) : b_.ints(axes);
  return emit("Gather", {shape->second, which}, result, {{"axis", int64_t{0}}});
}

NodeId NumberWriter::formula(const SizeFormula& f, const IdVec<NodeId, NodeId>& made) {
  NodeId value = dimension(f.product[0], made);
  for (size_t i = 1; i < f.product.size(); ++i)
    value = arithmetic("Mul", value, dimension(f.product[i], made));
  if (f.factor != 1) value = arithmetic("Mul", value, number(f.factor));
  if (f.inner != 0) value = arithmetic("Add", value, number(f.inner));
  if (f.divisor != 1) value = arithmetic("Div", value, number(f.divisor));
  if (f.more) value = arithmetic("Add", value, dimension(*f.more, made));
  if (f.less) value = arithmetic("Sub", value, dimension(*f.less, made));
  if (f.offset != 0) value = arithmetic("Add", value, number(f.offset));
  return value;
}

Type NumberWriter::type() const {
  return Type::tensor(DType::i64, scalar_ ? Dims() : Dims{1});
}

NodeId NumberWriter::number(int64_t n) {
  return scalar_ ? b_.constant(Tensor::of_int(n)) : b_.ints({n});
}

NodeId NumberWriter::arithmetic(const char* op, NodeId a, NodeId b) {
  std::string key = str(op, " ", a.value, " ", text_of(b));
  auto [it, fresh] = steps_.try_emplace(key);
  if (fresh) it->second = emit(op, {a, b}, type());
  return it->second;
}

NodeId NumberWriter::concat(const std::vector<NodeId>& pieces) {
  std::string key = "Concat";
  int64_t count = 0;
  for (NodeId p : pieces) {
    key += " " + text_of(p);
    count += b_.shape(p)[0];
  }
  auto [it, fresh] = steps_.try_emplace(key);
  if (fresh)
    it->second = emit("Concat", pieces, Type::tensor(DType::i64, {count}), {{"axis", int64_t{0}}});
  return it->second;
}

std::string NumberWriter::text_of(NodeId n) const {
  if (!b_.graph().is_constant(n)) return str(n.value);
  return shape_text(b_.graph().constant(n).ints());
}

NodeId NumberWriter::emit(const char* type, const std::vector<NodeId>& operands, Type result,
                          std::vector<Attrs::Entry> attributes) {
  b_.set_origin("");
  OnnxNode node{.type = type,
                .version = opset_,
                .attributes = Attrs(std::move(attributes)),
                .present = Dims(operands.size(), 1),
                .result = std::move(result)};
  return add_onnx_node(b_, node, operands);
}

}  // namespace emend
