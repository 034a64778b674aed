#include "synthesize/trials.h"

#include <algorithm>

namespace emend {
namespace {

constexpr int64_t kLargest = 9;  // of sizes

}  // namespace

std::string to_text(const Equation& e, const Trial& t) {
  std::string out;
  for (size_t i = 0; i < t.types.size(); ++i)
    out += str(i ? ", " : "", e.operands[i].name, ": ", shape_text(t.types[i].shape));
  for (const AttrValue& a : t.attrs) out += str(" [", to_text(a), "]");
  return out;
}

Rule as_rule(const Equation& e) {
  Rule r;
  r.name = "candidate";
  r.variables = e.variables;
  return r;
}

TermFacts facts_of(const std::vector<Type>& types) {
  return {.type = [&types](Term t) -> const Type& { return types[t.value]; },
          .constant = [](Term) -> const Tensor* { return nullptr; }};
}

Trier::Trier(const Equation& e, const std::vector<AttrVariable>& attrs, Calculator& calculator,
             Rng& rng)
    : e_(e),
      attrs_(attrs),
      calculator_(calculator),
      rng_(rng),
      rule_(as_rule(e)),
      names_(size_names(e.operands)) {}

std::optional<Trial> Trier::draw(std::optional<std::pair<size_t, size_t>> fixed) {
  Trial t;
  t.base = !fixed && rng_.between(0, 5) == 0;
  auto shapes = draw_shapes(t.base);
  t.substitution.resize(e_.variables.names.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    t.types.push_back(Type::tensor(DType::f64, shapes[i]));
    t.substitution[i] = Term(i);
  }
  for (size_t i = 0; i < attrs_.size(); ++i) {
    const AttrVariable& v = attrs_[i];
    bool other = !t.base && !v.choices.empty() && rng_.between(0, 2) > 0;
    t.attrs.push_back(other ? some_choice(v) : v.own);
    if (fixed && fixed->first == i) t.attrs.back() = v.choices[fixed->second];
    t.substitution[static_cast<size_t>(v.variable)] = t.attrs.back();
  }
  TermFacts facts = facts_of(t.types);
  auto left = plan_of(e_.left, rule_, t.substitution, facts, DType::f64);
  if (!left) return std::nullopt;
  auto right = plan_of(e_.right, rule_, t.substitution, facts, DType::f64);
  if (!right ||
      type_of(*left, left->results[0], facts) != type_of(*right, right->results[0], facts))
    return std::nullopt;
  std::vector<ExactValue> values;
  for (size_t i = 0; i < shapes.size(); ++i) {
    auto v = draw_real_value(e_.operands[i].content, shapes[i], rng_);
    if (!v) return std::nullopt;
    values.push_back(std::move(*v));
  }
  auto l = evaluate(*left, values), r = evaluate(*right, values);
  if (!l || !r || (is_zero(*l) && is_zero(*r))) return std::nullopt;
  Agreement agreement = compare(fingerprint(*l), fingerprint(*r));
  if (agreement == Agreement::unknown) return std::nullopt;
  t.equal = agreement == Agreement::equal && real_agrees(*l, *r);
  return t;
}

// One of the choices; of records also with entries of others.
AttrValue Trier::some_choice(const AttrVariable& v) {
  AttrValue choice = rng_.pick(v.choices);
  const Attrs* record = v.entry.empty() ? choice.as<Attrs>() : nullptr;
  if (!record || rng_.between(0, 1)) return choice;
  Attrs mixed = *record;
  for (const auto& [name, value] : record->entries()) {
    if (rng_.between(0, 1)) mixed = mixed.with(name, *rng_.pick(v.choices).as<Attrs>()->find(name));
  }
  return mixed;
}

// Groups: what filters share with others is there a multiple of what it is in the filters, and
// what only filters have is a multiple, too. Or any size is, in some operands.
std::vector<Dims> Trier::menu_shapes(const SizeTable& sizes, bool base) {
  std::vector<Dims> shapes;
  int64_t how_many = rng_.between(2, 3), whose = base || names_.empty() ? 9 : rng_.between(0, 7);
  SizeTable plain = sizes, filters = sizes;
  if (whose < 2) {
    for (const std::string& name : names_) {
      bool in_filters = occurs(name, true), in_others = occurs(name, false);
      if (in_filters && in_others) plain[name] *= how_many;
      if (in_filters && !in_others) filters[name] *= how_many;
    }
  }
  if (whose == 2) plain[rng_.pick(names_)] *= how_many;
  for (const Input& in : e_.operands) {
    bool other = whose == 2 && rng_.between(0, 1);
    shapes.push_back(shape_of(in, other || in.is_filter() ? filters : plain));
  }
  return shapes;
}

std::vector<Dims> Trier::draw_shapes(bool base) {
  auto how = base ? SizeDraw::different : static_cast<SizeDraw>(rng_.between(0, 2));
  SizeTable sizes = draw_sizes(names_, how, rng_, kLargest);
  std::vector<Dims> shapes = menu_shapes(sizes, base);
  if (base) return shapes;
  used_.assign(1, 1);
  for (const auto& [name, size] : sizes) used_.push_back(size);
  // All at once: another rank.
  int64_t rank = rng_.between(0, 5);
  int64_t front = rng_.between(1, 3);
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (e_.operands[i].is_constant() || shapes[i].empty()) continue;
    if (rank == 0) shapes[i].insert(shapes[i].begin(), front);
    if (rank == 1) shapes[i].erase(shapes[i].begin());
  }
  // One of them: a size of its own, one, or fewer dimensions.
  for (int64_t changes = rng_.between(0, 2); changes > 0; --changes) {
    auto i = static_cast<size_t>(rng_.between(0, static_cast<int64_t>(shapes.size()) - 1));
    if (!e_.operands[i].is_constant()) change(shapes[i], rng_.pick(shapes));
  }
  return shapes;
}

