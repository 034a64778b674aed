// Mutations: written like rules (rules/rule.h), but promising equality only *somewhere*. What the
// right side leaves open are parameters: chosen from a list, or solved for, as a gap of zeros is
// that is just wide enough. Where a mutant is equal is found out (equiv/agreement.h), never said;
// so a mutation can be useless but not wrong.
//
//   mutation("dilation-into-mosaic", "(conv[..] ?x ?w)", "(view[..(mosaic .. ?g)] ..)",
//            {solve("g")}, {guard, ..}, "x:[n,c,h,w] w:[f,c,r,s]")
#pragma once

#include <string>
#include <vector>

#include "rules/rule.h"

namespace emend {

struct Parameter {
  std::string name;
  std::string values;  // a list of integers to choose from, as an attribute expression; or
  int64_t most = 0;    //   it is solved for: the least from 0 to this
};
// Every integer of the list.
Parameter each(std::string name, std::string values);
// The least that makes the mutant equal everywhere.
Parameter solve(std::string name, int64_t most = 16);

struct Mutation {
  Rule rule;
  struct Choice {
    int variable;
    AttrExpr values;
  };
  std::vector<Choice> choices;
  int solved = -1;  // the variable that is solved for, or -1
  int64_t most = 0;
  uint64_t hash = 0;  // of all of it, as text
};

Mutation mutation(std::string name, std::string_view lhs, std::string_view rhs,
                  const std::vector<Parameter>& parameters, const Where& where, std::string draw);

const std::vector<Mutation>& all_mutations();

// The tables, each in the file of its name.
std::vector<Mutation> conv_mutations();
std::vector<Mutation> pool_mutations();

}  // namespace emend
