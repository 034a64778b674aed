// Loops over a cell (kernels/recurrence.h): recurrent layers, and scans that are written like them.
// Threads share the cell's units in blocks, always the same ones, so that a thread's share of the
// matrices stays in its own cache from step to step. A block's products are register tiles over its
// panel of the matrix; gates, activations and states follow at once. Threads meet after every
// stage; states are there twice, so that nobody waits for those who still read the last ones.
//
// Constant matrices are packed ahead. Others, the kernel packs itself before the first step.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/cpu/tile_printer.h"
#include "kernels/recurrence.h"
#include "ops/table.h"

namespace emend {
namespace {

using Place = Recurrence::Place;

struct Config {
  int64_t vectors = 1;  // of units in a block, for every gate
  EMEND_FIELDS(vectors)
};

constexpr int64_t kLine = 64, kFloat = 4;  // bytes

// A recurrence in its group: constants that are matrices may be seen through views.
struct Cell {
  Recurrence r;
  NodeId loop;
  std::vector<NodeId> operands;  // of the loop
  std::vector<int> results;      // of the loop, which output of the group; -1: nobody wants it
};

std::optional<Cell> cell_in(const Graph& group) {
  Cell c;
  for (size_t i = 0; i < group.size(); ++i) {
    if (op_def(group.nodes[NodeId(i)]).kind == Kind::scan) c.loop = NodeId(i);
  }
  if (!c.loop.valid()) return std::nullopt;
  auto r = recurrence_of(group, c.loop);
  if (!r) return std::nullopt;
  c.r = std::move(*r);
  c.operands.assign(group.nodes[c.loop].args.begin(), group.nodes[c.loop].args.end());
  for (size_t i = 0; i < c.operands.size(); ++i) {
    bool plain = group.nodes[c.operands[i]].op == kInputOp || group.is_constant(c.operands[i]);
    if (!plain &&
        std::ranges::find(c.r.matrices, i, &Recurrence::Matrix::operand) == c.r.matrices.end())
      return std::nullopt;
  }
  c.results.assign(group.type(c.loop).items.size(), -1);
  for (size_t o = 0; o < group.outputs.size(); ++o) {
    const Node& get = group.nodes[group.outputs[o].node];
    if (get.op != kGetOp || get.args[0] != c.loop) return std::nullopt;
    c.results[static_cast<size_t>(get.attrs.get<int64_t>("index"))] = static_cast<int>(o);
  }
  return c;
}

// The group's input that an operand is, or is a view of; -1: it is a constant of one element.
int input_of(const Graph& group, NodeId n) {
  while (group.nodes[n].op != kInputOp) {
    if (group.is_constant(n)) return -1;
    n = group.nodes[n].args[0];
  }
  return static_cast<int>(group.nodes[n].attrs.get<int64_t>("index"));
}

// How a matrix lies in blocks of units: [block][k][gate][unit] where products take all gates at
// once, [block][gate][k][unit] where they take some.
struct Panels {
  int64_t depth = 0, gates = 0, block = 0, blocks = 0;
  bool split = false;
  int64_t floats() const { return depth * gates * block; }  // of one block
};

Panels panels_of(const Recurrence& r, size_t matrix, int64_t block) {
  const Recurrence::Matrix& m = r.matrices[matrix];
  Panels p{m.depth, m.gates, block, blocks(r.units, block), false};
  for (const Recurrence::Product& product : r.products) {
    p.split |= product.matrix == matrix && product.gates != m.gates;
  }
  return p;
}

// From the group's input to panels.
Graph packing_of(const Graph& group, const Cell& c, size_t matrix, int64_t block) {
  const Recurrence::Matrix& m = c.r.matrices[matrix];
  Panels p = panels_of(c.r, matrix, block);
  GraphBuilder b;
  std::function<NodeId(NodeId)> copied = [&](NodeId n) {
    const Node& node = group.nodes[n];
    if (node.op == kInputOp) return b.input("x", group.type(n));
    NodeId from = copied(node.args[0]);
    return b.try_op(node.op, Args(&from, 1), node.attrs).value_or_throw();
  };
  NodeId x = copied(c.operands[m.operand]);
  int64_t units = c.r.units, missing = p.blocks * block - units;
  if (m.transposed) {
    x = b.op("reshape", {x}, Attrs({{"shape", Dims{m.gates, units, m.depth}}}));
    x = b.op("pad", {x}, Attrs({{"pads", Dims{0, 0, 0, 0, missing, 0}}, {"value", 0.0}}));
    x = b.op("reshape", {x}, Attrs({{"shape", Dims{m.gates, p.blocks, block, m.depth}}}));
    x = b.op("transpose", {x}, Attrs({{"perm", p.split ? Dims{1, 0, 3, 2} : Dims{1, 3, 0, 2}}}));
  } else {
    x = b.op("reshape", {x}, Attrs({{"shape", Dims{m.depth, m.gates, units}}}));
    x = b.op("pad", {x}, Attrs({{"pads", Dims{0, 0, 0, 0, 0, missing}}, {"value", 0.0}}));
    x = b.op("reshape", {x}, Attrs({{"shape", Dims{m.depth, m.gates, p.blocks, block}}}));
    x = b.op("transpose", {x}, Attrs({{"perm", p.split ? Dims{2, 1, 0, 3} : Dims{2, 0, 1, 3}}}));
  }
  b.output("y", x);
  return std::move(b).build();
}

// Inputs that are a matrix, constant, and nothing else.
std::vector<Graph> packings(const Wanted& wanted, const Cell& c, int64_t block) {
  std::vector<Graph> all(wanted.group.inputs.size());
  std::vector<int> users(all.size(), 0);
  for (NodeId n : c.operands) {
    if (int i = input_of(wanted.group, n); i >= 0) ++users[static_cast<size_t>(i)];
  }
  for (size_t m = 0; m < c.r.matrices.size(); ++m) {
    int i = input_of(wanted.group, c.operands[c.r.matrices[m].operand]);
    auto at = static_cast<size_t>(i);
    if (i < 0 || users[at] != 1 || !wanted.constant[at]) continue;
    all[at] = packing_of(wanted.group, c, m, block);
  }
  return all;
}

int64_t registers_for_sums(const Target& target) {
  return target.vector_bytes == 64 ? 24 : 12;
}

// Registers of one product's row of sums: those of all gates, or of one where gates lie apart.
int64_t sums_of_a_row(const Panels& p, int64_t width) {
  return (p.split ? 1 : p.gates) * p.block / width;
}

// Tiles of equal size, as nearly as that is possible: many rows first, because every pass over a
// panel is paid to the second-level cache.
struct TileShape {
  int64_t rows = 1, vectors = 1;
};
TileShape tile_of(int64_t rows, int64_t vectors, const Target& target) {
  int64_t registers = registers_for_sums(target), most = target.vector_bytes == 64 ? 8 : 6;
  TileShape t;
  t.rows = blocks(rows, blocks(rows, most));
  t.vectors = blocks(vectors, blocks(vectors, registers / t.rows));
  return t;
}

double estimate(const Recurrence& r, int64_t block, const Target& target) {
  constexpr double kMeeting = 3e-7, kInFlight = 8;  // seconds; sums that hide an addition's latency
  constexpr double kOwnCache = 768 << 10, kNearer = 2;  // bytes; against the shared cache
  int64_t width = target.vector_bytes / 4;
  double seconds = 0, bytes = 0;
  double all = static_cast<double>(blocks(r.units, block));
  double busiest = std::ceil(all / target.threads);
  for (size_t m = 0; m < r.matrices.size(); ++m) {
    bytes += static_cast<double>(panels_of(r, m, block).floats()) * busiest * sizeof(float);
  }
  double rate = target.bandwidth / target.threads * (bytes < kOwnCache ? kNearer : 1);
  seconds += bytes / rate;
  for (const Recurrence::Product& p : r.products) {
    Panels panels = panels_of(r, p.matrix, block);
    TileShape tile = tile_of(p.rows, sums_of_a_row(panels, width), target);
    double slow = std::max(1.0, kInFlight / static_cast<double>(tile.rows * tile.vectors));
    double flops = 2.0 * static_cast<double>(p.rows * p.gates * panels.depth * block) * busiest;
    seconds += flops * slow * target.threads / target.peak_flops;
  }
  seconds += kMeeting * static_cast<double>(r.stages.size());
  return target.launch_s + seconds * static_cast<double>(r.loop.trips);
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  auto c = wanted.layouts.plain() ? cell_in(wanted.group) : std::nullopt;
  if (!c) return {};
  int64_t width = target.vector_bytes / 4;
  std::vector<Candidate> all;
  for (int64_t vectors : {1, 2, 4, 8}) {
    if (vectors > 1 && vectors / 2 * width >= c->r.units) continue;
    all.push_back({.kernel = "recurrent",
                   .config = to_attrs(Config{vectors}),
                   .layouts = wanted.layouts,
                   .estimate_s = estimate(c->r, vectors * width, target),
                   .packing = packings(wanted, *c, vectors * width)});
  }
  std::ranges::stable_sort(all, {}, &Candidate::estimate_s);
  return all;
}

class Printer {
 public:
  Printer(const Graph& group, const Candidate& chosen, const Target& target)
      : group_(group),
        chosen_(chosen),
        c_(cell_in(group).value()),
        r_(c_.r),
        target_(target),
        config_(chosen.config.as<Config>()),
        width_(target.vector_bytes / kFloat),
        block_(config_.vectors * width_),
        tasks_(blocks(r_.units, block_)) {}

