// Quantised operands: products of them are sums of integers, and moves need not know what bytes
// stand for.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> quantize_rules() {
  const std::string x = "(dequantize_linear[axis=?j] ?x ?s ?z)";
  const std::string w = "(dequantize_linear[axis=?k] ?w ?t ?y)";
  const std::string product = "(dequantized_matmul ?x ?s ?z ?w ?t ?y)";
  const std::string operands = " s:f32[1] z:u8[1] t:f32[1] y:u8[1]";
  // The sum of so many products of numbers below 256 is an i32.
  const char* const matrix = "(at_least (list (difference 33025 (dim ?w -2))) 0)";
  const char* const rows = "(at_least (list (difference 33025 (dim ?w -1))) 0)";
  const char* const filter =
      "(at_least (list (difference 33025 (quotient (elements ?w) (dim ?w 0)))) 0)";
  // clang-format off
  return {
      reassociating(always("matmul-dequantized", "(matmul " + x + " " + w + ")", product,
             {"(byte ?x)", "(byte ?w)", "(single ?s)", "(single ?z)", "(scales_along ?t ?w ?k -1)", "(scales_along ?y ?w ?k -1)", matrix}, "x:u8[a,b] w:u8[b,c] s:f32[1] z:u8[1] t:f32~[c] y:u8~[c]")),
      reassociating(always("gemm-dequantized", "(gemm " + x + " " + w + " ?b)", "(add " + product + " ?b)",
             {"(byte ?x)", "(byte ?w)", "(single ?s)", "(single ?z)", "(scales_along ?t ?w ?k -1)", "(scales_along ?y ?w ?k -1)", matrix}, "x:u8[a,b] w:u8[b,c] b:f32~[a,c]" + operands)),
      reassociating(always("gemm-dequantized-transposed", "(gemm[trans_b=true] " + x + " " + w + " ?b)", "(add (dequantized_matmul ?x ?s ?z (transpose[perm=[1,0]] ?w) ?t ?y) ?b)",
             {"(byte ?x)", "(byte ?w)", "(single ?s)", "(single ?z)", "(scales_along ?t ?w ?k 0)", "(scales_along ?y ?w ?k 0)", rows}, "x:u8[a,b] w:u8[c,b] b:f32~[a,c] s:f32[1] z:u8[1] t:f32~[c] y:u8~[c]")),
      reassociating(always("conv-dequantized", "(conv[?a] " + x + " " + w + ")", "(dequantized_conv[?a] ?x ?s ?z ?w ?t ?y)",
             {"(byte ?x)", "(byte ?w)", "(single ?s)", "(single ?z)", "(scales_along ?t ?w ?k 0)", "(scales_along ?y ?w ?k 0)", filter}, "x:u8[n,c*g,h,w] w:u8[f*g,c,r,s] s:f32[1] z:u8[1] t:f32~[f*g] y:u8~[f*g]")),

      always("transpose-dequantized", "(transpose[perm=?p] " + x + ")", "(dequantize_linear[axis=?j] (transpose[perm=?p] ?x) ?s ?z)",
             {"(single ?s)", "(single ?z)"}, "x:u8[a,b,c]" + operands),
      always("transpose-dequantized-axis", "(transpose[perm=?p] " + x + ")", "(dequantize_linear[axis=(item (inverse ?p) ?j)] (transpose[perm=?p] ?x) ?s ?z)",
             {}, "x:u8[a,b,c] s:f32[b] z:u8[b]"),
      always("reshape-dequantized", "(reshape[shape=?p] " + x + ")", "(dequantize_linear[axis=?j] (reshape[shape=?p] ?x) ?s ?z)",
             {"(single ?s)", "(single ?z)"}, "x:u8[a,b,c]" + operands),
      always("gather-dequantized", "(gather[?a] " + x + " ?i)", "(dequantize_linear[axis=?j] (gather[?a] ?x ?i) ?s ?z)",
             {"(single ?s)", "(single ?z)"}, "x:u8[10,b,c] i:i64[a]" + operands),
      // Weights are quantised beforehand.
      always("quantize-transposed", "(quantize_linear[?q] (transpose[perm=?p] ?x) ?s ?z)", "(transpose[perm=?p] (quantize_linear[?q] ?x ?s ?z))",
             {"(weights ?x)", "(single ?s)", "(single ?z)"}, "x:f32[a,b,c] s:+f32[1] z:u8[1]"),
      always("quantize-transposed-axis", "(quantize_linear[?q, axis=?j] (transpose[perm=?p] ?x) ?s ?z)", "(transpose[perm=?p] (quantize_linear[?q, axis=(item ?p ?j)] ?x ?s ?z))",
             {"(weights ?x)"}, "x:f32[a,b,c] s:+f32[b] z:u8[b]"),
      always("quantize-dequantized", "(quantize_linear[to=?t, axis=?j] " + x + " ?s ?z)", "?x",
             {"(positive ?s)"}, "x:u8[a,b,c] s:+f32[1] z:u8[1]"),
  };
  // clang-format on
}

}  // namespace emend
