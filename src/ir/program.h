// A program ready to be compiled and run: kernels as text, buffers with their places in memory, and
// steps in order. Device-neutral: a device compiles the text it understands and runs the steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/library_call.h"

namespace emend {

// One kernel: code, or calls of a library. Names in the text are made from its content, never from
// a model.
struct KernelCode {
  std::string text;                // a function of (void* const* buffers, first, last, fault)
  std::string entry;               // its name
  int64_t tasks = 1;               // independent pieces of work; a call does those in [first, last)
  std::vector<LibraryCall> calls;  // one per task; the text only says what they are
  size_t scratch_bytes = 0;        // memory that a thread has for itself meanwhile: the last buffer
  // Memory that the threads of a launch have together, behind the others. Not 0: its calls meet one
  // another, so that all tasks must be under way at the same time. The first kMeetingBytes are zero
  // before the first launch, and every launch leaves them as it needs them for the next.
  size_t shared_bytes = 0;
  bool operator==(const KernelCode&) const = default;
};

inline constexpr size_t kMeetingBytes = 128;

using BufferId = Id<struct BufferTag>;

struct Buffer {
  enum class Place : uint8_t {
    input,   // given by the caller: `index` is the program's input
    output,  // given to the caller: `index` is the program's output
    weight,  // constant: `index` into Program::weights
    arena,   // at `offset` of the memory shared by all intermediate values
    host,    // a value of the host's own steps: not plain memory
  };
  Place place = Place::arena;
  Type type;
  size_t bytes = 0;
  size_t index = 0;
  size_t offset = 0;
  BufferId whole;   // arena: what it is a part of, if not of memory of its own
  size_t from = 0;  // bytes from the beginning of that
};

struct Step {
  enum class Kind : uint8_t { launch, host, copy } kind = Kind::launch;
  size_t kernel = 0;      // launch: index into Program::kernels
  int64_t tasks = 1;      // launch: how many of the kernel; the same text may serve several sizes
  size_t group = 0;       // of the partition that it came from, or is done for
  bool converts = false;  // launch: only brings a value into another layout
  NodeId node;            // host: a node of Program::graph, evaluated by the reference
  std::vector<BufferId> loads, stores;
  Graph computes;               // launch: what it makes of its loads, as they lie in memory
  std::vector<NodeId> sources;  // launch: the nodes of Program::graph that it loads
  std::string label;            // for reports: the model's names of what it computes
  std::string how;              // for reports: the kernel and its configuration,
  double estimate_s = 0;        //   and what it was thought to take
};

// How a constant is laid out for the kernels that read it: the row-major array of `extents` whose
// element i is the constant's element first + sum of strides[k] i[k], or zero where a limit
// (0 <= constant + sum of coefs[k] i[k] < extent) says no. Then, as [any, columns of every matrix,
// inner], it is multiplied by the matrices, each along its own dimension.
struct Repacking {
  struct Limit {
    Dims coefs;
    int64_t constant = 0, extent = 0;
  };
  struct Matrix {
    int64_t rows = 0, columns = 0;
    std::vector<double> elements;
  };
  Dims extents, strides;
  int64_t first = 0;
  std::vector<Limit> limits;
  std::vector<Matrix> matrices;  // for f32 only
  int64_t inner = 1;
};

// How large the columns of a packed constant are, written behind it: of an array [outer, rows,
// middle, depth, lanes] of f32, for every outer, middle and lane, the largest over the rows of
// factors[row] times the root of the sum of squares along the depth. Kernels that lose more than a
// plain sum where magnitudes are uneven ask for them (kernels/cpu/sum_bound.h).
struct ColumnNorms {
  int64_t outer = 1, rows = 1, middle = 1, depth = 1, lanes = 1;
  std::vector<double> factors;
  int64_t count() const { return outer * middle * lanes; }
};

struct Weight {
  Tensor tensor;  // as the model has it
  std::optional<Repacking> packing = {};
  std::optional<ColumnNorms> norms = {};
};

struct Program {
  // What is computed; host steps and reports refer to it. Its constants are in `weights` only.
  Graph graph;
  std::vector<KernelCode> kernels;
  IdVec<BufferId, Buffer> buffers;
  std::vector<Weight> weights;
  std::vector<Step> steps;
  std::vector<BufferId> inputs, outputs;
  size_t arena_bytes = 0;        // as planned
  size_t arena_lower_bound = 0;  // the most that is alive at one step
};

// What every thread has for itself while a program runs, in whole pages.
size_t scratch_bytes(const Program& p);
// What they have together.
size_t shared_bytes(const Program& p);

}  // namespace emend