  KernelCode print() {
    std::string body = declarations();
    body += before_the_first_step();
    std::string each;
    for (size_t s = 0; s < r_.stages.size(); ++s) each += stage(s);
    body += str("for (int64_t t = 0; t < ", r_.loop.trips, "; ++t) {\n", each, "}\n");
    body += behind_the_last_step();
    std::string helpers = declare_vector(width_);
    for (const std::string& tile : tiles_) helpers += tile;
    KernelCode code =
        named_kernel(str(helpers, kMeet,
                         "void ENTRY(void* const* buffers, int64_t first, int64_t last, "
                         "int32_t* fault) {\n",
                         body, "}\n"),
                     tasks_);
    code.shared_bytes = shared_;
    return code;
  }

 private:
  // Whoever completes the count opens the next round; others wait for that. The count is of tasks:
  // nobody has to know how many threads share them.
  static constexpr const char* kMeet = R"(
int sched_yield(void);
static void ENTRY_meet(int64_t* arrived, int64_t mine, int64_t all) {
  int64_t* const round = arrived + 8;
  if (mine == all) return;
  const int64_t now = __atomic_load_n(round, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(arrived, mine, __ATOMIC_ACQ_REL) == all) {
    __atomic_store_n(arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(round, now + 1, __ATOMIC_RELEASE);
    return;
  }
  for (int spin = 0; __atomic_load_n(round, __ATOMIC_ACQUIRE) == now; ++spin) {
    if (spin > 4096) sched_yield();
#if defined(__x86_64__)
    else __builtin_ia32_pause();
#endif
  }
}
)";

