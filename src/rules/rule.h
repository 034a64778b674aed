// Rewrite rules: equations between patterns, equal wherever their guard holds. One line each, in
// the file of their theme (algebra.cpp, movement.cpp, conv.cpp ...). The same table serves the
// directed driver over graphs (simplify/: the rules marked `always`) and equality saturation (all
// of them). Every rule is checked over varied shapes, and so is that a wrong twin is found out
// (check.h).
//
// A rule applies when its pattern matches, its guard holds, the right side has a type, and that
// type is the left side's: (reshape[?a] ?x) -> ?x needs no guard at all.
//
// A guard is a call of a function (functions.h), or says something of every item of the starred
// variables: (each G), the guard G holds for it; (alike E), E is the same for all. Of a rule over a
// group, (tuple P...), these also say which items form a group: those that pass, parted by E.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rules/pattern.h"

namespace emend {

// How the directed driver uses a rule; saturation uses those of the first two kinds.
enum class Use : uint8_t {
  search,  // not at all: neither side is better as such
  always,  // left to right, to a fixed point
  finish,  // left to right, after those: forms composites that a file format has one name for
  form,    // left to right, where somebody asks for a form that it belongs to (forms.h)
};
std::string_view to_text(Use use);

enum class Numerics : uint8_t {
  exact,          // every float result keeps its bits (-0 and NaN payloads aside, see docs/ir.md)
  reassociating,  // equal over the reals; floats round at other places
};
std::string_view to_text(Numerics n);

struct Rule {
  std::string name, theme;  // the theme is the file's
  Variables variables;
  Pattern lhs, rhs;
  std::vector<AttrExpr> where;  // all must hold
  Use use = Use::search;
  bool both = false;  // also right to left (saturation only)
  Numerics numerics = Numerics::exact;
  std::string draw;    // shapes for the checker, see check.h
  int true_twins = 0;  // right sides with one thing changed that are true as well, see check.h

  bool several_roots() const { return lhs.kind == Pattern::Kind::tuple; }
  // One firing takes the whole group. What it makes belongs to no further group, or merging would
  // never end: that is for the driver to see to.
  bool merges_group() const { return several_roots() && lhs.args[0].repeated; }
};

std::string to_text(const Rule& r);

// The other direction of a rule that holds both ways.
Rule reversed(const Rule& r);

const std::vector<Rule>& all_rules();
const Rule* find_rule(std::string_view name);

// TENSAT's own rule set, to compare with (tensat.cpp); none of all_rules().
const std::vector<Rule>& tensat_rules();

// --- How the tables are written ---

using Where = std::vector<const char*>;
// Parses and checks that variables on the right are bound on the left; throws Error otherwise.
Rule rule(std::string name, std::string_view lhs, std::string_view rhs, const Where& where = {},
          std::string draw = "");
Rule both(std::string name, std::string_view lhs, std::string_view rhs, const Where& where = {},
          std::string draw = "");
Rule always(std::string name, std::string_view lhs, std::string_view rhs, const Where& where = {},
            std::string draw = "");
Rule finish(std::string name, std::string_view lhs, std::string_view rhs, const Where& where = {},
            std::string draw = "");
// With variables on the right that the left does not bind: whoever applies it says what they are.
Rule parametric(std::string name, std::string_view lhs, std::string_view rhs, const Where& where,
                const std::vector<std::string>& parameters, std::string draw = "");
// An attribute expression whose functions were looked up.
AttrExpr resolved_expr(std::string_view text, Variables& variables);
Rule form(std::string name, std::string_view lhs, std::string_view rhs, const Where& where = {},
          std::string draw = "");
Rule reassociating(Rule r);
Rule also_true(int twins, Rule r);

// The themes, each in the file of its name.
std::vector<Rule> algebra_rules();
std::vector<Rule> movement_rules();
std::vector<Rule> linear_rules();
std::vector<Rule> conv_rules();
std::vector<Rule> merge_rules();
std::vector<Rule> norm_rules();
std::vector<Rule> reduce_rules();
std::vector<Rule> window_rules();
std::vector<Rule> quantize_rules();
std::vector<Rule> view_rules();
std::vector<Rule> patch_rules();
std::vector<Rule> form_rules();

}  // namespace emend
