// A group of two sums of products, of which the first's rows, each computed further as a whole, are
// the rows of the second:
//
//   p = f( sum over c of q[batch, m, c] * k[batch, n, c] )       f works on rows: p[batch, m, :]
//   out = epilogue( sum over n of p[batch, m, n] * v[batch, d, n] )
//
// Attention is the case in which f is a softmax of scaled and masked scores; nothing here depends
// on that, so what merely looks like attention is computed just as rightly. batch, m, c and d stand
// for any number of iterators; queries whose heads share keys are rows of one batch.
#pragma once

#include "kernels/cpu/contraction.h"

namespace emend {

struct AttentionShape {
  // The group up to p, and behind it: the latter has p as an input behind the group's own.
  Graph scores_group, context_group;
  // Rows (queries) are the first side of both, numbered alike; so are batches.
  Contraction scores, context;
  int lane = -1;  // of the nest of scores: n
  // p = e / sum over n of e, where e is an exponential: the value that the sum of products is to be
  // made of instead, and the one by which it is divided afterwards. -1: p is not like that.
  int numerator = -1, divisor = -1;
};

std::optional<AttentionShape> attention_in(const Graph& group);

}  // namespace emend