  static size_t bytes_of(const Type& t) {
    return storage_bytes(t.dtype, static_cast<uint64_t>(count(t.shape))).value_or(0);
  }
  // Memory that all threads see, as a variable.
  std::string shared(DType dtype, const std::string& name, size_t bytes) {
    std::string text = str(c_storage(dtype), "* const ", name, " = (", c_storage(dtype),
                           "*)(shared + ", shared_, ");\n");
    shared_ += static_cast<size_t>(blocks(static_cast<int64_t>(bytes), kLine) * kLine);
    return text;
  }
  const Type& operand_type(size_t i) const { return group_.type(c_.operands[i]); }
  size_t states() const { return static_cast<size_t>(r_.loop.states); }
  // Elements from one copy of a state to the other.
  int64_t state_pitch(size_t i) const {
    return blocks(count(operand_type(i).shape), kLine) * kLine;  // elements: at least so many bytes
  }
  bool packed_ahead(size_t m) const {
    int i = input_of(group_, c_.operands[r_.matrices[m].operand]);
    auto at = static_cast<size_t>(i);
    return i >= 0 && at < chosen_.packing.size() && !chosen_.packing[at].outputs.empty();
  }
  std::string operand(size_t i) const {
    int at = input_of(group_, c_.operands[i]);
    return at < 0 ? str("one", i) : str("in", at);
  }

