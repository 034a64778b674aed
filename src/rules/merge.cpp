// Several operators as one larger one: concatenation and what it commutes with. Sizes and positions
// are always explicit; where groups are involved, the guard says which filters meet which channels.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> merge_rules() {
  // clang-format off
  return {
      // Whole groups at once: everything that reads the same operand, or is multiplied by the same matrix.
      rule("merge-matmuls-left", "(tuple (matmul ?x ?w*)...)", "(split[axis=-1, sizes=(sizes ?w* -1)] (matmul ?x (concat[axis=-1] ?w*...)))",
           {"(each (has_rank ?w* 2))"}, "x:[d,a,b] w*:[b,c_i]"),
      rule("merge-convs-input", "(tuple (conv[?a, group=1] ?x ?w*)...)", "(split[axis=1, sizes=(sizes ?w* 0)] (conv[?a, group=1] ?x (concat[axis=0] ?w*...)))",
           {"(alike (kernel ?w*))"}, "x:[n,c,h,w] w*:[f_i,c,r,s]"),

      both("concat-matmul-columns", "(concat[axis=1] (matmul ?x ?w*)...)", "(matmul ?x (concat[axis=1] ?w*...))", {"(has_rank ?x 2)"}, "x:[a,b] w*:[b,c_i]"),
      both("concat-matmul-rows",    "(concat[axis=0] (matmul ?x* ?w)...)", "(matmul (concat[axis=0] ?x*...) ?w)", {"(has_rank ?w 2)"}, "x*:[a_i,b] w:[b,c]"),
      reassociating(both("sum-of-matmuls", "(add (matmul ?x ?w) (matmul ?y ?v))", "(matmul (concat[axis=1] ?x ?y) (concat[axis=0] ?w ?v))",
           {"(has_rank ?x 2)", "(has_rank ?w 2)"}, "x:[a,b] w:[b,c] y:[a,d] v:[d,c]")),
      // With groups, filters appended at the end would meet other channels.
      both("concat-conv-filters", "(concat[axis=1] (conv[?a, group=1] ?x ?w*)...)", "(conv[?a, group=1] ?x (concat[axis=0] ?w*...))", {}, "x:[n,c,h,w] w*:[f_i,c,r,s]"),
      both("concat-conv-batch",   "(concat[axis=0] (conv[?a] ?x* ?w)...)", "(conv[?a] (concat[axis=0] ?x*...) ?w)", {}, "x*:[n_i,c*g,h,w] w:[f*g,c,r,s]"),
      reassociating(both("sum-of-convs", "(add (conv[?a, group=1] ?x ?w) (conv[?a, group=1] ?y ?v))", "(conv[?a, group=1] (concat[axis=1] ?x ?y) (concat[axis=1] ?w ?v))",
           {}, "x:[n,c,h,w] w:[f,c,r,s] y:[n,d,h,w] v:[f,d,r,s]")),
      // Each group must have as many filters, and as many channels, on either side.
      rule("concat-conv-groups",
           "(concat[axis=1] (conv[strides=?s, dilations=?d, pads=?p, group=?g] ?x ?w) (conv[strides=?s, dilations=?d, pads=?p, group=?h] ?y ?v))",
           "(conv[strides=?s, dilations=?d, pads=?p, group=(sum ?g ?h)] (concat[axis=1] ?x ?y) (concat[axis=0] ?w ?v))",
           {"(equal (quotient (dim ?w 0) ?g) (quotient (dim ?v 0) ?h))"}, "x:[n,c*g,h,w] w:[f*g,c,r,s] y:[n,c*k,h,w] v:[f*k,c,r,s]"),
  };
  // clang-format on
}

}  // namespace emend
