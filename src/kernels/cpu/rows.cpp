// The template that computes any nest: one row at a time (row_printer.h). The space is cut into
// rows and everything outside of them: tasks, shared by the threads. What leaf reductions run over
// is inside of a task: their results are made by one thread each, always in the same order.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/cpu/work.h"
#include "kernels/nest_part.h"

namespace emend {
namespace {

struct RowShape {
  int lane = -1;
  int64_t chunk = 1;
  // Neighbours of what the lanes stride over lie along the next iterator of the space: it runs
  // before the next chunk does, so that what one read brought into the cache serves the following.
  bool turned = false;
};

// Iterators of the space that tasks share between them, besides the lanes.
std::vector<int> task_iterators(const Nest& nest, int lane) {
  std::vector<int> inner = left_out(nest), outer;
  for (int a : nest.space) {
    if (a != lane && std::ranges::find(inner, a) == inner.end()) outer.push_back(a);
  }
  return outer;
}

// Loads walk across memory along the lanes and along it one iterator further out.
bool is_turned(const Nest& nest) {
  if (nest.space.size() < 2 || !left_out(nest).empty()) return false;
  int lane = nest.space.back(), next = nest.space[nest.space.size() - 2];
  return std::ranges::any_of(nest.values, [&](const NestValue& v) {
    if (v.kind != NestValue::Kind::load) return false;
    auto across = nest.math.stride(v.at, lane), along = nest.math.stride(v.at, next);
    return across && *across > 16 && along && *along == 1;
  });
}

// Lanes are the innermost iterator of the space, unless reductions read memory in order along their
// own iterators and across it along the lanes.
RowShape shape_of(const Nest& nest, const Target& target) {
  RowShape shape;
  if (nest.space.empty()) return shape;
  int last = nest.space.back();
  int64_t along = 0, across = 0;
  bool over_lanes = false, rows = false, over_space = false;
  for (size_t i = 0; i < nest.values.size(); ++i) {
    const NestValue& v = nest.values[i];
    if (v.kind == NestValue::Kind::reduce) {
      bool local = free_atoms(nest, static_cast<int>(i))[static_cast<size_t>(last)];
      rows |= local;
      over_lanes |= std::find(v.over.begin(), v.over.end(), last) != v.over.end();
      for (int a : v.over) over_space |= std::ranges::find(nest.space, a) != nest.space.end();
    }
    if (v.kind != NestValue::Kind::load) continue;
    auto step = nest.math.stride(v.at, last);
    if (!step || (*step != 0 && *step != 1)) ++across;
    for (const NestValue& r : nest.values) {
      if (r.kind != NestValue::Kind::reduce) continue;
      // Too few neighbours to fill a register are no reason.
      for (int a : r.over) {
        along += a != last && nest.math.extent(a) >= 16 && nest.math.stride(v.at, a) == 1;
      }
    }
  }
  if (rows && !over_space && across > 0 && along >= across) return shape;
  shape.lane = last;
  int64_t extent = nest.math.extent(last), outer = 1;
  for (int a : task_iterators(nest, last)) outer *= nest.math.extent(a);
  shape.chunk = extent;
  if (!over_lanes) {
    int64_t limit = rows ? 1024 : 8192;
    int64_t pieces = std::max<int64_t>(1, 4 * target.threads / outer);
    shape.chunk = std::min({extent, limit, std::max<int64_t>(64, (extent + pieces - 1) / pieces)});
    constexpr int64_t kLines = 64;  // of the first-level cache, of which there are 512
    shape.turned = is_turned(nest) && extent > kLines;
    if (shape.turned) shape.chunk = kLines;
  }
  return shape;
}

bool is_turned_in_pieces(const Nest& nest, const RowShape& shape) {
  return shape.turned && nest.math.extent(shape.lane) > shape.chunk;
}

double bytes_of(const Type& t) {
  return static_cast<double>(count(t.shape)) * info(t.dtype).bits / 8;
}

// Constants come from main memory, and as they lie, not in the order in which they are needed. Of
// everything else the nearer caches hold some.
double moving_s(const Graph& group, const std::vector<bool>& constant, const Target& target) {
  constexpr double kNear = 512 << 10;  // bytes of a thread
  double moved = 0, read = 0;
  for (size_t i = 0; i < group.inputs.size(); ++i)
    (constant[i] ? read : moved) += bytes_of(group.type(group.inputs[i].node));
  for (const auto& o : group.outputs) moved += bytes_of(group.type(o.node));
  const double near = std::min(moved, kNear * target.threads);
  return (moved - near + near / target.costs.rows_near) / target.bandwidth +
         read / (target.memory_bandwidth() * target.costs.rows_unpacked);
}

// A reduction along an iterator that tasks share is done again for every step of that iterator.
double repetition(const Nest& nest, int lane) {
  double times = 1;
  for (int a : task_iterators(nest, lane)) {
    bool bound = std::ranges::any_of(nest.values, [&](const NestValue& v) {
      return v.kind == NestValue::Kind::reduce && std::ranges::find(v.over, a) != v.over.end();
    });
    if (bound) times *= static_cast<double>(nest.math.extent(a));
  }
  return times;
}

// The number of vectors that compilers make of so many lanes: full ones, one of half the width,
// single ones.
double vectors_of(int64_t lanes, int64_t width) {
  const int64_t rest = lanes % width;
  return static_cast<double>(lanes / width + rest / (width / 2) + rest % (width / 2));
}

// The iterator along which a value's vectors lie: the lanes, or what a reduction runs over; -1 for
// single numbers.
int along(const Nest& nest, const std::vector<bool>& iterators, int lane) {
  if (lane >= 0 && iterators[static_cast<size_t>(lane)]) return lane;
  for (size_t a = iterators.size(); a-- > 0;) {
    const bool summed = iterators[a] &&
                        nest.math.atom(static_cast<int>(a)).kind != Atom::Kind::value &&
                        std::ranges::find(nest.space, static_cast<int>(a)) == nest.space.end();
    if (summed) return static_cast<int>(a);
  }
  return -1;
}

// Steps of all values, and where rows begin.
double computing(const Nest& nest, const RowShape& shape, const Target& target) {
  const Costs& costs = target.costs;
  const int64_t width = target.vector_bytes / 4;
  const auto all_free = free_atoms(nest);
  double steps = 0;
  for (size_t i = 0; i < nest.values.size(); ++i) {
    const NestValue& v = nest.values[i];
    std::vector<bool> iterators = all_free[i];
    for (int a : v.over) iterators[static_cast<size_t>(a)] = true;
    const int lane = along(nest, iterators, shape.lane);
    double points = 1, vectors = 1;
    for (size_t a = 0; a < iterators.size(); ++a) {
      if (!iterators[a]) continue;
      const int64_t extent = nest.math.extent(static_cast<int>(a));
      points *= static_cast<double>(extent);
      vectors *=
          static_cast<int>(a) == lane ? vectors_of(extent, width) : static_cast<double>(extent);
    }
    Work work;
    work.add(v);
    double each = work.steps(costs);
    if (v.kind == NestValue::Kind::load && lane >= 0) {
      auto step = nest.math.stride(v.at, lane);
      const bool neighbours = step && (*step == 0 || *step == 1);
      if (!neighbours) steps += points / static_cast<double>(width) * costs.rows_strided;
      if (!v.bounds.empty()) each += costs.rows_bound;
    }
    if (v.kind == NestValue::Kind::reduce) {
      const bool row = shape.lane >= 0 && all_free[i][static_cast<size_t>(shape.lane)];
      each += row ? costs.rows_term : costs.work_plain;
    }
    steps += vectors * each;
  }
  double rows = 1;
  for (int a : nest.space) rows *= a == shape.lane ? 1 : static_cast<double>(nest.math.extent(a));
  return steps * repetition(nest, shape.lane) + rows * costs.rows_begin;
}

// The share of all tasks that the busiest thread has: one more than others, where they do not come
// out even.
double share_of_busiest(const Nest& nest, const RowShape& shape, int threads) {
  int64_t tasks = 1;
  for (int a : task_iterators(nest, shape.lane)) tasks *= nest.math.extent(a);
  if (shape.lane >= 0) tasks *= (nest.math.extent(shape.lane) + shape.chunk - 1) / shape.chunk;
  return static_cast<double>((tasks + threads - 1) / threads) / static_cast<double>(tasks);
}

double seconds_of(const Wanted& wanted, const Target& target) {
  const auto& [group, nest] = wanted.in_memory;
  const RowShape shape = shape_of(*nest, target);
  const double step_s = target.vector_bytes / 2.0 * target.threads / target.peak_flops;
  const double computed = computing(*nest, shape, target) * step_s *
                          share_of_busiest(*nest, shape, target.threads),
               moved = moving_s(group, wanted.constant, target);
  return target.launch_s + std::max(computed, moved) +
         target.costs.rows_apart * std::min(computed, moved);
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  if (!wanted.in_memory.nest) return {};
  return {{.kernel = "rows",
           .config = {},
           .layouts = wanted.layouts,
           .estimate_s = seconds_of(wanted, target),
           .packing = {}}};
}

// A row in parts, where the choice of what it is made of depends on the lane.
std::string print_lanes(const Nest& nest, const Graph& group, const RowShape& shape) {
  constexpr size_t kParts = 16;
  auto plain = [&] { return RowPrinter(nest, group, shape.lane, shape.chunk).print(); };
  if (shape.lane < 0) return plain();
  auto ends = changes_along(nest, shape.lane);
  // Reductions of every lane for itself are cut like what is elementwise.
  bool reduces = false;
  for (size_t v = 0; v < nest.values.size(); ++v) {
    if (nest.values[v].kind != NestValue::Kind::reduce) continue;
    bool of_lane = free_atoms(nest, static_cast<int>(v))[static_cast<size_t>(shape.lane)];
    reduces |=
        !of_lane || std::ranges::find(nest.values[v].over, shape.lane) != nest.values[v].over.end();
  }
  reduces |= !left_out(nest).empty();
  if (ends.empty() || ends.size() >= kParts || reduces) return plain();
  std::string text = "const int64_t begin = lo, end = hi;\n";
  ends.push_back(nest.math.extent(shape.lane));
  int64_t from = 0;
  for (int64_t to : ends) {
    Nest part = part_of(nest, shape.lane, from, to);
    text += str("{\nconst int64_t lo = begin < ", from, " ? ", from, " : begin, hi = end < ", to,
                " ? end : ", to, ";\n");
    text += RowPrinter(part, group, shape.lane, shape.chunk).print() + "}\n";
    from = to;
  }
  return text;
}

KernelCode emit(const Graph& logical, const Candidate& c, const Target& target) {
  Graph group = laid_out(logical, c.layouts);
  Nest nest = nest_of(group).value_or_throw();
  RowShape shape = shape_of(nest, target);
  std::vector<int> outer = task_iterators(nest, shape.lane);
  int64_t points = 1;
  for (int a : outer) points *= nest.math.extent(a);
  int64_t lanes = shape.lane >= 0 ? nest.math.extent(shape.lane) : 1;
  int64_t pieces = (lanes + shape.chunk - 1) / shape.chunk;
  std::string text =
      str("void ENTRY(void* const* buffers, int64_t first, int64_t last, ", "int32_t* fault) {\n",
          declare_buffers(group), "for (int64_t task = first; task < last; ++task) {\n");
  // Digits of a task: all of outer, then the piece; turned, the innermost of outer comes last.
  std::vector<int> after;
  if (is_turned_in_pieces(nest, shape)) {
    after = {outer.back()};
    outer.pop_back();
  }
  int64_t inner = after.empty() ? 1 : nest.math.extent(after[0]);
  text += declare_digits(nest, after, str("task % ", inner));
  if (pieces > 1) {
    text +=
        str("const int64_t lo = task / ", inner, " % ", pieces, " * ", shape.chunk, ", hi = lo + ",
            shape.chunk, " < ", lanes, " ? lo + ", shape.chunk, " : ", lanes, ";\n");
  } else if (shape.lane >= 0) {
    text += str("enum { lo = 0, hi = ", lanes, " };\n");
  }
  text += declare_digits(nest, outer, str("task / ", pieces * inner));
  text += print_lanes(nest, group, shape) + "}\n}\n";
  return named_kernel(std::move(text), points * pieces);
}

}  // namespace

bool rows_follow_space(const Nest& nest, const Target& target) {
  return !is_turned_in_pieces(nest, shape_of(nest, target));
}

Kernel rows_kernel() {
  return {.name = "rows",
          .stores_anywhere = true,
          .candidates = candidates,
          .emit = emit,
          .estimate = [](const Wanted& wanted, const Candidate&,
                         const Target& target) { return seconds_of(wanted, target); },
          .executes = 0.8};
}

}  // namespace emend
