// The meaning of an operator in index notation: for every position of the output, a reduction over
// a box of a scalar body applied to operand reads,
//   out[i..] = finish( reduce over r.. of body( operand[index(i, r)] or `outside`, ... ) ).
// Everything else follows from it: evaluation in any arithmetic, the boxes read, operation counts,
// loops in C and CUDA, derivatives of linear operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/index_expr.h"
#include "ops/scalar.h"

namespace emend {

enum class Reduce : uint8_t { none, sum, product, max, min };

struct Read {
  int operand = 0;
  std::vector<IndexExpr> index;   // one per dimension of the operand
  std::optional<double> outside;  // the value beyond the borders; without it reads stay inside
};

struct Meaning {
  // Iterators 0 .. out.size()-1 run over the output in row-major order: `out` is the output's shape
  // or a refinement of it (a dimension split into digits). The reduced ones follow.
  Dims out, reduced;
  Reduce reduce = Reduce::none;
  std::vector<Read> reads;
  Scalar body = arg(0);    // over reads (arg), and iterators (iter)
  Scalar finish = arg(0);  // of the reduced value; may use output iterators

  // All extents, output first.
  Dims extents() const {
    Dims all = out;
    all.insert(all.end(), reduced.begin(), reduced.end());
    return all;
  }
};

// A sum of products of two reads: what contraction kernels compute.
inline std::string_view to_text(Reduce r) {
  static constexpr std::string_view kNames[] = {"none", "sum", "product", "max", "min"};
  return kNames[static_cast<size_t>(r)];
}

bool is_contraction(const Meaning& m);
// Only moves elements: no arithmetic at all.
bool is_movement(const Meaning& m);
// Every element of an operand of this shape stays where it is: only the shape changes.
bool is_reshape(const Meaning& m, const Dims& from);
double operation_count(const Meaning& m);
std::string to_text(const Meaning& m);  // out[i0,i1] = sum(r2) x0[i0,i2] * x1[i2,i1]

}  // namespace emend
