// The template that computes any nest: one row at a time (row_printer.h). The space is cut into
// rows and everything outside of them: tasks, shared by the threads. What leaf reductions run over
// is inside of a task: their results are made by one thread each, always in the same order.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"
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

// Constants come from main memory, and as they lie, not in the order in which they are needed.
double reading_s(const Graph& group, const std::vector<bool>& constant, const Target& target) {
  constexpr double kUnpacked = 0.6;  // of what memory gives; measured on matrices times a vector
  auto bytes = [&](NodeId n) {
    const Type& t = group.type(n);
    return static_cast<double>(count(t.shape)) * info(t.dtype).bits / 8;
  };
  double seconds = 0;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    double rate = constant[i] ? target.memory_bandwidth() * kUnpacked : target.bandwidth;
    seconds += bytes(group.inputs[i].node) / rate;
  }
  for (const auto& o : group.outputs) seconds += bytes(o.node) / target.bandwidth;
  return seconds;
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

// Against vectors that are full and read neighbours.
double slowdown(const Nest& nest, const Target& target) {
  constexpr double kStrided = 4;
  int lane = shape_of(nest, target).lane;
  double again = repetition(nest, lane);
  if (lane < 0) return again;
  double width = target.vector_bytes / 4.0;
  double empty = std::max(1.0, width / static_cast<double>(nest.math.extent(lane)));
  bool strided = std::ranges::any_of(nest.values, [&](const NestValue& v) {
    if (v.kind != NestValue::Kind::load) return false;
    auto step = nest.math.stride(v.at, lane);
    return !step || (*step != 0 && *step != 1);
  });
  return again * (strided ? std::max(kStrided, empty) : empty);
}

// Finding out where a row is, and asking what of it is inside: dear where rows are short.
double beginning_s(const Nest& nest, const Target& target) {
  constexpr double kCycles = 20;
  int lane = shape_of(nest, target).lane;
  double rows = 1;
  for (int a : nest.space) rows *= a == lane ? 1 : static_cast<double>(nest.math.extent(a));
  return rows * kCycles * target.vector_bytes / 2 / target.peak_flops;
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  const auto& [group, nest] = wanted.in_memory;
  if (!nest) return {};
  double seconds =
      target.launch_s +
      std::max({reading_s(group, wanted.constant, target), beginning_s(*nest, target),
                operation_count(*nest) * slowdown(*nest, target) / (target.peak_flops / 8)});
  return {{.kernel = "rows",
           .config = {},
           .layouts = wanted.layouts,
           .estimate_s = seconds,
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
          .executes = 0.8};
}

}  // namespace emend
