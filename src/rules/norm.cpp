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
  };
  // clang-format on
}

}  // namespace emend
