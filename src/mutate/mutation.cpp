#include "mutate/mutation.h"

#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

namespace emend {

Parameter each(std::string name, std::string values) {
  return {std::move(name), std::move(values), 0};
}

Parameter solve(std::string name, int64_t most) {
  return {std::move(name), "", most};
}

Mutation mutation(std::string name, std::string_view lhs, std::string_view rhs,
                  const std::vector<Parameter>& parameters, const Where& where, std::string draw) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters) names.push_back(p.name);
  Mutation m;
  m.rule = reassociating(parametric(std::move(name), lhs, rhs, where, names, std::move(draw)));
  for (const Parameter& p : parameters) {
    int variable = m.rule.variables.index(p.name);
    if (p.values.empty()) {
      EMEND_ASSERT(m.solved < 0, m.rule.name, " solves for more than one parameter");
      m.solved = variable;
      m.most = p.most;
    } else {
      m.choices.push_back({variable, resolved_expr(p.values, m.rule.variables)});
    }
  }
  m.hash = hash_text(m.rule.name + " " + to_text(m.rule));
  for (const Parameter& p : parameters)
    m.hash = hash_text(str(p.name, " ", p.values, " ", p.most), m.hash);
  return m;
}

const std::vector<Mutation>& all_mutations() {
  static const std::vector<Mutation> kTable = [] {
    std::vector<Mutation> all;
    std::set<std::string> names;
    for (auto part : {conv_mutations, pool_mutations}) {
      for (Mutation& m : part()) {
        EMEND_ASSERT(names.insert(m.rule.name).second, "two mutations are called ", m.rule.name);
        EMEND_ASSERT(!find_rule(m.rule.name), m.rule.name, " is a rule, too");
        m.rule.theme = "mutation";
        all.push_back(std::move(m));
      }
    }
    return all;
  }();
  return kTable;
}

}  // namespace emend
