// A convolution and the windows that read its result (pooling), without that result ever being in
// memory as a whole: a task is a row of the windows' results; rows of the convolution that it needs
// are computed into scratch memory that the second-level cache holds, and those that the next task
// needs again are kept. Both parts are kernels of the catalogue, `direct` and `rows`, whose tasks
// are in the order of rows: each is called for some of its tasks, with a pointer to what lies
// between that is moved so that the rows it means are the ones that are kept.
#include <algorithm>
#include <map>

#include "base/integer.h"
#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/window.h"
#include "kernels/group.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr int kBetween = -1;

// A part of a group as a group of its own.
struct Part {
  Graph graph;
  std::vector<int> loads;  // which input of the whole group, or what lies between
};

struct Stack {
  Part first, then;
  Type between;
};

bool is_contraction(const Graph& g, NodeId n) {
  return op_def(g.nodes[n]).kind == Kind::contraction;
}

bool has_reduction(const Graph& group) {
  auto nest = nest_of(group);
  return nest && std::ranges::any_of(nest->values, [](const NestValue& v) {
           return v.kind == NestValue::Kind::reduce;
         });
}

// Where everything behind a convolution reads one value and a reduction is behind it: at the
// smallest such value, and the last of those.
std::optional<Stack> stack_in(const Graph& group) {
  if (group.outputs.size() != 1) return std::nullopt;
  std::map<NodeId, int> inputs;
  for (size_t i = 0; i < group.inputs.size(); ++i)
    inputs[group.inputs[i].node] = static_cast<int>(i);
  auto is_given = [&](NodeId n) { return inputs.count(n) > 0 || group.is_constant(n); };
  auto part = [&](std::vector<NodeId> nodes, NodeId store, NodeId cut) {
    Outline o = outlined(group, {.nodes = std::move(nodes), .stores = {store}, .reason = {}});
    Part p{std::move(o.graph), {}};
    for (NodeId n : o.loads) p.loads.push_back(n == cut ? kBetween : inputs.at(n));
    return p;
  };
  std::optional<Stack> best;
  for (size_t i = group.size(); i-- > 0;) {
    NodeId cut(i), last = group.outputs[0].node;
    if (is_given(cut) || cut == last) continue;
    std::vector<bool> below(group.size(), false);
    below[i] = true;
    for (size_t k = i + 1; k-- > 0;) {
      if (!below[k]) continue;
      for (NodeId a : group.nodes[NodeId(k)].args) below[a.value] = true;
    }
    std::vector<NodeId> before, behind;
    bool convolves = false, cuts = !below[last.value];
    for (size_t k = 0; k < group.size(); ++k) {
      NodeId n(k);
      if (is_given(n)) continue;
      (below[k] ? before : behind).push_back(n);
      convolves |= below[k] && is_contraction(group, n);
      cuts &= below[k] || !is_contraction(group, n);
      for (NodeId a : group.nodes[n].args)
        cuts &= below[k] || is_given(a) || a == cut || !below[a.value];
    }
    if (!cuts || !convolves) continue;
    Stack s{part(before, cut, cut), part(behind, last, cut), group.type(cut)};
    bool smaller = !best || count(s.between.shape) < count(best->between.shape);
    if (smaller && has_reduction(s.then.graph)) best = std::move(s);
  }
  return best;
}

// Rows are everything of one place along the outermost dimension of an image.
struct RowsBetween {
  int64_t images = 1, from = 1, to = 1;  // rows of an image that are read, and that are made
  int64_t floats = 1;                    // of a row that lies between
  // Row r needs those from r * step + least to r * step + most, as far as they are inside.
  int64_t step = 1, least = 0, most = 0;
  int64_t kept(int64_t band) const { return std::min(from, (band - 1) * step + most - least + 1); }
};

// Of the part behind, as it lies in memory.
std::optional<RowsBetween> rows_between(const Graph& then, const Part& part, const Dims& stored,
                                        const Target& target) {
  auto nest = nest_of(then);
  if (!nest || !left_out(*nest).empty() || !rows_follow_space(*nest, target)) return std::nullopt;
  RowsBetween r{.images = stored[0], .from = stored[1]};
  r.floats = count(stored) / (r.images * r.from);
  size_t outermost = r.images > 1 ? 1 : 0;
  // The lanes of `rows` run along the last of the space, which is then no row.
  if (nest->space.size() <= outermost + 1) return std::nullopt;
  int image = nest->space[0], row = nest->space[outermost];
  if (outermost && nest->math.extent(image) != r.images) return std::nullopt;
  r.to = nest->math.extent(row);
  bool any = false;
  for (const NestValue& v : nest->values) {
    bool reads =
        v.kind == NestValue::Kind::load && part.loads[static_cast<size_t>(v.buffer)] == kBetween;
    if (!reads) continue;
    auto step = nest->math.stride(v.at, row);
    auto by_image = outermost ? nest->math.stride(v.at, image) : 0;
    if (!step || *step <= 0 || *step % r.floats != 0 || !by_image) return std::nullopt;
    if (outermost && *by_image != r.from * r.floats) return std::nullopt;
    if (any && *step != r.step * r.floats) return std::nullopt;
    Linear rest = v.at + term(row, -*step);
    if (outermost) rest = rest + term(image, -*by_image);
    auto [low, high] = nest->math.range(rest);
    r.step = *step / r.floats;
    r.least = any ? std::min(r.least, floor_div(low, r.floats)) : floor_div(low, r.floats);
    r.most = any ? std::max(r.most, floor_div(high, r.floats)) : floor_div(high, r.floats);
    any = true;
  }
  return any ? std::optional(r) : std::nullopt;
}

