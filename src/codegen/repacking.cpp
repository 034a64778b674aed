#include "codegen/repacking.h"

#include <algorithm>

#include "kernels/nest.h"
#include "ops/table.h"

namespace emend {
namespace {

// The coefficients of a form over these iterators, if it has no other atoms.
std::optional<Dims> coefficients(const Linear& form, const std::vector<int>& iterators) {
  Dims coefs(iterators.size());
  for (auto [atom, coef] : form.terms) {
    auto it = std::find(iterators.begin(), iterators.end(), atom);
    if (it == iterators.end()) return std::nullopt;
    coefs[static_cast<size_t>(it - iterators.begin())] = coef;
  }
  return coefs;
}

// The iterators of the space, outermost digit of the stored number first.
std::optional<std::vector<int>> digits(const Nest& nest, const Linear& stored, int64_t count) {
  auto terms = stored.terms;
  std::sort(terms.begin(), terms.end(), [](auto a, auto b) { return a.second > b.second; });
  std::vector<int> order;
  for (auto [atom, coef] : terms) {
    if (nest.math.atom(atom).kind != Atom::Kind::iterator) return std::nullopt;
    if (coef * nest.math.extent(atom) != count) return std::nullopt;
    count = coef;
    order.push_back(atom);
  }
  if (stored.constant != 0 || count != 1) return std::nullopt;
  return order;
}

// A pad as nests have it, select(0 <= i && i < n && ..., x, 0): its conditions are added to
// `bounds`, x is returned. None if it is something else.
class Mask {
 public:
  Mask(const Nest& nest, const NestValue& v, std::vector<Bound>& bounds)
      : nest_(nest), v_(v), bounds_(bounds) {}

  std::optional<int> masked() {
    if (v_.kind != NestValue::Kind::compute || v_.body.empty()) return std::nullopt;
    const Instr& last = v_.body.code.back();
    if (last.fn != Fn::select || !is_constant(last.c, 0) || !conditions(last.a))
      return std::nullopt;
    const Instr& x = at(last.b);
    if (x.fn != Fn::arg) return std::nullopt;
    return v_.args[static_cast<size_t>(x.a)];
  }

 private:
  const Instr& at(int32_t i) const { return v_.body.code[static_cast<size_t>(i)]; }
  bool is_constant(int32_t i, double value) const {
    return at(i).fn == Fn::constant && at(i).value == value;
  }
  const Linear* index(int32_t i) const {
    if (at(i).fn != Fn::arg) return nullptr;
    const NestValue& u = nest_.values[static_cast<size_t>(v_.args[static_cast<size_t>(at(i).a)])];
    return u.kind == NestValue::Kind::index ? &u.at : nullptr;
  }
  bool conditions(int32_t i) {
    const Instr& c = at(i);
    if (c.fn == Fn::logical_and) return conditions(c.a) && conditions(c.b);
    // An open end is a bound that the other one closes.
    if (c.fn == Fn::le && is_constant(c.a, 0) && index(c.b)) {
      bounds_.push_back({*index(c.b), INT64_MAX});
      return true;
    }
    if (c.fn == Fn::lt && index(c.a) && at(c.b).fn == Fn::constant) {
      Linear from_end = *index(c.a) * -1;
      from_end.constant += static_cast<int64_t>(at(c.b).value) - 1;
      bounds_.push_back({std::move(from_end), INT64_MAX});
      return true;
    }
    return false;
  }

  const Nest& nest_;
  const NestValue& v_;
  std::vector<Bound>& bounds_;
};

std::optional<Repacking> copy_of(const Graph& packing) {
  if (packing.inputs.size() != 1 || packing.outputs.size() != 1) return std::nullopt;
  auto nest = nest_of(packing);
  if (!nest || nest->stores.size() != 1) return std::nullopt;
  const NestStore& store = nest->stores[0];
  std::vector<Bound> bounds;
  auto value = static_cast<size_t>(store.value);
  while (auto x = Mask(*nest, nest->values[value], bounds).masked())
    value = static_cast<size_t>(*x);
  const NestValue& load = nest->values[value];
  bounds.insert(bounds.end(), load.bounds.begin(), load.bounds.end());
  const Type& to = packing.type(packing.outputs[0].node);
  bool moved = load.kind == NestValue::Kind::load && load.outside == 0 && !load.faults &&
               to.dtype == packing.type(packing.inputs[0].node).dtype && info(to.dtype).bits >= 8;
  if (!moved) return std::nullopt;
  auto order = digits(*nest, store.at, count(to.shape));
  if (!order) return std::nullopt;
  auto strides = coefficients(load.at, *order);
  if (!strides) return std::nullopt;
  Repacking r{.strides = std::move(*strides), .first = load.at.constant};
  for (int a : *order) r.extents.push_back(nest->math.extent(a));
  for (const Bound& b : bounds) {
    auto coefs = coefficients(b.at, *order);
    if (!coefs) return std::nullopt;
    r.limits.push_back({std::move(*coefs), b.at.constant, b.extent});
  }
  return r;
}

// The last node as a matrix times what comes before it; renamings are looked through.
struct LastProduct {
  Repacking::Matrix matrix;
  int64_t inner = 1;  // from one column to the next
  NodeId operand;
};
std::optional<LastProduct> last_product(const Graph& g, NodeId n) {
  while (op_def(g.nodes[n]).name == "reshape") n = g.nodes[n].args[0];
  const Node& node = g.nodes[n];
  if (op_def(node).name != "matmul" || !g.is_constant(node.args[0])) return std::nullopt;
  const Tensor& t = g.constant(node.args[0]);
  const Dims& shape = g.type(node.args[1]).shape;
  if (t.dtype() != DType::f32 || t.shape().size() != 2 || shape.size() < 2) return std::nullopt;
  LastProduct p{{t.shape()[0], t.shape()[1], {}}, shape.back(), node.args[1]};
  for (size_t i = 0; i < static_cast<size_t>(t.count()); ++i)
    p.matrix.elements.push_back(load_real(DType::f32, t.data(), i));
  return p;
}

}  // namespace

std::optional<Repacking> repacking_of(const Graph& packing) {
  std::vector<Repacking::Matrix> matrices;
  NodeId at = packing.outputs[0].node;
  int64_t inner = 1, expected = 0;
  while (auto p = last_product(packing, at)) {
    if (matrices.empty()) inner = expected = p->inner;
    if (p->inner != expected) return std::nullopt;
    expected *= p->matrix.columns;
    matrices.insert(matrices.begin(), std::move(p->matrix));
    at = p->operand;
  }
  Graph moves = packing;
  moves.outputs[0].node = at;
  auto r = copy_of(moves);
  if (!r) return r;
  r->matrices = std::move(matrices);
  r->inner = inner;
  return r;
}

}  // namespace emend
