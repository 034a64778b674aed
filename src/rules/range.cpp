// Whether a rewriting keeps numbers inside of their types' ranges.
#include <algorithm>
#include <map>

#include "ops/table.h"
#include "rules/instance.h"

namespace emend {
namespace {

// How much larger and smaller than before values on the way may get, as powers of two. Types of
// few exponents have no room above: their programs are written close to it.
struct Room {
  double above, below;
};
Room room_in(DType t) {
  constexpr double kWide = 200, kNarrow = 20;
  const Scale normal = normal_numbers(t);
  const double range = normal.most - normal.least;
  if (range > kWide) return {16, 16};
  return range > kNarrow ? Room{0, 4} : Room{0, 0};
}

bool lies_within(const Scale& s, double least, double most) {
  constexpr double kRounding = 1e-3;
  return s.empty() || (s.least >= least - kRounding && s.most <= most + kRounding);
}

Scale hull(const Scale& a, const Scale& b) {
  return {std::min(a.least, b.least), std::max(a.most, b.most)};
}

Magnitude of_term(Term t, const TermFacts& facts) {
  const Tensor* value = facts.constant ? facts.constant(t) : nullptr;
  if (!value && (!facts.weight_only || !facts.weight_only(t))) return Magnitude::of_value(t.value);
  std::optional<Scale> scale;
  if (facts.scale) {
    scale = facts.scale(t);
  } else if (value) {
    scale = scale_of(*value);
  }
  return scale ? Magnitude::of_constant(*scale) : Magnitude::unknown_constant();
}

// One side of a rule: how large everything on it is.
class Side {
 public:
  Side(const RightSide& plan, const TermFacts& facts) : plan_(plan), facts_(facts) {
    for (const RightSide::Step& step : plan.steps) {
      std::vector<Magnitude> operands;
      std::vector<Type> types;
      for (RightSide::Ref r : step.args) {
        operands.push_back(of(r));
        types.push_back(type_of(plan, r, facts));
      }
      made_.push_back(made_by(op_def(step.op), step.attrs, operands, types, step.type));
      strange_.push_back(
          std::ranges::any_of(operands, [](const Magnitude& m) { return m.ahead && !m.known(); }));
    }
  }

  Magnitude of(RightSide::Ref r) const {
    if (r.from == RightSide::Ref::From::step) return made_[r.index].value;
    if (r.from == RightSide::Ref::From::constant)
      return Magnitude::of_constant(scale_of(plan_.constants[r.index]));
    return of_term(Term(r.index), facts_);
  }

  const Made& made(size_t step) const { return made_[step]; }
  // An operand is computed beforehand, and nothing is known of how large it is.
  bool strange(size_t step) const { return strange_[step]; }

 private:
  const RightSide& plan_;
  const TermFacts& facts_;
  std::vector<Made> made_;
  std::vector<bool> strange_;
};

// The scales of everything on a side, by what unknown values are in it.
class Seen {
 public:
  void add(const Magnitude& m) {
    for (const Magnitude::Part& p : m.parts) {
      auto [it, fresh] = by_atoms_.try_emplace(p.atoms, p.scale);
      if (!fresh) it->second = hull(it->second, p.scale);
      all_ = hull(all_, p.scale);
    }
  }
  // Values of which none was there before are as large as factors and one another make them.
  Scale of(const Magnitude::Atoms& atoms) const {
    auto it = by_atoms_.find(atoms);
    return it == by_atoms_.end() ? all_ : it->second;
  }

 private:
  std::map<Magnitude::Atoms, Scale> by_atoms_;
  Scale all_{0, 0};
};

DType dtype_of(const Type& t) {
  return t.is_tensor() || t.items.empty() ? t.dtype : t.items[0].dtype;
}

// Only numbers that are known have scales to move.
bool has_weights(const RightSide& side, const TermFacts& facts) {
  return !side.constants.empty() || std::ranges::any_of(side.steps, [&](const RightSide::Step& s) {
    return std::ranges::any_of(s.args, [&](RightSide::Ref r) {
      return r.from == RightSide::Ref::From::matched && of_term(Term(r.index), facts).ahead;
    });
  });
}

// Everything that is there before or is matched.
Seen seen_in(const RightSide& before, const Side& left, const RightSide& after, const Side& right) {
  Seen seen;
  auto leaves = [&](const RightSide& plan, const Side& side) {
    for (const RightSide::Step& s : plan.steps) {
      for (RightSide::Ref r : s.args) {
        if (r.from != RightSide::Ref::From::step) seen.add(side.of(r));
      }
    }
  };
  leaves(before, left);
  leaves(after, right);
  for (size_t i = 0; i < before.steps.size(); ++i) seen.add(left.made(i).value);
  return seen;
}

// What a step computes beforehand.
Result<bool> stays_normal(const Made& made, bool strange, const std::string& name, DType t) {
  if (!made.multiplies && !made.adds) return true;
  if (strange) return fail("how large the weights of ", name, " are is not known");
  constexpr double kRounding = 1e-3;
  const Scale normal = normal_numbers(t);
  const Scale& terms = made.terms;
  bool small = made.multiplies && terms.least < normal.least;
  if (terms.empty() || (!small && terms.most < normal.most - kRounding)) return true;
  return fail(name, " of weights leaves the range of ", to_text(t));
}

// What a step computes on the way.
Result<bool> stays_near(const Magnitude& m, const Seen& seen, const std::string& name, DType t) {
  const Room room = room_in(t);
  for (const Magnitude::Part& p : m.parts) {
    Scale was = seen.of(p.atoms);
    if (!lies_within(p.scale, was.least - room.below, was.most + room.above))
      return fail(name, " may leave the range of ", to_text(t), " where nothing did");
  }
  return true;
}

}  // namespace

Result<bool> keeps_range(const RightSide& before, const RightSide& after, const TermFacts& facts) {
  if (!has_weights(before, facts) && !has_weights(after, facts)) return true;
  const Side left(before, facts), right(after, facts);
  const Seen seen = seen_in(before, left, after, right);
  for (size_t i = 0; i < after.steps.size(); ++i) {
    const RightSide::Step& step = after.steps[i];
    const DType dtype = dtype_of(step.type);
    if (!is_float(dtype)) continue;
    const Made& made = right.made(i);
    const std::string& name = op_def(step.op).name;
    // The result is what it was.
    bool result = std::ranges::find(after.results, RightSide::Ref{RightSide::Ref::From::step,
                                                                  static_cast<uint32_t>(i)}) !=
                  after.results.end();
    auto kept = made.value.ahead ? stays_normal(made, right.strange(i), name, dtype)
                : result         ? Result<bool>(true)
                                 : stays_near(made.value, seen, name, dtype);
    if (!kept) return kept;
  }
  return true;
}

}  // namespace emend