  std::string declarations() {
    std::string text;
    size_t n = 0;
    for (const auto& i : group_.inputs) {
      text += str("const ", c_storage(group_.type(i.node).dtype), "* const in", n, " = buffers[", n,
                  "];\n");
      ++n;
    }
    for (size_t o = 0; o < group_.outputs.size(); ++o, ++n) {
      DType t = group_.type(group_.outputs[o].node).dtype;
      text += str(c_storage(t), "* const out", o, " = buffers[", n, "];\n");
    }
    text += str("char* const shared = buffers[", n, "];\n");
    for (size_t i = 0; i < c_.operands.size(); ++i) {
      if (!group_.is_constant(c_.operands[i])) continue;
      const Tensor& one = group_.constant(c_.operands[i]);
      DType types[] = {one.dtype()}, work = working_type(types).value();
      std::string value = c_text(Scalar(one.real(0)), {}, {}, c_work(work)).result;
      text += str("const ", c_storage(one.dtype()), " one", i, "[] = {",
                  c_store(one.dtype(), work, value), "};\n");
    }
    for (size_t i = 0; i < states(); ++i) {
      DType t = operand_type(i).dtype;
      auto element = static_cast<size_t>(info(t).bits / 8);
      text += shared(t, str("state", i), 2 * static_cast<size_t>(state_pitch(i)) * element);
    }
    for (size_t i = 0; i < r_.vectors.size(); ++i)
      text += shared(r_.vectors[i].dtype, str("vector", i), bytes_of(r_.vectors[i]));
    for (size_t p = 0; p < r_.products.size(); ++p)
      text += shared(DType::f32, str("sum", p),
                     static_cast<size_t>(sum_floats(p) * tasks_) * sizeof(float));
    for (size_t m = 0; m < r_.matrices.size(); ++m) text += declare_panels(m);
    return text;
  }
  // Of one block.
  int64_t sum_floats(size_t p) const { return r_.products[p].rows * r_.products[p].gates * block_; }
  Panels panels(size_t m) const { return panels_of(r_, m, block_); }

  std::string declare_panels(size_t m) {
    if (packed_ahead(m)) {
      return str("const float* const panels", m, " = ", operand(r_.matrices[m].operand), ";\n");
    }
    auto floats = static_cast<size_t>(panels(m).floats() * tasks_);
    return shared(DType::f32, str("panels", m), floats * sizeof(float));
  }

  // A thread's share of something that has no units: by its share of the tasks.
  static std::string copied(const std::string& to, const std::string& from, const Type& type,
                            int64_t tasks) {
    int64_t n = count(type.shape);
    return str("memcpy(", to, " + ", n, " * first / ", tasks, ", ", from, " + ", n, " * first / ",
               tasks, ", (", n, " * last / ", tasks, " - ", n, " * first / ", tasks, ") * ",
               info(type.dtype).bits / 8, ");\n");
  }
  std::string meet() const {
    return str("ENTRY_meet((int64_t*)shared, last - first, ", tasks_, ");\n");
  }

