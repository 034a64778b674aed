// What a group computes, as data: for every point of a space, values made of loads, scalar bodies
// and reductions, and stores of some of them. Views have become index functions, elementwise
// operators are compute nodes, a nucleus is a reduce node: this is the tree that every template
// prints in its own way (a row at a time, as the epilogue of a contraction, as a CUDA block).
//
//   softmax over rows, space (i < 8, j < 64):
//     v0 = load x[64 i + j]     v1 = reduce max over j of v0     v2 = exp(v0 - v1)
//     v3 = reduce sum over j of v2                               store y[64 i + j] = v2 / v3
//
// Values are in topological order, equal ones are one. A reduction may bind an iterator of the
// space that its result does not depend on, as above: then its terms are shared with later uses.
// A store that leaves iterators of the space out is a smaller tensor: statistics of the rows above,
// or a *leaf reduction* beside a main output (the gradient of a bias).
#pragma once

#include <cmath>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "kernels/index_math.h"
#include "ops/meaning.h"

namespace emend {

struct Bound {
  Linear at;  // inside iff 0 <= at < extent
  int64_t extent = 0;
  bool operator==(const Bound&) const = default;
};

struct NestValue {
  enum class Kind : uint8_t { load, compute, reduce, index };
  Kind kind = Kind::load;
  DType dtype = DType::f32;  // what the value is rounded to
  DType work = DType::f32;   // what it is computed in: f32, f64, i64 or u64

  int buffer = -1;  // load: which input of the group
  Linear at;        // load: the element's number; index: the number itself
  // load: conditions; where one fails the value is `outside`. compute: what the body says, if it
  // is the mask of its first argument.
  std::vector<Bound> bounds;
  double outside = 0;
  bool faults = false;  // load: a failed bound is an error of the data, not a value

  Scalar body;            // compute
  std::vector<int> args;  // compute: values for the body's arguments; reduce: the one reduced
  Reduce reduce = Reduce::none;
  std::vector<int> over;  // reduce: iterators (atoms)
  bool operator==(const NestValue&) const = default;
};

struct NestStore {
  int buffer = 0;  // which output of the group
  int value = 0;
  Linear at;
  bool operator==(const NestStore&) const = default;
};

struct Nest {
  IndexMath math;
  // Iterators, outermost first. A store is one to one on those that it names: all, or all but the
  // ones that the leaf reductions of the nest run over.
  std::vector<int> space;
  std::vector<NestValue> values;
  std::vector<NestStore> stores;
};

// The element type that arithmetic on these types is done in, as the reference does it, except
// that narrow floats are computed in f32. Nothing for types that C has no arithmetic for.
std::optional<DType> working_type(std::span<const DType> types);

// Why a node cannot be part of any nest; empty if it can.
std::string not_nestable(const Graph& g, NodeId n);

// The nest of a group: inputs are loads, outputs are stores, in row-major order. The outputs have
// one number of elements, or are reductions of tensors of that size over the same axes. Rows of
// `row` elements, if that is more than one, are an iterator of their own even where no view asks
// for it. Fails with the reason.
Result<Nest> nest_of(const Graph& group, int64_t row = 1);

// Iterators of the space that not every store names: they cannot be shared between tasks.
std::vector<int> left_out(const Nest& nest);
// Reductions over just those that only smaller stores need: done while the space is run through.
// (A nest whose smaller stores need others is none: nest_of fails.)
std::vector<int> leaf_reductions(const Nest& nest);

// Per value, the iterators that it depends on: free ones, without those bound by reductions.
std::vector<std::vector<bool>> free_atoms(const Nest& nest);
std::vector<bool> free_atoms(const Nest& nest, int value);
// The least and the largest that a value can be, as far as it is known by its type or by the
// extremes it was made with; floats may be no number besides. Of a body: before it is rounded.
struct Range {
  double low = -HUGE_VAL, high = HUGE_VAL;
};
Range known_range(const Nest& nest, int value);
Range body_range(const Nest& nest, const NestValue& u);
// Arithmetic operations of one run, functions as the plain ones that they are worth.
double operation_count(const Nest& nest);
std::string to_text(const Nest& nest);

// e^(x - max x), f32, the maximum being taken along the row.
bool is_exp_of_distance(const Nest& nest, const NestValue& u);

}  // namespace emend
