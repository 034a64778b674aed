// Identities of elementwise arithmetic.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> algebra_rules() {
  const std::string erf = "(add (erf (div ?x 1.4142135623730951)) 1)";
  const std::string erf_mul = "(add (erf (mul ?x 0.7071067811865476)) 1)";
  const std::string tanh =
      "(add (tanh (mul (add ?x (mul (pow ?x 3) 0.044715)) 0.7978845608028654)) 1)";
  // clang-format off
  return {
      always("add-zero",   "(add ?x 0)",           "?x"),
      always("sub-zero",   "(sub ?x 0)",           "?x"),
      always("zero-sub",   "(sub 0 ?x)",           "(neg ?x)"),
      always("mul-one",    "(mul ?x 1)",           "?x"),
      always("div-one",    "(div ?x 1)",           "?x"),
      always("pow-one",    "(pow ?x 1)",           "?x"),
      always("neg-neg",    "(neg (neg ?x))",       "?x"),
      always("abs-neg",    "(abs (neg ?x))",       "(abs ?x)", {"(floating ?x)"}),
      always("add-neg",    "(add ?x (neg ?y))",    "(sub ?x ?y)", {}, "x:[a,b] y:~[a,b]"),
      always("sub-neg",    "(sub ?x (neg ?y))",    "(add ?x ?y)", {}, "x:[a,b] y:~[a,b]"),
      always("neg-sub",    "(neg (sub ?x ?y))",    "(sub ?y ?x)", {}, "x:[a,b] y:~[a,b]"),
      always("not-not",    "(logical_not (logical_not ?x))", "?x", {"(boolean ?x)"}, "x:bool[a,b]"),
      always("where-same", "(where ?c ?x ?x)",     "?x", {}, "c:bool[a,b] x:[a,b]"),
      always("idempotent", "(?f:idempotent_unary (?f ?x))", "(?f ?x)"),
      always("max-same", "(max ?x ?x)", "?x"),
      always("min-same", "(min ?x ?x)", "?x"),
      always("and-same", "(logical_and ?x ?x)", "?x", {"(boolean ?x)"}, "x:bool[a,b]"),
      always("or-same",  "(logical_or ?x ?x)",  "?x", {"(boolean ?x)"}, "x:bool[a,b]"),

      // Constants gather at one place: what can be computed beforehand is.
      always("sub-constant", "(sub ?x ?c)",       "(add ?x (neg ?c))", {"(weights ?c)", "(floating ?c)"}, "x:[a,b] c:~[a,b]"),
      always("neg-mul",      "(neg (mul ?x ?c))", "(mul ?x (neg ?c))", {"(weights ?c)", "(floating ?c)"}, "x:[a,b] c:~[a,b]"),
      always("mul-neg",      "(mul (neg ?x) ?c)", "(mul ?x (neg ?c))", {"(weights ?c)", "(floating ?c)"}, "x:[a,b] c:~[a,b]"),
      reassociating(always("add-constants", "(add (add ?x ?a) ?b)", "(add ?x (add ?a ?b))", {"(weights ?a ?b)"}, "x:[a,b,c] a:~[a,b,c] b:~[a,b,c]")),
      reassociating(always("mul-constants", "(mul (mul ?x ?a) ?b)", "(mul ?x (mul ?a ?b))", {"(weights ?a ?b)"}, "x:[a,b,c] a:~[a,b,c] b:~[a,b,c]")),
      reassociating(rule("add-pulls-constant", "(add (add ?x ?a) (add ?y ?b))", "(add (add ?x ?y) (add ?a ?b))", {"(weights ?a ?b)"}, "x:[a,b,c] y:~[a,b,c] a:~[a,b,c] b:~[a,b,c]")),

      reassociating(rule("add-moves-weights", "(add (add ?x ?a) ?y)", "(add (add ?x ?y) ?a)", {"(weights ?a)"}, "x:[a,b,c] y:~[a,b,c] a:~[a,b,c]")),

      // What exporters spell out, in the orders they do.
      reassociating(always("gelu-half-last",      "(mul (mul ?x " + erf + ") 0.5)",     "(gelu ?x)", {"(floating ?x)"})),
      reassociating(always("gelu-half-first",     "(mul (mul ?x 0.5) " + erf + ")",     "(gelu ?x)", {"(floating ?x)"})),
      reassociating(always("gelu-half-inside",    "(mul ?x (mul " + erf + " 0.5))",     "(gelu ?x)", {"(floating ?x)"})),
      reassociating(always("gelu-mul-half-last",  "(mul (mul ?x " + erf_mul + ") 0.5)", "(gelu ?x)", {"(floating ?x)"})),
      reassociating(always("gelu-mul-half-first", "(mul (mul ?x 0.5) " + erf_mul + ")", "(gelu ?x)", {"(floating ?x)"})),
      reassociating(always("gelu-mul-half-inside", "(mul ?x (mul " + erf_mul + " 0.5))", "(gelu ?x)", {"(floating ?x)"})),
      reassociating(always("gelu-tanh-half-first", "(mul (mul ?x 0.5) " + tanh + ")",   "(gelu_tanh ?x)", {"(floating ?x)"})),
      reassociating(always("gelu-tanh-half-last",  "(mul (mul ?x " + tanh + ") 0.5)",   "(gelu_tanh ?x)", {"(floating ?x)"})),
      reassociating(always("gelu-tanh-half-inside", "(mul ?x (mul " + tanh + " 0.5))",  "(gelu_tanh ?x)", {"(floating ?x)"})),

      // Common factors, divisors, signs. That (x y) / y is x is not among them: y may be zero. Distributing further than
      // mul-distributes does, numbers as sums, relu as a maximum: these ways only grow, and what is useful of a
      // difference or a quotient follows from those of sums and products, sub-is-add and div-is-mul.
      reassociating(rule("factor-one", "(add (mul ?x ?y) ?x)", "(mul ?x (add ?y 1))", {"(floating ?x)"}, "x:[a,b] y:~[a,b]")),
      reassociating(rule("minus-factor-one", "(sub ?x (mul ?x ?y))", "(mul ?x (sub 1 ?y))", {"(floating ?x)"}, "x:[a,b] y:~[a,b]")),
      rule("double", "(add ?x ?x)", "(mul ?x 2)", {"(floating ?x)"}),
      reassociating(rule("square", "(pow ?x 2)", "(mul ?x ?x)", {"(floating ?x)"})),
      rule("mul-minus-one", "(mul ?x -1)", "(neg ?x)", {"(floating ?x)"}),
      both("mul-negs",   "(mul (neg ?x) ?y)", "(neg (mul ?x ?y))", {"(floating ?x)"}, "x:[a,b] y:~[a,b]"),
      both("div-neg",    "(div (neg ?x) ?y)", "(neg (div ?x ?y))", {"(floating ?x)"}, "x:[a,b] y:~[a,b]"),
      rule("add-negs", "(add (neg ?x) (neg ?y))", "(neg (add ?x ?y))", {"(floating ?x)"}, "x:[a,b] y:~[a,b]"),
      reassociating(rule("div-adds", "(add (div ?x ?z) (div ?y ?z))", "(div (add ?x ?y) ?z)", {"(floating ?x)"}, "x:[a,b] y:~[a,b] z:~[a,b]")),
      reassociating(rule("div-subtracts", "(sub (div ?x ?z) (div ?y ?z))", "(div (sub ?x ?y) ?z)", {"(floating ?x)"}, "x:[a,b] y:~[a,b] z:~[a,b]")),
      reassociating(rule("div-div", "(div (div ?x ?y) ?z)", "(div ?x (mul ?y ?z))", {"(floating ?x)"}, "x:[a,b] y:~[a,b] z:~[a,b]")),
      reassociating(rule("div-by-div",    "(div ?x (div ?y ?z))", "(div (mul ?x ?z) ?y)", {"(floating ?x)"}, "x:[a,b] y:~[a,b] z:~[a,b]")),
      rule("max-adds", "(max (add ?x ?z) (add ?y ?z))", "(add (max ?x ?y) ?z)", {"(floating ?x)"}, "x:[a,b] y:~[a,b] z:~[a,b]"),
      rule("min-adds", "(min (add ?x ?z) (add ?y ?z))", "(add (min ?x ?y) ?z)", {"(floating ?x)"}, "x:[a,b] y:~[a,b] z:~[a,b]"),
      rule("max-scales", "(max (mul ?x ?a) (mul ?y ?a))", "(mul (max ?x ?y) ?a)", {"(floating ?x)", "(positive ?a)"}, "x:[a,b] y:~[a,b] a:+~[a,b]"),
      rule("max-negs", "(max (neg ?x) (neg ?y))", "(neg (min ?x ?y))", {"(floating ?x)"}, "x:[a,b] y:~[a,b]"),
      reassociating(rule("relu-neg", "(sub ?x (relu ?x))", "(min ?x 0)", {"(floating ?x)"})),
      both("abs-scale", "(abs (mul ?a ?x))", "(mul ?a (abs ?x))", {"(floating ?x)", "(positive ?a)"}, "a:+~[a,b] x:[a,b]"),
      both("leaky-relu-scale", "(leaky_relu[?p] (mul ?a ?x))", "(mul ?a (leaky_relu[?p] ?x))", {"(floating ?x)", "(positive ?a)"}, "a:+~[a,b] x:[a,b]"),
      reassociating(both("relu-divides", "(relu (div ?x ?a))", "(div (relu ?x) ?a)", {"(positive ?a)"}, "a:+~[a,b] x:[a,b]")),
      reassociating(rule("swish", "(mul ?x (sigmoid ?x))", "(swish ?x)", {"(floating ?x)"})),

      both("add-commutes", "(add ?x ?y)", "(add ?y ?x)", {}, "x:[a,b] y:~[a,b]"),
      both("mul-commutes", "(mul ?x ?y)", "(mul ?y ?x)", {}, "x:[a,b] y:~[a,b]"),
      both("max-commutes", "(max ?x ?y)", "(max ?y ?x)", {}, "x:[a,b] y:~[a,b]"),
      both("min-commutes", "(min ?x ?y)", "(min ?y ?x)", {}, "x:[a,b] y:~[a,b]"),
      both("max-associates", "(max (max ?x ?y) ?z)", "(max ?x (max ?y ?z))", {}, "x:[a,b] y:~[a,b] z:~[a,b]"),
      both("min-associates", "(min (min ?x ?y) ?z)", "(min ?x (min ?y ?z))", {}, "x:[a,b] y:~[a,b] z:~[a,b]"),
      reassociating(both("add-associates", "(add (add ?x ?y) ?z)", "(add ?x (add ?y ?z))", {}, "x:[a,b] y:~[a,b] z:~[a,b]")),
      reassociating(both("mul-associates", "(mul (mul ?x ?y) ?z)", "(mul ?x (mul ?y ?z))", {}, "x:[a,b] y:~[a,b] z:~[a,b]")),
      reassociating(both("mul-distributes", "(mul (add ?x ?y) ?z)", "(add (mul ?x ?z) (mul ?y ?z))", {}, "x:[a,b] y:~[a,b] z:~[a,b]")),
      reassociating(rule("mul-over-sub", "(sub (mul ?x ?z) (mul ?y ?z))", "(mul (sub ?x ?y) ?z)", {}, "x:[a,b] y:~[a,b] z:~[a,b]")),
      reassociating(both("div-is-mul", "(div ?x ?y)", "(mul ?x (reciprocal ?y))", {"(floating ?x)"}, "x:[a,b] y:~[a,b]")),
      both("sub-is-add", "(sub ?x ?y)", "(add ?x (neg ?y))", {"(floating ?x)"}, "x:[a,b] y:~[a,b]"),
      rule("max-is-relu", "(max ?x 0)", "(relu ?x)"),
      always("relu-of-square", "(relu (mul ?x ?x))", "(mul ?x ?x)", {"(floating ?x)"}),
      both("relu-scale", "(relu (mul ?a ?x))", "(mul ?a (relu ?x))", {"(floating ?x)", "(positive ?a)"}, "a:+~[a,b] x:[a,b]"),
  };
  // clang-format on
}

}  // namespace emend
