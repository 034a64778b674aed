// Several operators as one larger one. Whole groups at once: everything that reads one operand, or
// is multiplied by one matrix; and concatenation with what it commutes with. Sizes and positions
// are always explicit; where groups are involved, the guard says which filters meet which channels.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> merge_rules() {
  const std::string window = "strides=?s, dilations=?d, pads=?p";
  const std::string wide = "(largest (all ?p*))";
  // clang-format off
  return {
      // Groups. What two of them merge into is what their union merges into, so that no pairs are needed.
      rule("merge-matmuls-left", "(tuple (matmul ?x ?w*)...)", "(split[axis=(axis ?x -1), sizes=(sizes ?w* -1)] (matmul ?x (concat[axis=1] ?w*...)))",
           {"(rank_at_least ?x 2)", "(each (has_rank ?w* 2))"}, "x:[d,a,b] w*:[b,c_i] | x:[a,b] w*:[b,c_i]"),
      rule("merge-matmuls-left-bias", "(tuple (add (matmul ?x ?w*) ?b*)...)", "(split[axis=(axis ?x -1), sizes=(sizes ?w* -1)] (add (matmul ?x (concat[axis=1] ?w*...)) (concat[axis=0] ?b*...)))",
           {"(rank_at_least ?x 2)", "(each (has_rank ?w* 2))", "(each (has_rank ?b* 1))", "(each (equal (dim ?b* 0) (dim ?w* 1)))"}, "x:[d,a,b] w*:[b,c_i] b*:[c_i] | x:[a,b] w*:[b,c_i] b*:[c_i]"),
      rule("merge-matmuls-right", "(tuple (matmul ?x* ?w)...)", "(split[axis=(axis ?x* -2), sizes=(sizes ?x* -2)] (matmul (concat[axis=(axis ?x* -2)] ?x*...) ?w))",
           {"(has_rank ?w 2)", "(each (rank_at_least ?x* 2))", "(alike (shape_without ?x* -2))"}, "x*:[d,a_i,b] w:[b,c] | x*:[a_i,b] w:[b,c]"),
      rule("merge-matmuls-stacked", "(tuple (matmul ?x* ?w*)...)",
           "(tuple (reshape[shape=(list (dim ?x* 0) (dim ?w* 1))] (slice[starts=(list (position) 0 0), sizes=(list 1 (dim ?x* 0) (dim ?w* 1)), steps=[1,1,1]]"
           " (matmul (concat[axis=0] (reshape[shape=(joined (list 1) (shape ?x*))] ?x*)...) (concat[axis=0] (reshape[shape=(joined (list 1) (shape ?w*))] ?w*)...))))...)",
           {"(each (weights ?w*))", "(each (has_rank ?x* 2))", "(each (has_rank ?w* 2))", "(alike (shape ?x*))", "(alike (shape ?w*))"}, "x*:[a,b] w*:[b,c]"),
      rule("merge-convs-input", "(tuple (conv[?a, group=1] ?x ?w*)...)", "(split[axis=1, sizes=(sizes ?w* 0)] (conv[?a, group=1] ?x (concat[axis=0] ?w*...)))",
           {"(alike (kernel ?w*))"}, "x:[n,c,h,w] w*:[f_i,c,r,s]"),
      rule("merge-convs-input-bias", "(tuple (add (conv[?a, group=1] ?x ?w*) ?b*)...)", "(split[axis=1, sizes=(sizes ?w* 0)] (add (conv[?a, group=1] ?x (concat[axis=0] ?w*...)) (concat[axis=0] ?b*...)))",
           {"(alike (kernel ?w*))", "(each (equal (dim ?w* 0) (elements ?b*)))", "(each (equal (shape ?b*) (channel_shape ?b* ?w*)))"}, "x:[n,c,h,w] w*:[f_i,c,r,s] b*:[f_i,1,1] | x:[n,c,h] w*:[f_i,c,r] b*:[f_i,1]"),
      reassociating(rule("merge-convs-enlarged", "(tuple (conv[strides=?s, dilations=?d, pads=?p*, group=1] ?x ?w*)...)",
           "(split[axis=1, sizes=(sizes ?w* 0)] (conv[strides=?s, dilations=?d, pads=" + wide + ", group=1] ?x (concat[axis=0] (pad[pads=(enlarging ?p* " + wide + " ?d)] ?w*)...)))",
           {"(each (weights ?w*))", "(alike (extent ?w* ?p* ?d))", "(alike (remainders ?p* ?d))"}, "x:[n,c,h,w] w*:[f_i,c,r_i,s_i] | x:[n,c,h] w*:[f_i,c,r_i]")),
      rule("merge-convs-weights", "(tuple (conv[?a] ?x* ?w)...)", "(split[axis=0, sizes=(sizes ?x* 0)] (conv[?a] (concat[axis=0] ?x*...) ?w))",
           {"(alike (shape_without ?x* 0))"}, "x*:[n_i,c*g,h,w] w:[f*g,c,r,s]"),

      both("concat-matmul-columns", "(concat[axis=?k] (matmul ?x ?w*)...)", "(matmul ?x (concat[axis=?k] ?w*...))", {"(is_axis ?k ?x -1)", "(is_axis ?k ?w* -1)", "(rank_at_least ?w* 2)"}, "x:[a,b] w*:[b,c_i] | x:[d,a,b] w*:[d,b,c_i]"),
      both("concat-matmul-rows",    "(concat[axis=?k] (matmul ?x* ?w)...)", "(matmul (concat[axis=?k] ?x*...) ?w)", {"(is_axis ?k ?x* -2)", "(has_rank ?w 2)"}, "x*:[a_i,b] w:[b,c] | x*:[d,a_i,b] w:[b,c]"),
      both("concat-matmul-batch",   "(concat[axis=?k] (matmul ?x* ?w*)...)", "(matmul (concat[axis=?k] ?x*...) (concat[axis=?k] ?w*...))",
           {"(batch_axis ?k ?x*)", "(batch_axis ?k ?w*)", "(each (same_rank ?x* ?w*))", "(each (equal (dim ?x* ?k) (dim ?w* ?k)))"}, "x*:[d_i,a,b] w*:[d_i,b,c] | x*:[e,d_i,a,b] w*:[e,d_i,b,c]"),
      reassociating(both("sum-of-matmuls", "(add (matmul ?x ?w) (matmul ?y ?v))", "(matmul (concat[axis=1] ?x ?y) (concat[axis=0] ?w ?v))",
           {"(has_rank ?x 2)", "(has_rank ?w 2)"}, "x:[a,b] w:[b,c] y:[a,d] v:[d,c]")),
      reassociating(rule("sum-of-matmuls-batched", "(add (matmul ?x ?w) (matmul ?y ?v))", "(matmul (concat[axis=(axis ?x -1)] ?x ?y) (concat[axis=(axis ?w -2)] ?w ?v))",
           {"(rank_at_least ?x 3)", "(rank_at_least ?w 2)"}, "x:[e,a,b] w:[b,c] y:[e,a,d] v:[d,c] | x:[e,a,b] w:[e,b,c] y:[e,a,d] v:[e,d,c]")),
      // Terms of a sum that may be one product come together, without all the other ways to bracket it.
      reassociating(rule("matmuls-meet", "(add (matmul ?x ?w) (add (matmul ?y ?v) ?z))", "(add (add (matmul ?x ?w) (matmul ?y ?v)) ?z)", {}, "x:[a,b] w:[b,c] y:[a,d] v:[d,c] z:~[a,c]")),
      reassociating(rule("convs-meet", "(add (conv[?a] ?x ?w) (add (conv[?a] ?y ?v) ?z))", "(add (add (conv[?a] ?x ?w) (conv[?a] ?y ?v)) ?z)", {}, "x:[n,c,h,w] w:[f,c,r,s] y:[n,d,h,w] v:[f,d,r,s] z:~[f,1,1]")),
      // With groups, filters appended at the end would meet other channels.
      both("concat-conv-filters", "(concat[axis=1] (conv[?a, group=1] ?x ?w*)...)", "(conv[?a, group=1] ?x (concat[axis=0] ?w*...))", {}, "x:[n,c,h,w] w*:[f_i,c,r,s]"),
      both("concat-conv-batch",   "(concat[axis=0] (conv[?a] ?x* ?w)...)", "(conv[?a] (concat[axis=0] ?x*...) ?w)", {}, "x*:[n_i,c*g,h,w] w:[f*g,c,r,s]"),
      reassociating(both("sum-of-convs", "(add (conv[?a, group=1] ?x ?w) (conv[?a, group=1] ?y ?v))", "(conv[?a, group=1] (concat[axis=1] ?x ?y) (concat[axis=1] ?w ?v))",
           {}, "x:[n,c,h,w] w:[f,c,r,s] y:[n,d,h,w] v:[f,d,r,s]")),
      // Two groups that see the same channels are one.
      always("conv-doubled-input", "(conv[strides=?s, dilations=?d, pads=?p, group=2] (concat[axis=1] ?x ?x) ?w)", "(conv[strides=?s, dilations=?d, pads=?p, group=1] ?x ?w)",
           {}, "x:[n,c,h,w] w:[f*2,c,r,s]"),
      // Each group must have as many filters, and as many channels, everywhere.
      rule("concat-conv-groups", "(concat[axis=1] (conv[" + window + ", group=?g*] ?x* ?w*)...)", "(conv[" + window + ", group=(sum_of ?g*)] (concat[axis=1] ?x*...) (concat[axis=0] ?w*...))",
           {"(alike (quotient (dim ?w* 0) ?g*))"}, "x*:[n,c*g_i,h,w] w*:[f*g_i,c,r,s]"),
      rule("conv-groups-apart", "(conv[" + window + ", group=?g] (concat[axis=1] ?x*...) (concat[axis=0] ?w*...))", "(concat[axis=1] (conv[" + window + ", group=(quotient (dim ?x* 1) (dim ?w* 1))] ?x* ?w*)...)",
           {"(each (equal (product (quotient (dim ?x* 1) (dim ?w* 1)) (quotient (sum_of (sizes (all ?w*) 0)) ?g)) (dim ?w* 0)))"}, "x*:[n,c*g_i,h,w] w*:[f*g_i,c,r,s]"),
  };
  // clang-format on
}

}  // namespace emend
