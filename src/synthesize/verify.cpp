#include "synthesize/verify.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "ops/build.h"
#include "ops/table.h"
#include "rules/instance.h"

namespace emend {
namespace {

// --- Attributes in general ---

Attrs literal_attrs(const Pattern& p) {
  Attrs attrs;
  for (const auto& [name, e] : p.attrs) attrs = attrs.with(name, e.literal);
  return complete_attrs(op_def(p.op), attrs).value_or_throw();
}

bool is_literal(const Pattern& p) {
  return std::all_of(p.attrs.begin(), p.attrs.end(),
                     [](const auto& a) { return a.second.kind == AttrExpr::Kind::literal; });
}

void for_each_node(Pattern& p, const std::function<void(Pattern&)>& visit) {
  if (p.kind == Pattern::Kind::node) visit(p);
  for (Pattern& a : p.args) for_each_node(a, visit);
}

// Attributes that stand on both sides, as a variable: the whole record of an operator, or entries
// of one name and value, be it of several operators.
struct AttrVariable {
  int variable = -1;
  OpId op;            // whose record it is
  std::string entry;  // or which entry
  AttrValue own;      // as it was found
  std::vector<AttrValue> choices;
};

class Generaliser {
 public:
  Generaliser(Equation& e, const Alternatives& alternatives) : e_(e), alternatives_(alternatives) {}

  std::vector<AttrVariable> run() {
    std::vector<AttrVariable> out;
    auto left = literal_nodes(e_.left);
    for (const Pattern& n : left) {
      Attrs record = literal_attrs(n);
      if (op_def(n.op).attrs.size() == 1 || !occurs(e_.right, n.op, record)) continue;
      if (occurs(e_.left, n.op, record)) out.push_back(take_record(n.op, record, out.size()));
    }
    for (const Pattern& n : left) {
      for (const auto& [name, x] : n.attrs) {
        if (n.op == kGetOp || !occurs(e_.left, name, x.literal) ||
            !occurs(e_.right, name, x.literal))
          continue;
        out.push_back(take_entry(name, x.literal, out.size()));
      }
    }
    return out;
  }

 private:
  static std::vector<Pattern> literal_nodes(Pattern& side) {
    std::vector<Pattern> out;
    for_each_node(side, [&](Pattern& n) {
      if (!n.attrs.empty() && is_literal(n)) out.push_back(n);
    });
    return out;
  }

  static bool has(const Pattern& n, OpId op, Attrs record) {
    return n.op == op && !n.attrs.empty() && is_literal(n) && literal_attrs(n) == record;
  }
  // The item of a tuple is no free choice: it goes with the sizes.
  static bool has(const Pattern& n, const std::string& name, const AttrValue& value) {
    return n.op != kGetOp && std::any_of(n.attrs.begin(), n.attrs.end(), [&](const auto& a) {
             return a.first == name && a.second.kind == AttrExpr::Kind::literal &&
                    a.second.literal == value;
           });
  }
  template <class... What>
  static bool occurs(Pattern& side, const What&... what) {
    bool found = false;
    for_each_node(side, [&](Pattern& n) { found = found || has(n, what...); });
    return found;
  }

  AttrVariable take_record(OpId op, Attrs record, size_t number) {
    AttrVariable v{e_.variables.index(str("a", number)), op, {}, record, {}};
    if (auto it = alternatives_.find(op); it != alternatives_.end())
      v.choices.assign(it->second.begin(), it->second.end());
    for (Pattern* side : {&e_.left, &e_.right}) {
      for_each_node(*side, [&](Pattern& n) {
        if (!has(n, op, record)) return;
        n.attrs.clear();
        n.whole = v.variable;
      });
    }
    return v;
  }

  AttrVariable take_entry(const std::string& name, const AttrValue& value, size_t number) {
    AttrVariable v{e_.variables.index(str(name, number)), {}, name, value, {}};
    for (Pattern* side : {&e_.left, &e_.right}) {
      for_each_node(*side, [&](Pattern& n) {
        if (!has(n, name, value)) return;
        for (auto& [entry, x] : n.attrs) {
          if (entry != name || x.kind != AttrExpr::Kind::literal) continue;
          x = {};
          x.kind = AttrExpr::Kind::variable;
          x.variable = v.variable;
        }
        if (auto it = alternatives_.find(n.op); it != alternatives_.end()) {
          for (Attrs record : it->second) v.choices.push_back(*record.find(name));
        }
      });
    }
    return v;
  }