// The tasks of `direct` are rows, or parts of such, in the order of memory: where rows are one
// element long, its tasks are whole columns.
bool rows_in_order(const GroupInMemory& first, const std::vector<bool>& constant, int64_t width,
                   int64_t rows) {
  auto w = window_in(first, constant, width);
  if (!w || w->nest.stores.size() != 1 || w->row_count() % rows != 0) return false;
  int64_t step = w->extent(w->column) * w->lanes();
  for (size_t i = w->rows.size(); i-- > 0;) {
    if (w->extent(w->rows[i]) > 1 && w->nest.math.stride(w->nest.stores[0].at, w->rows[i]) != step)
      return false;
    step *= w->extent(w->rows[i]);
  }
  return true;
}

struct Config {
  int64_t columns = 8, vectors = 1, chunks = 1;  // those of `direct`
  int64_t band = 1;                              // rows that are made at a time
  EMEND_FIELDS(columns, vectors, chunks, band)
};

// A group in its two parts, with layouts.
struct Plan {
  Stack stack;
  Layouts first, then;
  RowsBetween rows;
  std::vector<bool> constant;  // loads of the first part
};

std::optional<Plan> plan_of(const Graph& group, const Layouts& layouts,
                            const std::vector<bool>& constant, const Target& target) {
  auto stack = stack_in(group);
  if (!stack || stack->between.shape.size() < 4 || stack->between.dtype != DType::f32)
    return std::nullopt;
  Layout between = channels_last(stack->between.shape);
  const Dims& made = group.type(group.outputs[0].node).shape;
  bool last = !between.order.empty() && made.size() == stack->between.shape.size() &&
              !channels_last(made).order.empty() &&
              layouts.store(0).order == channels_last(made).order;
  if (!last) return std::nullopt;
  Plan p{.stack = std::move(*stack)};
  for (int i : p.stack.first.loads) {
    p.first.loads.push_back(layouts.load(static_cast<size_t>(i)));
    p.constant.push_back(constant[static_cast<size_t>(i)]);
  }
  p.first.stores = {between};
  for (int i : p.stack.then.loads)
    p.then.loads.push_back(i == kBetween ? between : layouts.load(static_cast<size_t>(i)));
  p.then.stores = {layouts.store(0)};
  auto rows = rows_between(laid_out(p.stack.then.graph, p.then), p.stack.then,
                           stored_shape(p.stack.between.shape, between), target);
  if (!rows || !rows_in_order(GroupInMemory(p.stack.first.graph, p.first), p.constant,
                              target.vector_bytes / 4, rows->images * rows->from))
    return std::nullopt;
  p.rows = *rows;
  return p;
}

// As many rows at a time as stay near; 0: not even one does.
int64_t band_of(const RowsBetween& r) {
  constexpr int64_t kNear = 320 << 10, kMost = 640 << 10;  // bytes
  int64_t band = 0;
  for (int64_t b : {1, 2, 3, 4, 6, 8}) {
    if (4 * r.kept(b) * r.floats <= (b == 1 ? kMost : kNear)) band = b;
  }
  return band;
}

double bytes_of(const Type& t) {
  return 4 * static_cast<double>(count(t.shape));
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  auto p = plan_of(wanted.group, wanted.layouts, wanted.constant, target);
  if (!p) return {};
  int64_t band = band_of(p->rows);
  std::vector<bool> none(p->stack.then.loads.size(), false);
  auto then = rows_kernel().candidates({p->stack.then.graph, none, p->then}, target);
  if (band == 0 || then.empty()) return {};
  // What lies between is neither written to nor read from memory; but what a thread's own cache
  // holds is not either. Every thread's first row needs some that another thread makes, too.
  constexpr double kOwn = 1 << 20, kLeast = 0.3;
  double between = bytes_of(p->stack.between), behind = then[0].estimate_s + target.launch_s;
  if (between >= kOwn * target.threads) {
    behind = std::max(kLeast * then[0].estimate_s, then[0].estimate_s - between / target.bandwidth);
  }
  auto again =
      static_cast<double>(std::max<int64_t>(0, p->rows.most - p->rows.least + 1 - p->rows.step));
  again *= (target.threads - 1) / static_cast<double>(p->rows.images * p->rows.from);
  constexpr size_t kMany = 32;  // most are cut by lanes, too
  std::vector<Candidate> found;
  for (Candidate& c :
       direct_kernel().candidates({p->stack.first.graph, p->constant, p->first, kMany}, target)) {
    auto f = c.config.as<Config>();
    if (f.chunks != 1) continue;
    f.band = band;
    Candidate joined{.kernel = "stacked", .config = to_attrs(f), .layouts = wanted.layouts};
    joined.estimate_s = c.estimate_s * (1 + again) + behind - target.launch_s;
    joined.packing.resize(wanted.group.inputs.size());
    for (size_t i = 0; i < c.packing.size(); ++i)
      joined.packing[static_cast<size_t>(p->stack.first.loads[i])] = std::move(c.packing[i]);
    found.push_back(std::move(joined));
    if (found.size() >= wanted.kept(4)) break;
  }
  return found;
}

