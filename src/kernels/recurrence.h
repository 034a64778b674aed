// A loop over a cell, as data: in every step, matrices times vectors that the steps before made
// (the states), and nests of what becomes of the products. A body is cut into *stages*: products of
// what is known when the stage begins, then a nest of its stores. All threads must have finished a
// stage before the next one begins, because its products read whole vectors.
//
//   lstm, one stage:   sum = h r;   i, o, f, g = sum + x[t], c' = f c + i g, h' = o tanh c'
//   gru, two stages:   sum0 = h r0; v = reset(sum0 + x[t]) h   |   sum1 = v r1; h' = ...
//
// Every nest has the cell's units as its last iterator, and reads of a product only its own unit's
// columns: unit + a multiple of `units` (a gate). So units can be shared between threads.
#pragma once

#include <optional>
#include <vector>

#include "kernels/nest.h"
#include "ops/control.h"

namespace emend {

struct Recurrence {
  // What a stage loads or stores, or a product reads.
  struct Place {
    enum class Kind : uint8_t {
      iteration,  // the step's number
      operand,    // of the loop, `index`, as it is
      slice,      // of the loop's operand `index`: the step's share
      state,      // number `index`
      sum,        // of product `index`
      vector,     // number `index`: made by a stage for products of the next
      output,     // number `index`: what the step adds to it
    };
    Kind kind = Kind::operand;
    size_t index = 0;
    bool operator==(const Place&) const = default;
  };
  // A matrix [depth, gates * units], or transposed: the whole of an operand that is nothing else.
  struct Matrix {
    size_t operand = 0;
    int64_t depth = 0, gates = 0;
    bool transposed = false;  // lies as [gates * units, depth]
  };
  // rows x (gates * units): sums over the depth of vector[row, k] * matrix[k, first gate.. ].
  struct Product {
    size_t stage = 0, matrix = 0;
    int64_t first_gate = 0, gates = 0, rows = 1;
    Place vector;  // a state, a slice or a vector
    int64_t row_step = 0, k_step = 1;
  };
  // Places of the graph's inputs and outputs. In the nest, slices and outputs are addressed as
  // parts of their whole tensors, from the step's first element on.
  struct Stage {
    Graph graph;
    std::vector<Place> loads, stores;
    Nest nest;
  };
  // Elements from one step of a scanned operand, or of an output, to the next.
  struct Steps {
    int64_t stride = 0;
    bool reverse = false;
  };

  Loop loop;
  int64_t units = 0;
  std::vector<Matrix> matrices;
  std::vector<Product> products;
  std::vector<Type> vectors;
  std::vector<Stage> stages;
  std::vector<Steps> slices, outputs;
};

// Nothing for loops whose bodies are more, or less, than that.
std::optional<Recurrence> recurrence_of(const Loop& loop);
std::optional<Recurrence> recurrence_of(const Graph& g, NodeId n);
// How many rows there are of which none ever needs another's states: sequences of a batch. 0: there
// are no such.
int64_t separate_rows(const Recurrence& r);
// Arithmetic operations of all steps; bytes of the matrices, which every step reads.
double operation_count(const Recurrence& r);
double matrix_bytes(const Recurrence& r);

// Number `at` of elements in blocks of `block`, when blocks lie `step` apart.
Linear apart(IndexMath& math, const Linear& at, int64_t block, int64_t step);

}  // namespace emend
