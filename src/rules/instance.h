// A rule at a place: what its variables stand for, whether the guard holds, and the right side as a
// plan of nodes to add, typed but not yet added. Knows no container: a Term is a node of a graph or
// a class of an e-graph, and Facts says what is known of it.
#pragma once

#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "rules/rule.h"
#include "rules/scale.h"

namespace emend {

struct OpDef;

using Term = Id<struct TermTag>;

struct BoundOp {
  OpId op;
  Attrs attrs;
  bool operator==(const BoundOp&) const = default;
};

// Per variable; the lists belong to starred ones.
using Binding = std::variant<std::monostate, Term, std::vector<Term>, AttrValue,
                             std::vector<AttrValue>, BoundOp>;
using Substitution = std::vector<Binding>;

struct TermFacts {
  std::function<const Type&(Term)> type;
  std::function<const Tensor*(Term)> constant;  // null where the value is not known
  // Can be computed before the program runs: depends on none of its inputs. Constants are; where
  // the function is empty, nothing else is.
  std::function<bool(Term)> weight_only = {};
  // How large the numbers of such a term are, where that is known (scale.h). Where the function is
  // empty, constants are looked at.
  std::function<std::optional<Scale>(Term)> scale = {};
  // Numbers have no range to leave: those of a field, say.
  bool unbounded = false;
};

// Does a bound variable agree? Binds it if it is free. `repetition` is -1 outside of repeated
// patterns; inside, a starred variable's item of that number is meant.
bool bind_term(const Variables& v, Substitution& s, int variable, int repetition, Term term);
bool bind_attr(const Variables& v, Substitution& s, int variable, int repetition, AttrValue value);
bool bind_op(Substitution& s, int variable, BoundOp op);
// Do the attributes of a node agree with what a pattern of its operator says of them?
bool bind_attrs(const Variables& v, const Pattern& p, Attrs attrs, int repetition, Substitution& s);
// All elements of a constant are this number.
bool is_number(const Tensor& t, double number);

bool in_class(OpClass c, const OpDef& def);

// Nodes to be added for a right side, operands before users.
struct RightSide {
  struct Ref {
    enum class From : uint8_t { matched, step, constant } from = From::matched;
    uint32_t index = 0;  // the term's value, or the place in steps or constants
    bool operator==(const Ref&) const = default;
  };
  struct Step {
    OpId op;
    Attrs attrs;
    std::vector<Ref> args;
    Type type;
  };
  std::vector<Step> steps;
  std::vector<Tensor> constants;
  std::vector<Ref> results;  // one per root of the left side
};

// The plan of any pattern whose variables are bound, with one result, or those of a tuple pattern;
// scalars take the dtype given.
Result<RightSide> plan_of(const Pattern& p, const Rule& rule, const Substitution& s,
                          const TermFacts& facts, DType scalars);
Type type_of(const RightSide& plan, RightSide::Ref ref, const TermFacts& facts);

// Does the guard hold?
bool holds(const Rule& rule, const Substitution& s, const TermFacts& facts);

// Guards about every item of the starred variables, see rule.h.
bool is_each(const AttrExpr& guard);
bool is_alike(const AttrExpr& guard);

// The right side for a match whose roots have these types; a failure says why the rule does not
// apply.
Result<RightSide> apply(const Rule& rule, const Substitution& s, const TermFacts& facts,
                        std::span<const Type> roots);
inline Result<RightSide> apply(const Rule& rule, const Substitution& s, const TermFacts& facts,
                               const Type& root) {
  return apply(rule, s, facts, std::span(&root, 1));
}

// For a rule over a group: starred variables hold every candidate, the others what all share. The
// groups among them, in order of their first items; the remaining guards are not looked at.
struct Group {
  std::vector<uint32_t> items;  // which candidates, two or more
  Substitution substitution;    // theirs
};
// Only these candidates.
Substitution chosen(const Substitution& all, std::span<const uint32_t> items);
std::vector<Group> groups_of(const Rule& rule, const Substitution& all, const TermFacts& facts);

// Adds a plan's nodes to a container by its own means: how it makes constants and nodes, and what a
// matched term is there.
struct Adder {
  std::function<Term(Term)> matched;
  std::function<Term(const Tensor&)> constant;
  std::function<Term(const RightSide::Step&, std::span<const Term>)> node;
};
// The terms of the plan's results.
std::vector<Term> add(const RightSide& plan, const Adder& to);

// Attribute expressions under a substitution.
Result<AttrValue> value_of(const AttrExpr& e, const Rule& rule, const Substitution& s,
                           const TermFacts& facts, int repetition = -1);

}  // namespace emend
