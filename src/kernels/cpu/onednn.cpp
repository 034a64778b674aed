// oneDNN's convolution and matrix product, with what it can do to the sums before they are stored.
// The library is called by our own threads, each with a part of the rows of the output, and never
// starts threads itself: two pools on the same cores would wait for each other.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/cpu.h"
#include "ops/contraction.h"
#include "ops/table.h"

namespace emend {
namespace {

using After = CallEpilogue::Kind;

// Measured: what is reached of the processor's peak, and what a call costs.
constexpr double kShareOfPeak = 0.97, kShareOfPeakFirst = 0.85, kCall_s = 3e-6;
constexpr double kShareOfPeakMatmul = 0.93;
// Few sums per loaded element: bound by what a core reads and writes in its second-level cache.
constexpr double kShareOfPeakDepthwise = 0.4, kShareOfPeakFewChannels = 0.35;
// Of that, where groups have strides.
constexpr double kShareWithStrides = 0.6;
// Caches that are nearer than the one that the machine's rate is of are so much faster.
constexpr double kNear = 4;

// A step of the epilogue, before the output is cut into parts.
struct Stage {
  After kind = After::relu;
  double a = 0, b = 0;
  int64_t load = -1;
};

// The group as one nucleus and a chain of stages after it.
struct Chain {
  NodeId nucleus;
  std::vector<Stage> stages;
  std::set<NodeId> turned;  // transposes of matrices that are loaded
};

std::optional<Stage> unary_stage(const Node& n) {
  const std::string& name = op_def(n).name;
  if (name == "relu") return Stage{After::relu};
  if (name == "tanh") return Stage{After::tanh};
  if (name == "clip")
    return Stage{After::clip, n.attrs.get<double>("min"), n.attrs.get<double>("max")};
  return std::nullopt;
}

std::optional<int64_t> input_number(const Graph& group, NodeId n) {
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    if (group.inputs[i].node == n) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

std::optional<Stage> binary_stage(const Graph& group, NodeId n, NodeId chain) {
  const Node& node = group.nodes[n];
  const std::string& name = op_def(node).name;
  bool left = node.args[0] == chain;
  NodeId other = node.args[left ? 1 : 0];
  if (other == chain) return std::nullopt;
  if (group.is_constant(other)) {
    double c = load_real(DType::f32, group.constant(other).data(), 0);
    if (name == "add") return Stage{After::linear, 1, c};
    if (name == "mul") return Stage{After::linear, c, 0};
    if (name == "sub" && left) return Stage{After::linear, 1, -c};
    return std::nullopt;
  }
  auto load = input_number(group, other);
  if (!load) return std::nullopt;
  if (name == "add") return Stage{After::add, 0, 0, *load};
  if (name == "mul") return Stage{After::multiply, 0, 0, *load};
  if (name == "sub" && left) return Stage{After::subtract, 0, 0, *load};
  return std::nullopt;
}

// Sums of two loads that join the chain later: each is added on its own then.
using SideSums = std::map<NodeId, std::vector<Stage>>;

std::optional<std::vector<Stage>> side_sum(const Graph& group, const Node& node) {
  if (op_def(node).name != "add") return std::nullopt;
  std::vector<Stage> stages;
  for (NodeId a : node.args) {
    auto load = input_number(group, a);
    if (!load) return std::nullopt;
    stages.push_back({After::add, 0, 0, *load});
  }
  return stages;
}

// What a node does to the chain that has come to `at`; none if it does something else.
std::vector<Stage> stages_of(const Graph& group, NodeId n, NodeId at, const SideSums& sides) {
  const Node& node = group.nodes[n];
  if (std::ranges::find(node.args, at) == node.args.end()) return {};
  if (group.type(n).shape != group.type(at).shape) return {};
  std::optional<Stage> stage;
  if (node.args.size() == 1) stage = unary_stage(node);
  if (node.args.size() == 2) {
    auto side = sides.find(node.args[node.args[0] == at ? 1 : 0]);
    if (side != sides.end()) {
      return op_def(node).name == "add" ? side->second : std::vector<Stage>{};
    }
    stage = binary_stage(group, n, at);
  }
  if (!stage) return {};
  return {*stage};
}

bool is_turned_input(const Graph& group, const Node& node) {
  return op_def(node).name == "transpose" && node.attrs.get<Dims>("perm") == Dims{1, 0} &&
         input_number(group, node.args[0]);
}

std::optional<Chain> chain_of(const Graph& group, std::string_view nucleus) {
  Chain chain;
  SideSums sides;
  bool found = false;
  NodeId at;
  for (size_t i = 0; i < group.size(); ++i) {
    NodeId n{i};
    const Node& node = group.nodes[n];
    if (group.type(n).dtype != DType::f32) return std::nullopt;
    if (node.op == kInputOp || node.op == kConstantOp) continue;
    if (op_def(node).name == nucleus) {
      if (found) return std::nullopt;
      found = true;
      chain.nucleus = at = n;
    } else if (is_turned_input(group, node)) {
      chain.turned.insert(n);
    } else if (auto side = side_sum(group, node)) {
      sides[n] = std::move(*side);
    } else {
      auto stages = found ? stages_of(group, n, at, sides) : std::vector<Stage>{};
      if (stages.empty()) return std::nullopt;
      chain.stages.insert(chain.stages.end(), stages.begin(), stages.end());
      at = n;
    }
  }
  // Nothing in between is stored: the last stage is the only output.
  bool whole = found && group.outputs.size() == 1 && group.outputs[0].node == at;
  if (!whole) return std::nullopt;
  return chain;
}

// Weights that are packed are not there as they were.
bool is_operand(const Chain& chain, int64_t load) {
  return std::ranges::any_of(chain.stages, [&](const Stage& s) { return s.load == load; });
}

Dims dense_strides(const Dims& dims, const Layout& layout) {
  Dims strides(dims.size(), 1);
  int64_t step = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    auto d = layout.plain() ? k : static_cast<size_t>(layout.order[k]);
    strides[d] = step;
    step *= dims[d];
  }
  return strides;
}

// An operand that is broadcast to the output's shape.
CallOperand broadcast_operand(const Graph& group, const Layouts& layouts, int64_t load,
                              size_t rank) {
  const Dims& shape = group.type(group.inputs[static_cast<size_t>(load)].node).shape;
  CallOperand o{.buffer = load, .dims = shape};
  o.strides = dense_strides(shape, layouts.load(static_cast<size_t>(load)));
  while (o.dims.size() < rank) {
    o.dims.insert(o.dims.begin(), 1);
    o.strides.insert(o.strides.begin(), count(shape));
  }
  return o;
}

// Only these indices of a dimension, unless there is just one for all.
void narrow(CallOperand& o, size_t dim, int64_t from, int64_t to) {
  if (o.dims[dim] == 1 && to - from != 1) return;
  if (o.dims[dim] == 1 && from > 0) return;
  o.offset += from * o.strides[dim];
  o.dims[dim] = to - from;
}

std::vector<CallEpilogue> epilogue_of(const Graph& group, const Layouts& layouts,
                                      const Chain& chain, size_t rank) {
  std::vector<CallEpilogue> all;
  for (const Stage& s : chain.stages) {
    CallEpilogue e{s.kind, s.a, s.b, {}};
    if (s.load >= 0) e.with = broadcast_operand(group, layouts, s.load, rank);
    all.push_back(std::move(e));
  }
  return all;
}

struct Config {
  int64_t parts = 1;
  bool pack = true;  // the second factor is constant
  EMEND_FIELDS(parts, pack)
};

// Packed weights come in blocks of up to 64 of what runs along the vectors.
double growth_of(int64_t elements, int64_t along) {
  constexpr double kBlock = 64;
  auto bytes = static_cast<double>(elements) * 4, n = static_cast<double>(along);
  return bytes * (std::ceil(n / kBlock) * kBlock / n - 1);
}

// ---- convolutions, channels last

struct ConvolutionGroup {
  Conv attrs;
  Chain chain;
  int64_t x = 0, w = 0;
  Dims in, weights, out;
};

std::optional<ConvolutionGroup> convolution_in(const Graph& group) {
  auto chain = chain_of(group, "conv");
  if (!chain) return std::nullopt;
  const Node& conv = group.nodes[chain->nucleus];
  auto x = input_number(group, conv.args[0]), w = input_number(group, conv.args[1]);
  if (!x || !w) return std::nullopt;
  ConvolutionGroup c{conv.attrs.as<Conv>(), std::move(*chain), *x, *w};
  c.in = group.type(conv.args[0]).shape;
  c.weights = group.type(conv.args[1]).shape;
  c.out = group.type(c.chain.nucleus).shape;
  size_t rank = c.in.size();
  if (rank < 3 || rank > 5 || c.attrs.strides.size() != rank - 2) return std::nullopt;
  for (const Dims* d : {&c.in, &c.weights, &c.out}) {
    if (std::ranges::find(*d, 0) != d->end()) return std::nullopt;
  }
  if (c.x == c.w || is_operand(c.chain, c.w)) return std::nullopt;
  return c;
}

bool is_channels_last(const Dims& shape, const Layout& l) {
  return l == channels_last(shape);
}

// The output's rows [from, to) of one image, and the input's that they need.
LibraryCall rows_call(const Graph& group, const ConvolutionGroup& c, const Layouts& layouts,
                      int64_t image, int64_t from, int64_t to) {
  size_t space = c.in.size() - 2;
  const Conv& a = c.attrs;
  LibraryCall call{.what = LibraryCall::What::convolution,
                   .pack = true,
                   .strides = a.strides,
                   .dilations = a.dilations,
                   .pads = a.pads};
  call.in = {.buffer = c.x,
             .dims = c.in,
             .strides = dense_strides(c.in, layouts.load(static_cast<size_t>(c.x)))};
  call.out = {.buffer = static_cast<int64_t>(group.inputs.size()),
              .dims = c.out,
              .strides = dense_strides(c.out, layouts.store(0))};
  call.weights = {.buffer = c.w, .dims = c.weights};
  if (a.group > 1) {
    call.weights.dims[0] /= a.group;
    call.weights.dims.insert(call.weights.dims.begin(), a.group);
  }
  call.weights.strides = dense_strides(call.weights.dims, {});
  int64_t window = a.dilations[0] * (c.weights[2] - 1) + 1;
  int64_t first = from * a.strides[0] - a.pads[0];
  int64_t last = (to - 1) * a.strides[0] - a.pads[0] + window;
  int64_t lo = std::clamp<int64_t>(first, 0, c.in[2] - 1);
  int64_t hi = std::clamp<int64_t>(last, lo + 1, c.in[2]);
  call.pads[0] = lo - first;
  call.pads[space] = last - hi;
  call.epilogue = epilogue_of(group, layouts, c.chain, c.out.size());
  auto cut = [&](CallOperand& o, int64_t begin, int64_t end) {
    narrow(o, 0, image, image + 1);
    narrow(o, 2, begin, end);
    // The library compares strides also where there is one index only.
    o.strides[0] = o.dims[2] * o.strides[2];
  };
  cut(call.in, lo, hi);
  cut(call.out, from, to);
  for (CallEpilogue& e : call.epilogue) {
    if (e.with.dims.size() == c.out.size()) cut(e.with, from, to);
  }
  return call;
}

std::vector<Candidate> convolution_candidates(const Wanted& wanted, const Target& target) {
  auto c = convolution_in(wanted.group);
  if (!c || !wanted.constant[static_cast<size_t>(c->w)]) return {};
  const Layouts& l = wanted.layouts;
  if (!is_channels_last(c->in, l.load(static_cast<size_t>(c->x))) ||
      !is_channels_last(c->out, l.store(0)))
    return {};
  for (const Stage& s : c->chain.stages) {
    if (s.load < 0) continue;
    const Dims& shape =
        wanted.group.type(wanted.group.inputs[static_cast<size_t>(s.load)].node).shape;
    // One value per channel, or one per element that lies as the output does.
    bool per_channel = count(shape) == c->out[1] && shape.size() + 1 >= c->out.size() &&
                       shape[shape.size() + 1 - c->out.size()] == c->out[1];
    bool full = shape == c->out && l.load(static_cast<size_t>(s.load)) == l.store(0);
    if (!per_channel && !full) return {};
  }
  auto operations = 2.0 * static_cast<double>(count(c->out)) *
                    static_cast<double>(count(c->weights) / c->weights[0]);
  int64_t parts = std::min<int64_t>(target.threads, c->out[2]);
  auto rows = static_cast<double>(c->out[2]), cut = static_cast<double>(parts);
  double uneven = std::ceil(rows / cut) * cut / rows * target.threads / cut;
  double share = c->weights[1] >= 16   ? kShareOfPeak
                 : c->attrs.group == 1 ? kShareOfPeakFirst
                 : c->weights[1] == 1  ? kShareOfPeakDepthwise
                                       : kShareOfPeakFewChannels;
  bool strided = std::ranges::any_of(c->attrs.strides, [](int64_t n) { return n > 1; });
  if (c->attrs.group > 1 && strided) share *= kShareWithStrides;
  double moved = 0;
  if (c->attrs.group == 1) {
    // The last vector of channels costs a whole one; what few sums are made of must be there first.
    int64_t width = target.vector_bytes / 4;
    share *= static_cast<double>(c->out[1]) /
             static_cast<double>((c->out[1] + width - 1) / width * width);
    constexpr double kSum = 2;  // products that a sum costs besides its own
    auto depth = static_cast<double>(count(c->weights) / c->weights[0]);
    share *= depth / (depth + kSum);
    moved = static_cast<double>(count(c->in) + count(c->out) + count(c->weights)) * 4 /
            (target.bandwidth * kNear);
  }
  double seconds = target.launch_s + kCall_s * static_cast<double>(c->out[0]) +
                   uneven * operations / (target.peak_flops * share) + moved;
  return {{.kernel = "onednn_convolution",
           .config = to_attrs(Config{parts}),
           .layouts = l,
           .estimate_s = seconds,
           .packing = {},
           .growth = growth_of(count(c->weights), c->weights[0])}};
}

KernelCode library_code(std::vector<LibraryCall> calls) {
  std::string text = "// ENTRY\n";
  for (const LibraryCall& c : calls) text += str("// ", to_text(c), "\n");
  KernelCode code = named_kernel(std::move(text), static_cast<int64_t>(calls.size()));
  code.calls = std::move(calls);
  return code;
}

KernelCode emit_convolution(const Graph& group, const Candidate& candidate, const Target&) {
  ConvolutionGroup c = *convolution_in(group);
  int64_t parts = candidate.config.as<Config>().parts;
  std::vector<LibraryCall> calls;
  for (int64_t image = 0; image < c.out[0]; ++image) {
    for (int64_t p = 0; p < parts; ++p) {
      calls.push_back(rows_call(group, c, candidate.layouts, image, c.out[2] * p / parts,
                                c.out[2] * (p + 1) / parts));
    }
  }
  return library_code(std::move(calls));
}

// ---- matrix products, row-major

struct MatmulGroup {
  Chain chain;
  int64_t a = 0, b = 0;
  int64_t batch = 1, m = 1, k = 1, n = 1;
  bool turned = false;  // the right factor is loaded as [n, k]
  bool shared = false;  // one right factor for the whole batch, which then counts as rows
};

std::optional<MatmulGroup> matmul_in(const Graph& group) {
  auto chain = chain_of(group, "matmul");
  if (!chain) return std::nullopt;
  const Node& node = group.nodes[chain->nucleus];
  bool turned = chain->turned.count(node.args[1]) > 0;
  NodeId factor = turned ? group.nodes[node.args[1]].args[0] : node.args[1];
  auto a = input_number(group, node.args[0]), b = input_number(group, factor);
  if (!a || !b) return std::nullopt;
  MatmulGroup g{.chain = std::move(*chain), .a = *a, .b = *b, .turned = turned};
  const Dims &left = group.type(node.args[0]).shape, &right = group.type(node.args[1]).shape;
  if (left.size() < 2 || right.size() < 2) return std::nullopt;
  Dims outer(left.begin(), left.end() - 2), other(right.begin(), right.end() - 2);
  g.shared = count(other) == 1;
  if (!g.shared && outer != other) return std::nullopt;
  g.m = left[left.size() - 2] * (g.shared ? count(outer) : 1);
  g.batch = g.shared ? 1 : count(outer);
  g.k = left.back();
  g.n = right.back();
  if (g.batch * g.m * g.k * g.n == 0) return std::nullopt;
  if (g.a == g.b || is_operand(g.chain, g.b)) return std::nullopt;
  return g;
}

// One value per column, or one per element.
bool is_supported(const Graph& group, const MatmulGroup& g, const Stage& s) {
  if (s.load < 0) return true;
  const Dims& shape = group.type(group.inputs[static_cast<size_t>(s.load)].node).shape;
  bool per_column = count(shape) == g.n && !shape.empty() && shape.back() == g.n;
  return per_column || shape == group.type(g.chain.nucleus).shape;
}

std::vector<Candidate> matmul_candidates(const Wanted& wanted, const Target& target) {
  if (!wanted.layouts.plain()) return {};
  auto g = matmul_in(wanted.group);
  if (!g) return {};
  for (const Stage& s : g->chain.stages) {
    if (!is_supported(wanted.group, *g, s)) return {};
  }
  bool constant = wanted.constant[static_cast<size_t>(g->b)];
  // Every part reads all of the right factor.
  int64_t parts = std::min<int64_t>(target.threads, g->shared ? g->m : g->batch * g->m);
  // Vectors along the columns are as wide as they are.
  int64_t width = target.vector_bytes / 4;
  auto columns = static_cast<double>((g->n + width - 1) / width * width);
  auto operations = 2.0 * static_cast<double>(g->batch) * static_cast<double>(g->m) *
                    static_cast<double>(g->k) * columns;
  double idle = target.threads / static_cast<double>(parts);
  double calls = std::ceil(static_cast<double>(std::max(parts, g->batch)) / target.threads);
  auto bytes = 4.0 * static_cast<double>(g->batch * g->k * g->n);
  double seconds = target.launch_s + kCall_s * calls +
                   idle * std::max(operations / (target.peak_flops * kShareOfPeakMatmul),
                                   bytes / target.memory_bandwidth());
  return {{.kernel = "onednn_matmul",
           .config = to_attrs(Config{parts, constant}),
           .layouts = wanted.layouts,
           .estimate_s = seconds,
           .packing = {},
           .growth = constant ? growth_of(g->batch * g->k * g->n, g->n) : 0.0}};
}

// Rows [from, to) of the product with one right factor.
LibraryCall product_call(const Graph& group, const MatmulGroup& g, int64_t image, int64_t from,
                         int64_t to, bool pack) {
  LibraryCall call{.what = LibraryCall::What::matmul, .pack = pack};
  int64_t rows = to - from, first = image * g.m + from;
  call.in = {g.a, first * g.k, {rows, g.k}, {g.k, 1}};
  call.weights = {g.b, image * g.k * g.n, {g.k, g.n}, g.turned ? Dims{1, g.k} : Dims{g.n, 1}};
  call.out = {static_cast<int64_t>(group.inputs.size()), first * g.n, {rows, g.n}, {g.n, 1}};
  for (const Stage& s : g.chain.stages) {
    CallEpilogue e{s.kind, s.a, s.b, {}};
    if (s.load >= 0) {
      bool one_row = count(group.type(group.inputs[static_cast<size_t>(s.load)].node).shape) == g.n;
      e.with = {s.load, one_row ? 0 : first * g.n, {one_row ? 1 : rows, g.n}, {g.n, 1}};
    }
    call.epilogue.push_back(std::move(e));
  }
  return call;
}

KernelCode emit_matmul(const Graph& group, const Candidate& candidate, const Target&) {
  MatmulGroup g = *matmul_in(group);
  auto [parts, pack] = candidate.config.as<Config>();
  int64_t cuts = g.shared ? parts : std::max<int64_t>(1, parts / g.batch);
  std::vector<LibraryCall> calls;
  for (int64_t image = 0; image < g.batch; ++image) {
    for (int64_t p = 0; p < cuts; ++p) {
      calls.push_back(product_call(group, g, image, g.m * p / cuts, g.m * (p + 1) / cuts, pack));
    }
  }
  return library_code(std::move(calls));
}

}  // namespace

Kernel onednn_convolution_kernel() {
  return {
      .name = "onednn_convolution", .candidates = convolution_candidates, .emit = emit_convolution};
}

Kernel onednn_matmul_kernel() {
  return {.name = "onednn_matmul", .candidates = matmul_candidates, .emit = emit_matmul};
}

}  // namespace emend