  Equation& e_;
  const Alternatives& alternatives_;
};

// --- Trials ---

struct Trial {
  std::vector<Type> types;  // per operand
  Substitution substitution;
  std::vector<AttrValue> attrs;  // per attribute variable
  bool base = false;             // shapes and attributes as the menu has them
  bool equal = false;
};

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

class Trier {
 public:
  Trier(const Equation& e, const std::vector<AttrVariable>& attrs, Calculator& calculator, Rng& rng)
      : e_(e),
        attrs_(attrs),
        calculator_(calculator),
        rng_(rng),
        rule_(as_rule(e)),
        names_(size_names(e.operands)) {}

  // nullopt where a side is illegal, where the sides have other types, or where they are zero. With
  // `fixed` attribute variables take that choice: (which variable, which choice).
  std::optional<Trial> draw(std::optional<std::pair<size_t, size_t>> fixed = std::nullopt) {
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

 private:
  // One of the choices; of records also with entries of others.
  AttrValue some_choice(const AttrVariable& v) {
    AttrValue choice = rng_.pick(v.choices);
    const Attrs* record = v.entry.empty() ? choice.as<Attrs>() : nullptr;
    if (!record || rng_.between(0, 1)) return choice;
    Attrs mixed = *record;
    for (const auto& [name, value] : record->entries()) {
      if (rng_.between(0, 1))
        mixed = mixed.with(name, *rng_.pick(v.choices).as<Attrs>()->find(name));
    }
    return mixed;
  }

  std::vector<Dims> draw_shapes(bool base) {
    auto how = base ? SizeDraw::different : static_cast<SizeDraw>(rng_.between(0, 2));
    Sizes sizes = draw_sizes(names_, how, rng_, kLargest);
    std::vector<Dims> shapes;
    // Groups: what filters share with others is there a multiple of what it is in the filters, and
    // what only filters have is a multiple, too. Or any size is, in some operands.
    int64_t how_many = rng_.between(2, 3), whose = base || names_.empty() ? 9 : rng_.between(0, 7);
    Sizes plain = sizes, filters = sizes;
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

  bool occurs(const std::string& size, bool in_filters) const {
    return std::any_of(e_.operands.begin(), e_.operands.end(), [&](const Input& in) {
      auto names = size_names({in});
      return in.is_filter() == in_filters &&
             std::find(names.begin(), names.end(), size) != names.end();
    });
  }

  void change(Dims& shape, const Dims& other) {
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

  std::optional<ExactValue> evaluate(const RightSide& plan, const std::vector<ExactValue>& values) {
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

  static constexpr int64_t kLargest = 9;
  const Equation& e_;
  const std::vector<AttrVariable>& attrs_;
  Calculator& calculator_;
  Rng& rng_;
  Rule rule_;
  std::vector<std::string> names_;
  Dims used_;
};

// --- Conditions ---

// A conjunct: a guard, or an attribute that keeps the value it was found with.
struct Atom {
  AttrExpr guard;
  int attr = -1;     // which attribute variable
  std::string name;  // of the entry, if that is a record
};

bool is_true(const Atom& a, const Equation& e, const std::vector<AttrVariable>& attrs,
             const Trial& t) {
  if (a.attr >= 0) {
    auto i = static_cast<size_t>(a.attr);
    if (a.name.empty()) return t.attrs[i] == attrs[i].own;
    return *t.attrs[i].as<Attrs>()->find(a.name) == *attrs[i].own.as<Attrs>()->find(a.name);
  }
  auto v = value_of(a.guard, as_rule(e), t.substitution, facts_of(t.types));
  return v && v->as<bool>() && *v->as<bool>();
}

// What conditions may say, simplest first.
std::vector<Atom> vocabulary(const Equation& e, const std::vector<AttrVariable>& attrs) {
  std::vector<Atom> out;
  Variables v = e.variables;
  auto add = [&](const std::string& guard) { out.push_back({parse_expr(guard, v)}); };
  for (size_t i = 0; i < attrs.size(); ++i) {
    auto number = static_cast<int>(i);
    if (!attrs[i].entry.empty()) out.push_back({{}, number, {}});
    if (const Attrs* record = attrs[i].own.as<Attrs>(); record && attrs[i].entry.empty()) {
      for (const auto& [name, value] : record->entries()) out.push_back({{}, number, name});
    }
  }
  for (size_t i = 0; i < attrs.size(); ++i) {
    for (size_t j = i + 1; j < attrs.size(); ++j) {
      if (attrs[i].entry == "axis" && attrs[j].entry == "axis")
        add(str("(different_axes ?", v.names[static_cast<size_t>(attrs[i].variable)], " ?",
                v.names[static_cast<size_t>(attrs[j].variable)], " ?", e.operands[0].name, ")"));
    }
  }
  std::string all;
  for (const Input& in : e.operands) all += " ?" + in.name;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    const Input& x = e.operands[i];
    add(str("(single ?", x.name, ")"));
    for (size_t j = i + 1; j < e.operands.size(); ++j)
      add(str("(same_shape ?", x.name, " ?", e.operands[j].name, ")"));
  }
  if (e.operands.size() > 2) add("(same_shape" + all + ")");
  for (const Input& x : e.operands) add(str("(has_rank ?", x.name, " ", x.extents.size(), ")"));
  for (size_t i = 0; i < e.operands.size(); ++i) {
    for (size_t j = i; j < e.operands.size(); ++j) {
      for (size_t k = 0; k < e.operands[i].extents.size(); ++k) {
        for (size_t l = 0; l < e.operands[j].extents.size(); ++l) {
          if ((i == j && k >= l) || e.operands[i].extents[k] != e.operands[j].extents[l]) continue;
          add(str("(equal (dim ?", e.operands[i].name, " ", k, ") (dim ?", e.operands[j].name, " ",
                  l, "))"));
        }
      }
    }
  }
  return out;
}

class Separator {
 public:
  Separator(const Equation& e, const std::vector<AttrVariable>& attrs,
            const std::vector<Trial>& trials, int conjuncts)
      : trials_(trials), conjuncts_(static_cast<size_t>(conjuncts)) {
    for (Atom& a : vocabulary(e, attrs)) {
      std::vector<bool> row;
      bool possible = true, useful = false;
      for (const Trial& t : trials) {
        row.push_back(is_true(a, e, attrs, t));
        possible = possible && (row.back() || !t.base);
        useful = useful || (!row.back() && !t.equal);
      }
      if (!possible || !useful) continue;
      atoms_.push_back(std::move(a));
      rows_.push_back(std::move(row));
    }
  }

  // nullopt where no conjunction of so many keeps every failure out.
  std::optional<std::vector<Atom>> separate() {
    for (size_t n = 0; n <= conjuncts_; ++n) {
      best_passes_ = 0;
      search(0, n, std::vector<bool>(trials_.size(), true));
      if (best_passes_ > 0) {
        std::vector<Atom> out;
        for (size_t i : best_) out.push_back(atoms_[i]);
        return out;
      }
    }
    return std::nullopt;
  }

 private:
  void search(size_t from, size_t more, const std::vector<bool>& kept) {
    if (more == 0) {
      int passes = 0;
      for (size_t t = 0; t < trials_.size(); ++t) {
        if (kept[t] && !trials_[t].equal) return;
        passes += kept[t];
      }
      // Single sizes fit what was seen too well: they must keep more than what says as much in
      // general.
      for (size_t i : chosen_) passes -= atoms_[i].guard.function == "equal" ? passes / 3 : 0;
      if (passes > best_passes_) {
        best_passes_ = passes;
        best_ = chosen_;
      }
      return;
    }
    for (size_t i = from; i < atoms_.size(); ++i) {
      std::vector<bool> rest(kept.size());
      for (size_t t = 0; t < kept.size(); ++t) rest[t] = kept[t] && rows_[i][t];
      chosen_.push_back(i);
      search(i + 1, more - 1, rest);
      chosen_.pop_back();
    }
  }

  const std::vector<Trial>& trials_;
  size_t conjuncts_;
  std::vector<Atom> atoms_;
  std::vector<std::vector<bool>> rows_;
  std::vector<size_t> best_, chosen_;
  int best_passes_ = 0;
};

// The condition becomes part of the equation: guards, and attributes that are literal again.
void restrict(Equation& e, const std::vector<AttrVariable>& attrs, const std::vector<Atom>& atoms) {
  for (const Atom& a : atoms) {
    if (a.attr < 0) {
      e.where.push_back(a.guard);
      continue;
    }
    const AttrVariable& v = attrs[static_cast<size_t>(a.attr)];
    AttrExpr kept;
    kept.literal = a.name.empty() ? v.own : *v.own.as<Attrs>()->find(a.name);
    for (Pattern* side : {&e.left, &e.right}) {
      for_each_node(*side, [&](Pattern& n) {
        if (n.whole == v.variable) n.attrs.emplace_back(a.name, kept);
        for (auto& [name, x] : n.attrs) {
          if (x.kind == AttrExpr::Kind::variable && x.variable == v.variable) x = kept;
        }
      });
    }
  }
}

std::string shapes_text(const Equation& e, const Trial& t) {
  std::string out;
  for (size_t i = 0; i < t.types.size(); ++i)
    out += str(i ? ", " : "", e.operands[i].name, ": ", shape_text(t.types[i].shape));
  for (const AttrValue& a : t.attrs) out += str(" [", to_text(a), "]");
  return out;
}

class Verifier {
 public:
  Verifier(const Equation& e, const Alternatives& alternatives, const VerifyOptions& options,
           Calculator& calculator)
      : alternatives_(alternatives),
        options_(options),
        calculator_(calculator),
        rng_(options.seed, hash_text(to_text(e))) {
    result_.equation = e;
  }

  // With attributes in general if that can be, otherwise with those that it was found with.
  Verified verify() {
    const Equation found = result_.equation;
    attrs_ = Generaliser(result_.equation, alternatives_).run();
    if (settle() || attrs_.empty() || false_at_base_) return result_;
    attrs_.clear();
    result_.equation = found;
    settle();
    return result_;
  }

 private:
  // Rounds of trials until a condition survives one.
  bool settle() {
    trials_.clear();
    result_.passed = result_.failed = 0;
    std::vector<Atom> atoms;
    int clean = 0;
    for (int round = 0; round < options_.rounds; ++round) {
      size_t fresh = trials_.size();
      if (!collect()) return false;
      if (round > 0 && survive(atoms, fresh)) {
        if (++clean < 2) continue;
        restrict(result_.equation, attrs_, atoms);
        result_.holds = true;
        result_.reason.clear();
        return true;
      }
      clean = 0;
      auto condition = Separator(result_.equation, attrs_, trials_, options_.conjuncts).separate();
      if (!condition) {
        result_.reason = trials_.empty() ? "legal nowhere" : witness();
        return false;
      }
      atoms = std::move(*condition);
      if (!enough(atoms)) return false;
    }
    result_.reason = "no condition keeps every failure out";
    return false;
  }

  // False where the sides differ even as the menu has them.
  bool collect() {
    Trier trier(result_.equation, attrs_, calculator_, rng_);
    size_t wanted = trials_.size() + static_cast<size_t>(options_.trials);
    for (int i = 0; i < options_.draws && trials_.size() < wanted && !false_at_base_; ++i) {
      if (auto t = trier.draw()) note(std::move(*t));
    }
    // Every choice of attributes, also those for which few shapes are legal.
    for (size_t v = 0; v < attrs_.size(); ++v) {
      for (size_t c = 0; c < attrs_[v].choices.size(); ++c) {
        size_t enough = trials_.size() + static_cast<size_t>(options_.trials_per_choice);
        for (int i = 0; i < options_.draws_per_choice && trials_.size() < enough; ++i) {
          if (auto t = trier.draw(std::pair(v, c))) note(std::move(*t));
        }
      }
    }
    if (false_at_base_) result_.reason = witness();
    return !false_at_base_;
  }

  void note(Trial t) {
    false_at_base_ = false_at_base_ || (t.base && !t.equal);
    (t.equal ? result_.passed : result_.failed) += 1;
    trials_.push_back(std::move(t));
  }

  bool kept(const std::vector<Atom>& atoms, const Trial& t) const {
    return std::all_of(atoms.begin(), atoms.end(),
                       [&](const Atom& a) { return is_true(a, result_.equation, attrs_, t); });
  }

  // No trial from `fresh` on fails where the condition holds.
  bool survive(const std::vector<Atom>& atoms, size_t fresh) const {
    return std::all_of(trials_.begin() + static_cast<ptrdiff_t>(fresh), trials_.end(),
                       [&](const Trial& t) { return t.equal || !kept(atoms, t); });
  }

  std::string witness() const {
    auto it = std::find_if(trials_.begin(), trials_.end(), [](auto& t) { return !t.equal; });
    return "the sides differ at " + shapes_text(result_.equation, *it);
  }

  bool enough(const std::vector<Atom>& atoms) {
    std::set<std::string> shapes;
    for (const Trial& t : trials_) {
      if (t.equal && kept(atoms, t)) shapes.insert(shapes_text(result_.equation, t));
    }
    if (static_cast<int>(shapes.size()) >= options_.passes) return true;
    result_.reason = str("only ", shapes.size(), " different shapes on which it holds");
    return false;
  }

  const Alternatives& alternatives_;
  const VerifyOptions& options_;
  Calculator& calculator_;
  Rng rng_;
  Verified result_;
  std::vector<AttrVariable> attrs_;
  std::vector<Trial> trials_;
  bool false_at_base_ = false;
};

}  // namespace

Alternatives alternatives_of(const std::vector<std::string>& operations) {
  Alternatives out;
  for (const std::string& text : operations) {
    Variables variables;
    Pattern p = parse_pattern(text, variables);
    for_each_node(p, [&](Pattern& n) {
      if (n.attrs.empty() || !is_literal(n)) return;
      auto& records = out[n.op];
      Attrs a = literal_attrs(n);
      if (std::find(records.begin(), records.end(), a) == records.end()) records.push_back(a);
    });
  }
  return out;
}

Verified verify(const Equation& e, const Alternatives& alternatives, const VerifyOptions& options,
                Calculator& calculator) {
  return Verifier(e, alternatives, options, calculator).verify();
}

}  // namespace emend