bool Trier::occurs(const std::string& size, bool in_filters) const {
  return std::any_of(e_.operands.begin(), e_.operands.end(), [&](const Input& in) {
    auto names = size_names({in});
    return in.is_filter() == in_filters &&
           std::find(names.begin(), names.end(), size) != names.end();
  });
}

void Trier::change(Dims& shape, const Dims& other) {
  int64_t what = rng_.between(0, 5);
  if (shape.empty() || what == 5) {
    // Something that may broadcast against another operand.
    shape = other;
    for (int64_t& d : shape) {
      if (rng_.between(0, 1)) d = 1;
    }
    return;
  }
  auto d = static_cast<size_t>(rng_.between(0, static_cast<int64_t>(shape.size()) - 1));
  if (what <= 1) shape[d] = 1;
  if (what == 2) shape[d] = rng_.pick(used_);
  if (what == 3) shape.erase(shape.begin());
  if (what == 4) {
    for (size_t k = shape.size() > 2 ? 2 : 0; k < shape.size(); ++k) shape[k] = 1;
  }
}

std::optional<ExactValue> Trier::evaluate(const RightSide& plan,
                                          const std::vector<ExactValue>& values) {
  std::vector<ExactValue> steps;
  steps.reserve(plan.steps.size());
  auto at = [&](RightSide::Ref r) -> const ExactValue* {
    return r.from == RightSide::Ref::From::matched ? &values[r.index] : &steps[r.index];
  };
  for (const RightSide::Step& step : plan.steps) {
    std::vector<const ExactValue*> args;
    for (RightSide::Ref r : step.args) args.push_back(at(r));
    auto v = calculator_.apply(step.op, step.attrs, args);
    if (!v) return std::nullopt;
    steps.push_back(std::move(*v));
  }
  return *at(plan.results[0]);
}

}  // namespace emend
