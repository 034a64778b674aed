// Pooling windows: padding moves in, functions that keep the order and concatenation move through.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> window_rules() {
  const char* const pictures = "x*:[n,c_i,h,w]";
  const char* const batches = "x*:[n_i,c,h,w]";
  const char* const x = "x:[n,c,h,w]";
  // A window of nothing but pads has no largest element.
  const std::string whole = "?a, pads=?p, kernel=?k, dilations=[1,1]";
  // clang-format off
  return {
      always("pad-into-max-pool", "(max_pool[?a, pads=?p] (pad[pads=?q, value=-inf] ?x))", "(max_pool[?a, pads=(sum ?p (spatial ?q))] ?x)",
             {"(spatial_only ?q)", "(at_least ?q 0)"}, x),
      always("pad-into-counting-avg-pool", "(avg_pool[?a, pads=?p, kernel=?k, count_include_pad=true, ceil_mode=false] (pad[pads=?q, value=0] ?x))", "(avg_pool[?a, pads=(sum ?p (spatial ?q))] ?x)",
             {"(spatial_only ?q)", "(at_least ?q 0)", "(below (sum ?p (spatial ?q)) ?k)"}, x),
      always("pad-into-avg-pool", "(avg_pool[?a, pads=?p, kernel=?k, ceil_mode=false] (pad[pads=?q, value=0] ?x))", "(avg_pool[?a, pads=(spatial ?q), count_include_pad=true] ?x)",
             {"(spatial_only ?q)", "(at_least ?q 0)", "(every ?p 0)", "(below (spatial ?q) ?k)"}, x),

      both("max-pool-channels", "(concat[axis=1] (max_pool[?a] ?x*)...)", "(max_pool[?a] (concat[axis=1] ?x*...))", {}, pictures),
      both("max-pool-batch",    "(concat[axis=0] (max_pool[?a] ?x*)...)", "(max_pool[?a] (concat[axis=0] ?x*...))", {}, batches),
      both("avg-pool-channels", "(concat[axis=1] (avg_pool[?a] ?x*)...)", "(avg_pool[?a] (concat[axis=1] ?x*...))", {}, pictures),
      both("avg-pool-batch",    "(concat[axis=0] (avg_pool[?a] ?x*)...)", "(avg_pool[?a] (concat[axis=0] ?x*...))", {}, batches),
      both("max-pool-pulls-shift",  "(max_pool[" + whole + "] (add ?x ?s))", "(add (max_pool[" + whole + "] ?x) ?s)", {"(floating ?x)", "(below ?p ?k)", "(per_channel ?s ?x)", "(fits ?s ?x)"}, "x:[n,c,h,w] s:~[c,1,1]"),
      both("max-pool-pulls-factor", "(max_pool[" + whole + "] (mul ?x ?s))", "(mul (max_pool[" + whole + "] ?x) ?s)", {"(floating ?x)", "(below ?p ?k)", "(positive ?s)", "(per_channel ?s ?x)", "(fits ?s ?x)"}, "x:[n,c,h,w] s:+~[c,1,1]"),
      reassociating(both("avg-pool-pulls-factor", "(avg_pool[?a] (mul ?x ?s))", "(mul (avg_pool[?a] ?x) ?s)", {"(floating ?x)", "(per_channel ?s ?x)", "(fits ?s ?x)"}, "x:[n,c,h,w] s:~[c,1,1]")),
      reassociating(both("avg-pool-pulls-shift",  "(avg_pool[?a, pads=?p, ceil_mode=false] (add ?x ?s))", "(add (avg_pool[?a, pads=?p, ceil_mode=false] ?x) ?s)", {"(floating ?x)", "(every ?p 0)", "(per_channel ?s ?x)", "(fits ?s ?x)"}, "x:[n,c,h,w] s:~[c,1,1]")),
      reassociating(both("avg-pool-adds", "(avg_pool[?a] (add ?x ?y))", "(add (avg_pool[?a] ?x) (avg_pool[?a] ?y))", {"(floating ?x)", "(same_shape ?x ?y)"}, "x:[n,c,h,w] y:[n,c,h,w]")),
      both("clip-max-pool", "(max_pool[" + whole + "] (clip[?c] ?x))", "(clip[?c] (max_pool[" + whole + "] ?x))", {"(below ?p ?k)"}, x),
      both("relu-max-pool", "(max_pool[" + whole + "] (relu ?x))", "(relu (max_pool[" + whole + "] ?x))", {"(below ?p ?k)"}, x),
      // Means of what is not below zero are not, either.
      always("relu-avg-pool", "(relu (avg_pool[?a] (relu ?x)))", "(avg_pool[?a] (relu ?x))", {"(floating ?x)"}, x),
  };
  // clang-format on
}

}  // namespace emend
