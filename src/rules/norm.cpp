// Normalisations whose statistics are known beforehand are scales and shifts.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> norm_rules() {
  const std::string draw =
      "x:[n,c*g,h,w] w:[f*g,c,r,s] c:[f*g,1,1] s:[f*g] b:[f*g] m:[f*g] v:+[f*g]";
  const std::string scale = "(div ?s (sqrt (add ?v ?e)))";
  const std::string weights = "(mul ?w (reshape[shape=(filter_shape ?s ?w)] " + scale + "))";
  const std::string shift =
      "(reshape[shape=(channel_shape ?b ?w)] (sub ?b (mul ?m " + scale + ")))";
  const std::string channels = "(reshape[shape=(channel_shape ?s ?w)] " + scale + ")";
  // clang-format off
  return {
      reassociating(always("batch-norm-into-conv", "(batch_norm[epsilon=?e] (conv[?a] ?x ?w) ?s ?b ?m ?v)", "(add (conv[?a] ?x " + weights + ") " + shift + ")",
             {"(constant ?w ?s ?b ?m ?v)"}, draw)),
      reassociating(always("batch-norm-into-conv-bias", "(batch_norm[epsilon=?e] (add (conv[?a] ?x ?w) ?c) ?s ?b ?m ?v)",
             "(add (conv[?a] ?x " + weights + ") (add (mul ?c " + channels + ") " + shift + "))",
             {"(constant ?w ?c ?s ?b ?m ?v)", "(per_channel ?c ?w)"}, draw)),
      reassociating(always("scale-into-batch-norm", "(mul (batch_norm[?a] ?x ?s ?b ?m ?v) ?c)",
             "(batch_norm[?a] ?x (mul ?s (reshape[shape=(shape ?s)] ?c)) (mul ?b (reshape[shape=(shape ?s)] ?c)) ?m ?v)",
             {"(constant ?s ?b ?c)", "(per_channel ?c ?x)"}, "x:[n,c,h,w] s:[c] b:[c] m:[c] v:+[c] c:[c,1,1]")),
      reassociating(always("shift-into-batch-norm", "(add (batch_norm[?a] ?x ?s ?b ?m ?v) ?c)",
             "(batch_norm[?a] ?x ?s (add ?b (reshape[shape=(shape ?b)] ?c)) ?m ?v)",
             {"(constant ?b ?c)", "(per_channel ?c ?x)"}, "x:[n,c,h,w] s:[c] b:[c] m:[c] v:+[c] c:[c,1,1]")),
      // Dimensions of size one beside a softmax do not matter to it.
      always("softmax-reshape", "(reshape[?b] (softmax[axis=?k] (reshape[shape=?t] ?x)))", "(softmax[axis=(unsqueezed_axis ?x ?t ?k)] ?x)", {}, "x:[a,b,1,1]"),
  };
  // clang-format on
}

}  // namespace emend