// The kernel as a function of the text that it becomes a part of.
std::string as_function(KernelCode code, const std::string& name) {
  for (size_t at = 0; (at = code.text.find(code.entry, at)) != std::string::npos; at += name.size())
    code.text.replace(at, code.entry.size(), name);
  std::string head = str("void ", name, "(");
  code.text.insert(code.text.find(head), "static ");
  return std::move(code.text);
}

std::string arguments(const char* name, const Part& part, int64_t results) {
  std::string text = str("void* ", name, "[] = {");
  for (int i : part.loads) text += i == kBetween ? "0, " : str("buffers[", i, "], ");
  return text + (results < 0 ? "0" : str("buffers[", results, "]")) + "};\n";
}

KernelCode emit(const Graph& group, const Candidate& c, const Target& target) {
  std::vector<bool> constant;
  for (size_t i = 0; i < group.inputs.size(); ++i)
    constant.push_back(i < c.packing.size() && !c.packing[i].outputs.empty());
  Plan p = *plan_of(group, c.layouts, constant, target);
  auto f = c.config.as<Config>();
  Candidate first{.kernel = "direct", .config = c.config, .layouts = p.first},
      then{.kernel = "rows", .config = {}, .layouts = p.then};
  for (int i : p.stack.first.loads) first.packing.push_back(c.packing[static_cast<size_t>(i)]);
  KernelCode below = direct_kernel().emit(p.stack.first.graph, first, target);
  KernelCode above = rows_kernel().emit(p.stack.then.graph, then, target);
  const RowsBetween& r = p.rows;
  int64_t rows_below = r.images * r.from, rows_above = r.images * r.to;
  EMEND_ASSERT(below.tasks % rows_below == 0 && above.tasks % rows_above == 0);
  int64_t each = below.tasks / rows_below, each_above = above.tasks / rows_above;
  auto between = std::ranges::find(p.stack.then.loads, kBetween) - p.stack.then.loads.begin();
  std::string text =
      as_function(std::move(below), "ENTRY_first") + as_function(std::move(above), "ENTRY_then");
  text += str(
      "void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n",
      arguments("of_first", p.stack.first, -1),
      arguments("of_then", p.stack.then, static_cast<int64_t>(group.inputs.size())),
      "char* const kept = buffers[", group.inputs.size() + 1, "];\nint64_t from = 0, to = 0;\n",
      "for (int64_t at = first, count; at < last; at += count) {\nconst int64_t image = at / ",
      r.to, ", row = at % ", r.to, ";\ncount = ", r.to, " - row < ", f.band, " ? ", r.to,
      " - row : ", f.band, ";\nif (count > last - at) count = last - at;\nint64_t begin = row * ",
      r.step, " + ", r.least, ", end = (row + count - 1) * ", r.step, " + ", r.most + 1,
      ";\nif (begin < 0) begin = 0;\nif (end > ", r.from, ") end = ", r.from,
      ";\nif (begin > end) begin = end;\nbegin += image * ", r.from, ";\nend += image * ", r.from,
      ";\n");
  const int64_t bytes = 4 * r.floats;
  text += str("if (begin >= from && begin < to) __builtin_memmove(kept, kept + (begin - from) * ",
              bytes, ", (to - begin) * ", bytes, ");\nelse to = begin;\nfrom = begin;\nof_first[",
              p.stack.first.loads.size(), "] = of_then[", between, "] = kept - from * ", bytes,
              ";\nif (to < end) {\nENTRY_first(of_first, to * ", each, ", end * ", each,
              ", fault);\nto = end;\n}\nENTRY_then(of_then, at * ", each_above, ", (at + count) * ",
              each_above, ", fault);\n}\n}\n");
  KernelCode code = named_kernel(std::move(text), rows_above);
  code.scratch_bytes = static_cast<size_t>(bytes * r.kept(f.band));
  return code;
}

}  // namespace

Kernel stacked_kernel() {
  return {.name = "stacked",
          .stores_anywhere = true,
          .candidates = candidates,
          .emit = emit,
          .joins = true};
}

}  // namespace emend