  std::string before_the_first_step() {
    std::string text;
    for (size_t i = 0; i < states(); ++i)
      text += copied(str("state", i), operand(i), operand_type(i), tasks_);
    for (size_t m = 0; m < r_.matrices.size(); ++m) {
      if (!packed_ahead(m)) text += pack(m);
    }
    return text + meet();
  }

  std::string pack(size_t m) const {
    const Recurrence::Matrix& matrix = r_.matrices[m];
    Panels p = panels(m);
    int64_t k_step = matrix.transposed ? 1 : matrix.gates * r_.units;
    int64_t unit_step = matrix.transposed ? matrix.depth : 1;
    std::string place = p.split ? str("(g * ", p.depth, " + k)") : str("(k * ", p.gates, " + g)");
    return str("for (int64_t task = first; task < last; ++task) {\n", units_of_the_task(),
               "for (int64_t g = 0; g < ", p.gates, "; ++g) {\nfor (int64_t k = 0; k < ", p.depth,
               "; ++k) {\nfloat* const to = panels", m, " + task * ", p.floats(), " + ", place,
               " * ", block_, ";\nconst float* const from = ", operand(matrix.operand), " + k * ",
               k_step, " + (g * ", r_.units, " + lo) * ", unit_step,
               ";\nfor (int64_t u = 0; u < hi - lo; ++u) to[u] = from[u * ", unit_step,
               "];\nfor (int64_t u = hi - lo; u < ", block_, "; ++u) to[u] = 0;\n}\n}\n}\n");
  }

  std::string units_of_the_task() const {
    return str("const int64_t lo = task * ", block_, ", hi = lo + ", block_, " < ", r_.units,
               " ? lo + ", block_, " : ", r_.units, ";\n");
  }

  std::string behind_the_last_step() {
    std::string text;
    for (size_t i = 0; i < states(); ++i) {
      if (c_.results[i] < 0) continue;
      text += copied(str("out", c_.results[i]),
                     str("state", i, " + ", r_.loop.trips % 2 * state_pitch(i)), operand_type(i),
                     tasks_);
    }
    return text;
  }

  std::string stage(size_t s) {
    // Every other step backwards: what a thread's cache holds is what the last step used last.
    std::string text =
        str("for (int64_t turn = first; turn < last; ++turn) {\n",
            "const int64_t task = t & 1 ? first + last - 1 - turn : turn;\n", units_of_the_task());
    for (size_t p = 0; p < r_.products.size(); ++p) {
      if (r_.products[p].stage == s) text += product(p);
    }
    return str(text, nest(r_.stages[s]), "}\n", meet());
  }

  // --- products ---

  std::string vector_of(const Recurrence::Product& p) const {
    if (p.vector.kind == Place::Kind::vector) return str("vector", p.vector.index);
    return load(p.vector);
  }

  std::string product(size_t number) {
    const Recurrence::Product& p = r_.products[number];
    Panels from = panels(p.matrix);
    int64_t parts = from.split ? p.gates : 1, vectors = sums_of_a_row(from, width_);
    TileShape shape = tile_of(p.rows, vectors, target_);
    Tile t{.width = width_,
           .panel = vectors * width_,
           .row_step = p.row_step,
           .k_step = p.k_step,
           .sums_step = p.gates * block_};
    std::string text;
    for (int64_t part = 0; part < parts; ++part) {
      int64_t gate = from.split ? (p.first_gate + part) * from.depth * block_ : 0;
      for (int64_t row = 0; row < p.rows; row += shape.rows) {
        for (int64_t vector = 0; vector < vectors; vector += shape.vectors) {
          t.rows = std::min(shape.rows, p.rows - row);
          t.vectors = std::min(shape.vectors, vectors - vector);
          text += str(tile(t), "(", from.depth, ", ", vector_of(p), " + ", row * p.row_step,
                      ", panels", p.matrix, " + task * ", from.floats(), " + ",
                      gate + vector * width_, ", sum", number, " + task * ", sum_floats(number),
                      " + ", row * t.sums_step + part * block_ + vector * width_, ");\n");
        }
      }
    }
    return text;
  }

