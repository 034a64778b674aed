// Random instances of a rule's left side. The rule says the shapes of its operands,
//   x:[n,c*g,h,w] w:[f*g,c,r,s] s:~[c,1,1] y*:[a_i,b] m:bool[a,b] v:+[c]
// in sizes that are drawn anew each time and differ pairwise; `~` is anything that broadcasts to
// the shape, `+` has positive elements only, `=` equal ones, `I` is an identity: ones where the
// first two indices agree and the others are in the middle, zeros elsewhere. A size with _i is
// drawn for every repetition; `|` parts alternatives. Operands that are not mentioned have the
// shape [a,b,c]. Attributes are drawn to fit the operator's operands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ops/build.h"
#include "rules/instance.h"

namespace emend {

enum class Elements : uint8_t { any, positive, equal, identity };

struct Instance {
  GraphBuilder builder;            // its inputs are the operands, in the order drawn
  std::vector<NodeId> left;        // the roots of the left side
  Substitution substitution;       // terms are nodes of the builder
  std::vector<Elements> elements;  // per input
  std::string shapes;  // "x: f64[2,3], w: ...", for messages and to tell instances apart
};

enum class DrawnSizes : uint8_t {
  different,  // pairwise, groups aside: a wrong rule must not pass by coincidence
  alike,      // mostly equal: a wrong rule must not escape because its types never agree
};

// nullopt when what was drawn does not fit together; the caller draws again. `numbers` is the dtype
// of operands for which the rule says none.
std::optional<Instance> draw_instance(const Rule& rule, DrawnSizes sizes, Rng& rng,
                                      DType numbers = DType::f64);

}  // namespace emend
