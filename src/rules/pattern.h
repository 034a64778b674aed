// Patterns: terms over operators with variables, as plain data. The same pattern is matched
// against a graph (match.h) and, later, against an e-graph; it knows neither.
//
//   ?x                        any operand; the same variable twice means the same operand
//   (conv[?a, pads=?p] ?x ?w) an operator; ?a is the whole attribute record, ?p one attribute of it
//   (transpose[perm=[1,0]] ?x)   literals. Attributes that are neither named nor taken whole must
//                             have their default values
//   0, 1, -2.5                a constant all of whose elements are that number; on the right a
//                             scalar of the result's dtype, as is an attribute variable there
//   (concat[?a] (relu ?x*)...)   repeated for any number of operands: variables with a star take
//                             one value each time, the others are shared; ?x*... is any operands
//   (at ?i ?x*)               on the right: the i-th of a starred variable
//   (number E)                on the right: the scalar that an attribute expression is
//   (identity E)              on the right: a constant of this shape, ones where the first two
//                             indices agree and the others are in the middle, zeros elsewhere
//   (constant E)              on the right: the tensor that an attribute expression is
//   (?f:unary ?x)             an operator variable (of a class): binds operator and attributes
//   (tuple P Q), (tuple P...) at the top of the left side: several roots at once, or a group of two
//                             or more alike. The right side is another tuple, or any term whose
//                             value is one, such as a split: its i-th item is the i-th root
//
// Operators with the trait `commutative` match in either order. Attribute expressions on the right,
// such as perm=(gather ?p ?q), and guards call the functions of functions.h; inside of a repeated
// pattern a starred variable is the item at hand, (position) its number and (all ?p*) the whole
// list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ir/node.h"

namespace emend {

struct RuleFunction;

// An attribute expression: a literal, a variable, a function of others, or one of the forms that
// are about starred variables: all, position; as guards (rule.h) each, alike.
struct AttrExpr {
  enum class Kind : uint8_t { literal, variable, call, all, position, each, alike };
  Kind kind = Kind::literal;
  AttrValue literal = int64_t{0};
  int variable = -1;                     // index into Variables
  std::string function;                  // its name; a form's, too
  const RuleFunction* callee = nullptr;  // the same, once it was looked up
  std::vector<AttrExpr> args;
};

// What an operator variable may stand for, by the facts of its record.
enum class OpClass : uint8_t { unary, binary, idempotent_unary, zero_keeping_unary };

struct Pattern {
  enum class Kind : uint8_t { variable, number, identity, constant, node, at, tuple };
  Kind kind = Kind::variable;
  int variable = -1;  // variable, at: which one; a node: its operator variable, or -1
  double number = 0;  // number, unless `index` is a call that says it
  OpId op;            // node with a fixed operator
  int whole = -1;     // variable of the whole attribute record, or -1
  std::vector<std::pair<std::string, AttrExpr>> attrs;  // named attributes
  AttrExpr index;  // at: which one; number: its value, if it is a call; identity: its shape;
                   // constant: its value
  std::vector<Pattern> args;  // of a node; the roots of a tuple
  bool repeated = false;      // stands for any number of operands
};

// The names of a rule's variables, without the question mark; a star at the end says that the
// variable takes one value per repetition.
struct Variables {
  std::vector<std::string> names;
  std::vector<OpClass> classes;      // of operator variables
  int index(std::string_view name);  // adds it if it is new
  bool starred(int v) const { return names[static_cast<size_t>(v)].back() == '*'; }
};

// Throw Error that quotes the place.
Pattern parse_pattern(std::string_view text, Variables& variables);
AttrExpr parse_expr(std::string_view text, Variables& variables);

std::string to_text(const Pattern& p, const Variables& v);
std::string to_text(const AttrExpr& e, const Variables& v);

}  // namespace emend
