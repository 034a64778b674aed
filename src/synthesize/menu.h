// What is enumerated: small sets of typed operands with the operators that make sense of them. One
// large set of everything would hold the same equations and take its time for terms that have no
// type. An equation found in one menu is known in all others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace emend {

struct Menu {
  std::string name;
  std::string inputs;  // see inputs.h
  // Patterns over the operands ?p and ?q, which are both filters or both not, or ?p and ?filter;
  // attributes may name the inputs' sizes, as in
  // (get[index=0] (split[axis=1, sizes=(list ?b ?c)] ?p)).
  std::vector<std::string> operations;
  int operators = 3, leaves = 4;  // of a term, at most
};

const std::vector<Menu>& default_menus();
// Further attributes of operators that stand in menus: an equation that holds for those of its menu
// is tried with all others, too, and speaks of attributes in general if it holds for these.
const std::vector<std::string>& more_operations();

}  // namespace emend
