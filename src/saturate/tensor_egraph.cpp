#include "saturate/tensor_egraph.h"

#include <algorithm>
#include <unordered_set>

#include "ops/build.h"
#include "ops/table.h"

namespace emend {
namespace {

// Values of so many elements are worth knowing: numbers that patterns ask for, and their like.
constexpr int64_t kSmall = 16;

template <class T, class Equal>
uint32_t interned(std::vector<T>& items, std::unordered_map<uint64_t, std::vector<uint32_t>>& ids,
                  uint64_t hash, const T& item, const Equal& equal) {
  std::vector<uint32_t>& alike = ids[hash];
  for (uint32_t id : alike) {
    if (equal(items[id], item)) return id;
  }
  alike.push_back(static_cast<uint32_t>(items.size()));
  items.push_back(item);
  return alike.back();
}

uint64_t hash_of(const Type& t) {
  uint64_t h = hash_mix(static_cast<uint64_t>(t.kind), static_cast<uint64_t>(t.dtype));
  for (int64_t d : t.shape) h = hash_mix(h, static_cast<uint64_t>(d));
  for (const Type& item : t.items) h = hash_mix(h, hash_of(item));
  return h;
}

Attrs place(size_t index) {
  return Attrs({{"index", static_cast<int64_t>(index)}});
}

}  // namespace

TensorEGraph::TensorEGraph(const Graph& g)
    : engine_({.make = [this](EGraph&, ENodeId n) { make(n); },
               .merge = [this](EGraph&, ClassId kept, ClassId gone) { merge(kept, gone); }}),
      inputs_(g.inputs),
      outputs_(g.outputs) {
  for (size_t op = 0; op < all_ops().size(); ++op) {
    if (all_ops()[op].has(commutative)) engine_.set_commutative(static_cast<uint32_t>(op));
  }
  IdVec<NodeId, ClassId> made(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    if (g.is_constant(id)) {
      made[id] = add_constant(g.constant(id));
      names_.try_emplace(made[id].value, g.names[id]);
      continue;
    }
    std::vector<ClassId> operands;
    for (NodeId a : n.args) operands.push_back(made[a]);
    made[id] = add(n.op, n.attrs, operands, g.types[id]);
    names_.try_emplace(made[id].value, g.names[id]);
  }
  for (const GraphInput& i : g.inputs) input_types_.push_back(g.types[i.node]);
  for (const GraphOutput& o : g.outputs) roots_.push_back(made[o.node]);
}

uint32_t TensorEGraph::id_of(Attrs attrs) {
  return interned(attrs_, attr_ids_, attrs.hash(), attrs, std::equal_to<>());
}

uint32_t TensorEGraph::id_of(const Type& type) {
  return interned(types_, type_ids_, hash_of(type), type, std::equal_to<>());
}

ClassId TensorEGraph::add(OpId op, Attrs attrs, std::span<const ClassId> operands,
                          const Type& type) {
  pending_type_ = id_of(type);
  uint32_t attr = id_of(attrs);
  if (op_def(op).kind == Kind::opaque) {  // equal nodes need not have equal values
    attr = static_cast<uint32_t>(attrs_.size());
    attrs_.push_back(attrs);
  }
  return engine_.add(op.value, attr, operands);
}

ClassId TensorEGraph::add_constant(const Tensor& value) {
  Tensor one = index_.canonical(value);
  size_t at = constants_.size();
  if (one.dtype() != DType::string && one.count() > 0) {
    uint64_t key = hash_mix(reinterpret_cast<uintptr_t>(one.data()), hash_of(one.type()));
    for (uint32_t other : constant_ids_[key]) {
      if (constants_[other].data() == one.data() && constants_[other].type() == one.type())
        at = other;
    }
    if (at == constants_.size()) constant_ids_[key].push_back(static_cast<uint32_t>(at));
  }
  if (at == constants_.size()) {
    constants_.push_back(one);
    constant_scales_.push_back(is_float(one.dtype()) ? id_of(scale_of(one)) : -1);
  }
  return add(kConstantOp, place(at), {}, one.type());
}

TensorEGraph::Recipe TensorEGraph::recipe_of(const RightSide& side) {
  Recipe out;
  for (const RightSide::Step& s : side.steps)
    out.steps.push_back({s.op.value, id_of(s.attrs), id_of(s.type), s.args});
  out.constants = side.constants;
  out.results = side.results;
  return out;
}

std::vector<ClassId> TensorEGraph::add(const Recipe& recipe, std::span<const ClassId> matched) {
  SmallVec<ClassId, 16> made, operands, constants;
  for (const Tensor& t : recipe.constants) constants.push_back(add_constant(t));
  auto term = [&](RightSide::Ref r) {
    if (r.from == RightSide::Ref::From::step) return made[r.index];
    if (r.from == RightSide::Ref::From::constant) return constants[r.index];
    return matched[r.index];
  };
  for (const Recipe::Step& step : recipe.steps) {
    operands = {};
    for (RightSide::Ref r : step.operands) {
      operands.push_back(term(r));
      if (!operands[operands.size() - 1].valid()) return {};
    }
    pending_type_ = step.type;
    made.push_back(engine_.add(step.op, step.attr, std::span<const ClassId>(operands)));
    if (!made[made.size() - 1].valid()) return {};
  }
  std::vector<ClassId> results;
  for (RightSide::Ref r : recipe.results) {
    results.push_back(term(r));
    if (!results.back().valid()) return {};
  }
  return results;
}

PricedNode TensorEGraph::priced(ENodeId id) const {
  const ENode node = engine_.node(id);
  PricedNode n{.op = OpId(size_t{node.op}), .attrs = attrs(node.attr)};
  n.result = type(engine_.find(ClassId(size_t{id.value})));
  for (ClassId child : node.children) {
    n.operands.push_back(type(engine_.find(child)));
    n.weights.push_back(weight_only(engine_.find(child)));
  }
  return n;
}

// --- What is known of classes

int32_t TensorEGraph::id_of(const Scale& scale) {
  std::vector<int32_t>& alike = scale_ids_[{scale.least, scale.most}];
  for (int32_t id : alike) {
    if (scales_[static_cast<size_t>(id)] == scale) return id;
  }
  alike.push_back(static_cast<int32_t>(scales_.size()));
  scales_.push_back(scale);
  return alike.back();
}

int32_t TensorEGraph::scale_of_node(const ENode& node, const Type& result) {
  std::vector<Magnitude> operands;
  std::vector<Type> types;
  for (ClassId child : node.children) {
    auto known = scale(child);
    operands.push_back(known ? Magnitude::of_constant(*known) : Magnitude::unknown_constant());
    types.push_back(type(engine_.find(child)));
  }
  Made made = made_by(op_def(OpId(size_t{node.op})), attrs_[node.attr], operands, types, result);
  return made.value.ahead && made.value.known() ? id_of(made.value.parts[0].scale) : -1;
}

TensorEGraph::ClassFacts TensorEGraph::facts_of_node(ENodeId n) {
  ENode node = engine_.node(n);
  OpId op{size_t{node.op}};
  ClassFacts f;
  if (op == kConstantOp) {
    f.constant = static_cast<int32_t>(attrs_[node.attr].get<int64_t>("index"));
    f.weight_only = true;
    f.scale = constant_scales_[static_cast<size_t>(f.constant)];
  } else if (op != kInputOp && is_determined(op_def(op), attrs_[node.attr])) {
    f.weight_only = std::ranges::all_of(
        node.children, [&](ClassId c) { return facts_[engine_.find(c).value].weight_only; });
  }
  return f;
}

void TensorEGraph::make(ENodeId n) {
  ClassFacts known = facts_of_node(n);
  if (n.value >= facts_.size()) facts_.resize(n.value + size_t{1});
  ClassId c = engine_.find(n);
  ClassFacts& f = facts_[c.value];
  if (c == n && fresh_ <= n.value) {
    fresh_ = n.value + 1;
    known.type = pending_type_;
    if (known.weight_only && known.constant < 0)
      known.scale = scale_of_node(engine_.node(n), types_[pending_type_]);
    facts_[c.value] = known;
  } else if (known.weight_only && !f.weight_only) {
    f.weight_only = true;
    f.scale = known.constant < 0 ? scale_of_node(engine_.node(n), types_[f.type]) : known.scale;
    engine_.touch(c);
  }
  if (f.constant < 0 && f.weight_only && types_[f.type].is_tensor() &&
      count(types_[f.type].shape) <= kSmall)
    foldable_.push_back(n);
}

void TensorEGraph::merge(ClassId kept, ClassId gone) {
  ClassFacts &a = facts_[kept.value], &b = facts_[gone.value];
  EMEND_ASSERT(a.type == b.type, "classes of different types became one: ", to_text(types_[a.type]),
               " and ", to_text(types_[b.type]));
  bool news = (a.constant < 0) != (b.constant < 0) || a.weight_only != b.weight_only ||
              (a.scale < 0) != (b.scale < 0);
  if (a.scale < 0 || (a.constant < 0 && b.constant >= 0)) a.scale = b.scale;
  if (a.constant < 0) a.constant = b.constant;
  a.weight_only |= b.weight_only;
  if (news) engine_.touch(kept);
}

TensorEGraph::Known TensorEGraph::known(ClassId c) const {
  const ClassFacts& f = facts_[engine_.find(c).value];
  return {f.type, static_cast<uint32_t>(f.constant), f.weight_only, static_cast<uint32_t>(f.scale)};
}

std::optional<Scale> TensorEGraph::scale(ClassId c) const {
  int32_t at = facts_[engine_.find(c).value].scale;
  return at < 0 ? std::nullopt : std::optional(scales_[static_cast<size_t>(at)]);
}

const Tensor* TensorEGraph::constant(ClassId c) const {
  int32_t at = facts_[engine_.find(c).value].constant;
  return at < 0 ? nullptr : &constants_[static_cast<size_t>(at)];
}

bool TensorEGraph::fold() {
  bool any = false;
  std::vector<ENodeId> nodes = std::exchange(foldable_, {});
  for (ENodeId n : nodes) {
    ENode node = engine_.node(n);
    const OpDef& def = op_def(OpId(size_t{node.op}));
    if (!is_foldable(def, attrs_[node.attr]) || node.children.empty() || constant(n)) continue;
    std::vector<Tensor> operands;
    for (ClassId c : node.children) {
      const Tensor* value = constant(c);
      if (value && value->count() <= kSmall) operands.push_back(*value);
    }
    if (operands.size() != node.children.size()) continue;
    auto value = folded(def, attrs_[node.attr], operands, type(engine_.find(n)));
    if (!value) continue;
    ClassId known = add_constant(*value);
    if (!known.valid()) break;
    any |= engine_.unite(n, known);
  }
  return any;
}

// --- Programs

std::vector<ClassId> TensorEGraph::roots() const {
  std::vector<ClassId> out;
  for (ClassId c : roots_) out.push_back(engine_.find(c));
  return out;
}

std::vector<uint32_t> TensorEGraph::depths() const {
  constexpr uint32_t kUnknown = UINT32_MAX;
  std::vector<uint32_t> depth(engine_.ids(), kUnknown);
  // Terms of one depth after the other: a node is looked at when its last child is known.
  std::vector<uint32_t> missing(engine_.ids(), 0);
  std::vector<ClassId> now, next;
  auto reach = [&](ENodeId n, uint32_t d, std::vector<ClassId>& reached) {
    ClassId c = engine_.find(n);
    if (depth[c.value] != kUnknown) return;
    depth[c.value] = d;
    reached.push_back(c);
  };
  std::vector<std::vector<ENodeId>> users(engine_.ids());
  for (size_t i = 0; i < engine_.ids(); ++i) {
    ENodeId n{i};
    if (!engine_.alive(n)) continue;
    for (ClassId child : engine_.node(n).children) {
      std::vector<ENodeId>& of = users[engine_.find(child).value];
      if (!of.empty() && of.back() == n) continue;
      of.push_back(n);
      ++missing[i];
    }
    if (missing[i] == 0) reach(n, 0, now);
  }
  for (uint32_t d = 1; !now.empty(); ++d) {
    next.clear();
    for (ClassId c : now) {
      for (ENodeId n : users[c.value]) {
        if (--missing[n.value] == 0) reach(n, d, next);
      }
    }
    std::swap(now, next);
  }
  return depth;
}

Vocabulary TensorEGraph::vocabulary() const {
  Vocabulary all;
  for (size_t i = 0; i < engine_.ids(); ++i) {
    ENodeId n{i};
    if (!engine_.alive(n) || weight_only(engine_.find(n))) continue;
    ENode node = engine_.node(n);
    all[OpId(size_t{node.op})].insert(node.children.size());
  }
  return all;
}

Graph TensorEGraph::graph_of(const std::function<ENodeId(ClassId)>& chosen) const {
  GraphBuilder b;
  std::unordered_map<uint32_t, NodeId> made;
  std::unordered_map<int64_t, NodeId> inputs;
  for (const GraphInput& i : inputs_) {
    auto index = static_cast<int64_t>(inputs.size());
    inputs[index] = b.input(i.name, input_types_[static_cast<size_t>(index)], i.donated);
  }
  auto build = [&](ClassId c) {
    ENodeId n = chosen(c);
    ENode node = engine_.node(n);
    Attrs attrs = attrs_[node.attr];
    OpId op{size_t{node.op}};
    if (op == kInputOp) return inputs.at(attrs.get<int64_t>("index"));
    auto name = names_.find(n.value);
    b.set_origin(name == names_.end() ? "" : name->second);
    if (op == kConstantOp)
      return b.constant(constants_[static_cast<size_t>(attrs.get<int64_t>("index"))]);
    std::vector<NodeId> args;
    for (ClassId child : node.children) args.push_back(made.at(engine_.find(child).value));
    return b.try_op(op, args, attrs).value_or_throw();
  };
  // Depth first, without recursion: models are deep.
  std::vector<ClassId> open;
  std::unordered_set<uint32_t> entered;
  for (ClassId root : roots()) {
    open.push_back(root);
    while (!open.empty()) {
      ClassId c = open.back();
      if (made.count(c.value)) {
        open.pop_back();
        continue;
      }
      entered.insert(c.value);
      size_t before = open.size();
      ENode node = engine_.node(chosen(c));
      for (size_t i = node.children.size(); i-- > 0;) {
        ClassId child = engine_.find(node.children[i]);
        if (made.count(child.value)) continue;
        EMEND_ASSERT(!entered.count(child.value), "what was chosen has a cycle");
        open.push_back(child);
      }
      if (open.size() > before) continue;
      made.emplace(c.value, build(c));
      open.pop_back();
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i)
    b.output(outputs_[i].name, made.at(engine_.find(roots_[i]).value));
  return std::move(b).build();
}

}  // namespace emend
