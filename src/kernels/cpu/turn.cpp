// Copies that change which dimension lies along memory: layouts converted, transposes that are a
// step of their own. Squares of registers are transposed (tile_printer.h), so that both sides are
// read and written in whole lines; what is left at the ends is copied element by element.
//
//   to[x * x_step + y] = from[y * y_step + x]
#include <algorithm>

#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/cpu/tile_printer.h"

namespace emend {
namespace {

// Iterators that run through memory like one, outermost first.
struct Run {
  std::vector<int> iterators;
  int64_t extent = 1, from_step = 0, to_step = 0;
};

struct Turn {
  Nest nest;
  Run x, y;  // neighbours in what is read, and in what is written
  std::vector<int> outer;
};

// The run that the innermost of these iterators begins; it may be of one place.
Run run_from(const Nest& nest, const Linear& from, const Linear& to, int innermost) {
  Run run{{innermost},
          nest.math.extent(innermost),
          *nest.math.stride(from, innermost),
          *nest.math.stride(to, innermost)};
  for (bool longer = true; longer;) {
    longer = false;
    for (int a : nest.space) {
      bool taken = std::ranges::find(run.iterators, a) != run.iterators.end();
      if (taken || *nest.math.stride(from, a) != run.from_step * run.extent ||
          *nest.math.stride(to, a) != run.to_step * run.extent)
        continue;
      run.iterators.insert(run.iterators.begin(), a);
      run.extent *= nest.math.extent(a);
      longer = true;
    }
  }
  return run;
}

std::optional<Turn> turn_in(const GroupInMemory& in_memory, int64_t width) {
  const Graph& group = in_memory.graph;
  const Result<Nest>& nest = in_memory.nest;
  if (group.inputs.size() != 1 || group.outputs.size() != 1) return std::nullopt;
  auto f32 = [&](NodeId n) {
    return group.type(n).is_tensor() && group.type(n).dtype == DType::f32;
  };
  if (!f32(group.inputs[0].node) || !f32(group.outputs[0].node)) return std::nullopt;
  if (!nest || nest->values.size() != 1 || nest->stores.size() != 1) return std::nullopt;
  const NestValue& load = nest->values[0];
  if (load.kind != NestValue::Kind::load || !load.bounds.empty()) return std::nullopt;
  const Linear &from = load.at, &to = nest->stores[0].at;
  int first = -1, second = -1;
  for (int a : nest->space) {
    auto read = nest->math.stride(from, a), written = nest->math.stride(to, a);
    if (!read || !written) return std::nullopt;
    if (nest->math.extent(a) == 1) continue;
    if (*read == 1) first = a;
    if (*written == 1) second = a;
  }
  if (first < 0 || second < 0 || first == second) return std::nullopt;
  Turn t{*nest, run_from(*nest, from, to, first), run_from(*nest, from, to, second), {}};
  if (t.x.extent < width || t.y.extent < width) return std::nullopt;
  for (int a : nest->space) {
    auto in = [&](const Run& r) { return std::ranges::find(r.iterators, a) != r.iterators.end(); };
    if (in(t.x) && in(t.y)) return std::nullopt;
    if (!in(t.x) && !in(t.y)) t.outer.push_back(a);
  }
  return t;
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  const Graph& group = wanted.in_memory.graph;
  if (!turn_in(wanted.in_memory, target.vector_bytes / 4)) return {};
  constexpr double kAgainstPlain = 0.95;  // what plain loops take for as many bytes
  double bytes = 8 * static_cast<double>(count(group.type(group.outputs[0].node).shape));
  return {{.kernel = "turn",
           .config = {},
           .layouts = wanted.layouts,
           .estimate_s = target.launch_s + kAgainstPlain * bytes / target.bandwidth,
           .packing = {}}};
}

KernelCode emit(const Graph& logical, const Candidate& candidate, const Target& target) {
  GroupInMemory group(logical, candidate.layouts);
  const int64_t width = target.vector_bytes / 4;
  Turn t = *turn_in(group, width);
  // Tasks are pieces of the longer run: of the shorter one, lines that lie together are done at
  // once.
  const bool by_x = t.x.extent >= t.y.extent;
  const int64_t longer = std::max(t.x.extent, t.y.extent),
                shorter = std::min(t.x.extent, t.y.extent);
  constexpr int64_t kSquares = 4;
  const int64_t piece = kSquares * width, pieces = blocks(longer, piece);
  int64_t outside = 1;
  for (int a : t.outer) outside *= t.nest.math.extent(a);
  auto origin = [&](Linear at) {
    for (const Run* run : {&t.x, &t.y})
      for (int a : run->iterators) at = at + term(a, -*t.nest.math.stride(at, a));
    return t.nest.math.text(at, iterator_name);
  };
  auto squares = [&](const char* x, const char* y) {
    return str("ENTRY_turn(from + ", y, " * ", t.y.from_step, " + ", x, ", ", t.y.from_step,
               ", to + ", x, " * ", t.x.to_step, " + ", y, ", ", t.x.to_step, ");\n");
  };
  auto element = [&](const std::string& x, const std::string& y) {
    return str("to[(", x, ") * ", t.x.to_step, " + ", y, "] = from[(", y, ") * ", t.y.from_step,
               " + ", x, "];\n");
  };
  auto at = [&](const char* l, const char* s, auto&& print) {
    return by_x ? print(l, s) : print(s, l);
  };
  std::string text = declare_vector(width) + print_turn({.width = width});
  text += str(
      "void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n",
      declare_buffers(group.graph), "for (int64_t task = first; task < last; ++task) {\n",
      declare_digits(t.nest, t.outer, str("task / ", pieces)), "const int64_t lo = task % ", pieces,
      " * ", piece, ", hi = lo + ", piece, " < ", longer, " ? lo + ", piece, " : ", longer, ";\n",
      "const float* const from = x0 + ", origin(t.nest.values[0].at), ";\nfloat* const to = y0 + ",
      origin(t.nest.stores[0].at), ";\nint64_t l = lo;\nfor (; l + ", width, " <= hi; l += ", width,
      ") {\nint64_t s = 0;\nfor (; s + ", width, " <= ", shorter, "; s += ", width, ") ",
      at("l", "s", squares), "for (; s < ", shorter, "; ++s) for (int64_t i = 0; i < ", width,
      "; ++i) ", at("l + i", "s", element), "}\nfor (; l < hi; ++l) for (int64_t s = 0; s < ",
      shorter, "; ++s) ", at("l", "s", element), "}\n}\n");
  return named_kernel(std::move(text), outside * pieces);
}

}  // namespace

Kernel turn_kernel() {
  return {.name = "turn", .stores_anywhere = true, .candidates = candidates, .emit = emit};
}

}  // namespace emend
