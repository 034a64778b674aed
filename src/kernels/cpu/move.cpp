// Copies with zeros between: phases of an image side by side, tiles with a halo, borders, and the
// ways back. What is read and written is a sum of iterators times steps, in an order in which no
// dimension need be neighbours on both sides.
//
//   to[sum of iterators * steps] = from[sum of iterators * steps] where that is inside, else 0
//
// Lanes are the iterator along which both sides are nearest. Whether an element is inside is known
// for whole lanes or from one lane to another, so nothing is tested inside of the loops.
#include <algorithm>

#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"

namespace emend {
namespace {

struct Move {
  Nest nest;
  int lane = -1;
  std::vector<int> tasks, inner;  // the others, outermost first
  const NestValue& load() const { return nest.values[0]; }
  const NestStore& store() const { return nest.stores[0]; }
  int64_t extent(int a) const { return nest.math.extent(a); }
  int64_t from_step(int a) const { return *nest.math.stride(load().at, a); }
  int64_t to_step(int a) const { return *nest.math.stride(store().at, a); }
};

bool is_move(const Graph& group, const Nest& nest) {
  if (nest.values.size() != 1 || nest.stores.size() != 1) return false;
  const NestValue& load = nest.values[0];
  if (load.kind != NestValue::Kind::load || load.faults || load.outside != 0 ||
      load.dtype != group.type(group.outputs[0].node).dtype)
    return false;
  return std::ranges::all_of(nest.space, [&](int a) {
    return nest.math.stride(load.at, a) && nest.math.stride(nest.stores[0].at, a) &&
           std::ranges::all_of(
               load.bounds, [&](const Bound& b) { return nest.math.stride(b.at, a).has_value(); });
  });
}

// Where neighbours are neighbours on one side at least, and there are some; else where they lie
// nearest.
int best_lane(const Move& m) {
  constexpr int64_t kShort = 8;
  auto badness = [&](int a) {
    int64_t from = std::abs(m.from_step(a)), to = m.to_step(a);
    return std::tuple(m.extent(a) < kShort, (from != 1) + (to != 1), from + to);
  };
  return *std::ranges::min_element(m.nest.space, {}, badness);
}

std::optional<Move> move_in(const GroupInMemory& in_memory, const Target& target) {
  const Graph& group = in_memory.graph;
  const Result<Nest>& nest = in_memory.nest;
  if (group.inputs.size() != 1 || group.outputs.size() != 1) return std::nullopt;
  if (!nest || nest->space.empty() || !is_move(group, *nest)) return std::nullopt;
  Move m{*nest, -1, {}, {}};
  m.lane = best_lane(m);
  if (!declare_inside(m.nest, m.load().bounds, m.lane)) return std::nullopt;
  std::vector<int> others;
  for (int a : m.nest.space) {
    if (a != m.lane) others.push_back(a);
  }
  std::ranges::stable_sort(others, std::greater(), [&](int a) { return m.to_step(a); });
  // A task writes what the nearest cache holds, if there are tasks for all.
  constexpr int64_t kElements = 4096;
  int64_t tasks = 1, left = extent_of(m.nest, m.nest.space);
  for (int a : others) {
    bool cut = left > kElements || tasks < 4 * target.threads;
    (cut ? m.tasks : m.inner).push_back(a);
    if (!cut) continue;
    tasks *= m.extent(a);
    left /= m.extent(a);
  }
  return m;
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  const Graph& group = wanted.in_memory.graph;
  auto m = move_in(wanted.in_memory, target);
  if (!m) return {};
  auto real = [](int64_t x) { return static_cast<double>(x); };
  const int width = target.vector_bytes / 4;
  const double elements = real(extent_of(m->nest, m->nest.space)),
               rows = elements / real(m->extent(m->lane));
  bool reads = m->from_step(m->lane) == 1, writes = m->to_step(m->lane) == 1;
  constexpr double kRow = 12, kOneByOne = 1.5, kGathered = 0.6, kVector = 2;  // cycles
  double cycles = kRow * rows + elements * (reads && writes ? kVector / width
                                            : writes        ? kGathered
                                                            : kOneByOne);
  double bytes = (elements + real(count(group.type(group.inputs[0].node).shape))) *
                 info(m->load().dtype).bits / 8;
  double busy = std::min(real(target.threads), real(extent_of(m->nest, m->tasks)));
  constexpr double kAgainstPlain = 0.95;  // what plain loops take for as many bytes
  double seconds = std::max(kAgainstPlain * bytes / target.bandwidth,
                            cycles / busy * 2 * width * target.threads / target.peak_flops);
  return {{.kernel = "move",
           .config = {},
           .layouts = wanted.layouts,
           .estimate_s = target.launch_s + seconds,
           .packing = {}}};
}

KernelCode emit(const Graph& logical, const Candidate& candidate, const Target& target) {
  GroupInMemory group(logical, candidate.layouts);
  Move m = *move_in(group, target);
  const std::string i = iterator_name(m.lane);
  auto place = [&](const char* buffer, Linear at) {
    int64_t step = *m.nest.math.stride(at, m.lane);
    std::string origin = m.nest.math.text(at + term(m.lane, -step), iterator_name);
    return str(buffer, "[", origin, step == 0 ? "" : str(" + ", i, " * ", step), "]");
  };
  const std::string to = place("y0", m.store().at), from = place("x0", m.load().at);
  auto lanes = [&](const char* first, const char* last, const std::string& value) {
    std::string head = str("for (int64_t ", i, " = ", first, "; ", i, " < ", last, "; ++", i, ") ");
    if (m.to_step(m.lane) == 1) return str("#pragma GCC ivdep\n", head, to, " = ", value, ";\n");
    // Processors that have stores to several places take longer for one than for all its parts:
    // what stands between keeps the compiler from using them.
    return str("#pragma GCC unroll 4\n", head, "{\n", to, " = ", value,
               ";\n__asm__ volatile(\"\");\n}\n");
  };
  std::string body = str("enum { lo = 0, hi = ", m.extent(m.lane), " };\n");
  if (m.load().bounds.empty()) {
    body += lanes("lo", "hi", from);
  } else {
    body += *declare_inside(m.nest, m.load().bounds, m.lane) + lanes("lo", "in0", "0") +
            lanes("in0", "in1", from) + lanes("in1", "hi", "0");
  }
  for (size_t k = m.inner.size(); k-- > 0;) {
    std::string a = iterator_name(m.inner[k]);
    body = str("for (int64_t ", a, " = 0; ", a, " < ", m.extent(m.inner[k]), "; ++", a, ") {\n",
               body, "}\n");
  }
  std::string text =
      str("void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n",
          declare_buffers(group.graph), "for (int64_t task = first; task < last; ++task) {\n",
          declare_digits(m.nest, m.tasks, "task"), body, "}\n}\n");
  return named_kernel(std::move(text), extent_of(m.nest, m.tasks));
}

}  // namespace

Kernel move_kernel() {
  return {.name = "move", .stores_anywhere = true, .candidates = candidates, .emit = emit};
}

}  // namespace emend