  std::string tile(Tile t) {
    for (size_t i = 0; i <= tiles_.size(); ++i) {
      t.name = str("ENTRY_tile", i);
      std::string text = print_tile(t);
      if (i == tiles_.size()) tiles_.push_back(text);
      if (tiles_[i] == text) break;
    }
    return t.name;
  }

  // --- what becomes of them ---

  std::string step_of(const Recurrence::Steps& s) const {
    std::string step = s.reverse ? str("(", r_.loop.trips - 1, " - t)") : "t";
    return str(step, " * ", s.stride);
  }
  std::string load(const Place& from) const {
    switch (from.kind) {
      case Place::Kind::iteration:
        return "&t";
      case Place::Kind::slice:
        return str(operand(from.index), " + ", step_of(r_.slices[from.index - states()]));
      case Place::Kind::state:
        return str("state", from.index, " + (t & 1) * ", state_pitch(from.index));
      case Place::Kind::sum:
        return str("sum", from.index, " + task * ", sum_floats(from.index), " - lo");
      default:
        return operand(from.index);
    }
  }
  // Empty: nobody wants it.
  std::string store(const Place& to) const {
    if (to.kind == Place::Kind::vector) return str("vector", to.index);
    if (to.kind == Place::Kind::state) {
      return str("state", to.index, " + (~t & 1) * ", state_pitch(to.index));
    }
    int output = c_.results[states() + to.index];
    return output < 0 ? "" : str("out", output, " + ", step_of(r_.outputs[to.index]));
  }

  std::string nest(const Recurrence::Stage& s) {
    Nest nest = s.nest;
    for (NestValue& v : nest.values) {
      bool sum = v.kind == NestValue::Kind::load &&
                 s.loads[static_cast<size_t>(v.buffer)].kind == Place::Kind::sum;
      if (sum) v.at = apart(nest.math, v.at, r_.units, block_);
    }
    std::erase_if(nest.stores, [&](const NestStore& to) {
      return store(s.stores[static_cast<size_t>(to.buffer)]).empty();
    });
    std::string text = "{\n";
    for (size_t i = 0; i < s.loads.size(); ++i) {
      DType t = s.graph.type(s.graph.inputs[i].node).dtype;
      text += str("const ", c_storage(t), "* const x", i, " = ", load(s.loads[i]), ";\n");
    }
    for (const NestStore& to : nest.stores) {
      auto o = static_cast<size_t>(to.buffer);
      DType t = s.graph.type(s.graph.outputs[o].node).dtype;
      text += str(c_storage(t), "* const y", o, " = ", store(s.stores[o]), ";\n");
    }
    int lane = nest.space.back();
    std::string rows;
    for (size_t k = 0; k + 1 < nest.space.size(); ++k) {
      std::string i = iterator_name(nest.space[k]);
      rows += str("for (int64_t ", i, " = 0; ", i, " < ", nest.math.extent(nest.space[k]), "; ++",
                  i, ") {\n");
    }
    RowPrinter printer(nest, s.graph, lane, block_);
    if (r_.units % block_ == 0) printer.fix_lanes(block_);
    text += str(rows, printer.print(), std::string(nest.space.size() - 1, '}'), "\n}\n");
    return text;
  }

  const Graph& group_;
  const Candidate& chosen_;
  Cell c_;
  const Recurrence& r_;
  const Target& target_;
  Config config_;
  int64_t width_, block_, tasks_;
  std::vector<std::string> tiles_;
  size_t shared_ = kMeetingBytes;
};

KernelCode emit(const Graph& group, const Candidate& c, const Target& target) {
  return Printer(group, c, target).print();
}

}  // namespace

Kernel recurrent_kernel() {
  return {.name = "recurrent", .candidates = candidates, .emit = emit};
}

}  // namespace emend
