// Reads the part of egglog's language in which benchmarks of equality saturation are written:
//
//   (datatype Math (Add Math Math) (Const i64) (Var String))
//   (rewrite (Add a (Const 0)) a)
//   (let $start (Add (Var "x") (Const 0)))
//
// Operators are the constructors in the order they are declared; arguments that are no terms (i64
// and String) are literals everywhere and make up a node's attribute. Whatever else the language
// has is refused by an Error with file and line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "egraph/term.h"

namespace emend {

struct EggProgram {
  struct Constructor {
    std::string name, sort;
    std::vector<std::string> arguments;  // their sorts
  };
  std::vector<Constructor> constructors;  // by operator
  std::vector<std::string> attributes;    // by number: the literals as they were written
  std::vector<TermRule> rules;
  // A term without slots; its value may be a child in those that follow, as the slot of its place.
  struct Let {
    std::string name;
    NewTerm term;
  };
  std::vector<Let> lets;
};

EggProgram read_egg(std::string_view text, std::string_view file);
// Adds what the program begins with; the class of every let.
std::vector<ClassId> add_lets(EGraph& g, const EggProgram& program);

}  // namespace emend
