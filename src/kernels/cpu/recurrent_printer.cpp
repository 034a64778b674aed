#include <algorithm>

#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/recurrent_plan.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/cpu/tile_printer.h"

namespace emend {
namespace {

using Place = Recurrence::Place;

constexpr int64_t kLine = 64, kFloat = 4;  // bytes

class Printer {
 public:
  Printer(const Graph& group, const Candidate& chosen, const Target& target)
      : group_(group),
        chosen_(chosen),
        c_(cell_in(group).value()),
        r_(c_.r),
        target_(target),
        config_(chosen.config.as<RecurrentConfig>()),
        width_(target.vector_bytes / kFloat),
        block_(config_.vectors * width_),
        blocks_(blocks(r_.units, block_)),
        tasks_(config_.rows > 0 ? r_.products[0].rows / config_.rows : blocks_) {}

  KernelCode print() {
    std::string body = declarations() + open_share() + before_the_first_step(), each;
    for (size_t s = 0; s < r_.stages.size(); ++s) each += stage(s);
    body += str("for (int64_t t = 0; t < ", r_.loop.trips, "; ++t) {\n", each, "}\n",
                behind_the_last_step(), "}\n");
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
  // What is computed from the first step to the last: blocks [begin, end) of units for the rows
  // from `row` on. Copies of whole tensors are shared by tasks [mine, next).
  std::string open_share() const {
    if (config_.rows == 0) {
      return "{\nconst int64_t row = 0, team = 0, begin = first, end = last, mine = first, next = "
             "last;\n";
    }
    return str("for (int64_t team = first; team < last; ++team) {\nconst int64_t row = team * ",
               config_.rows, ", begin = 0, end = ", blocks_, ", mine = team, next = team + 1;\n");
  }

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
                     static_cast<size_t>(sum_floats(p) * blocks_ * teams()) * sizeof(float));
    for (size_t m = 0; m < r_.matrices.size(); ++m) text += declare_panels(m);
    return text;
  }
  int64_t teams() const { return config_.rows > 0 ? tasks_ : 1; }
  int64_t rows(const Recurrence::Product& p) const {
    return config_.rows > 0 ? config_.rows : p.rows;
  }
  // Of one block.
  int64_t sum_floats(size_t p) const {
    return rows(r_.products[p]) * r_.products[p].gates * block_;
  }
  std::string sums(size_t p) const {
    return str("sum", p, " + (team * ", blocks_, " + block) * ", sum_floats(p));
  }
  Panels panels(size_t m) const { return panels_of(r_, m, block_); }

  std::string declare_panels(size_t m) {
    if (packed_ahead(m)) {
      return str("const float* const panels", m, " = ", operand(r_.matrices[m].operand), ";\n");
    }
    auto floats = static_cast<size_t>(panels(m).floats() * blocks_);
    return shared(DType::f32, str("panels", m), floats * sizeof(float));
  }

  std::string copied(const std::string& to, const std::string& from, const Type& type) const {
    int64_t n = count(type.shape);
    auto at = [&](const char* task) { return str(n, " * ", task, " / ", tasks_); };
    return str("memcpy(", to, " + ", at("mine"), ", ", from, " + ", at("mine"), ", (", at("next"),
               " - ", at("mine"), ") * ", info(type.dtype).bits / 8, ");\n");
  }
  std::string meet() const {
    if (config_.rows > 0) return "";
    return str("ENTRY_meet((int64_t*)shared, last - first, ", tasks_, ");\n");
  }

  std::string before_the_first_step() {
    std::string text;
    for (size_t i = 0; i < states(); ++i)
      text += copied(str("state", i), operand(i), operand_type(i));
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
    return str("for (int64_t block = begin; block < end; ++block) {\n", units_of_the_block(),
               "for (int64_t g = 0; g < ", p.gates, "; ++g) {\nfor (int64_t k = 0; k < ", p.depth,
               "; ++k) {\nfloat* const to = panels", m, " + block * ", p.floats(), " + ", place,
               " * ", block_, ";\nconst float* const from = ", operand(matrix.operand), " + k * ",
               k_step, " + (g * ", r_.units, " + lo) * ", unit_step,
               ";\nfor (int64_t u = 0; u < hi - lo; ++u) to[u] = from[u * ", unit_step,
               "];\nfor (int64_t u = hi - lo; u < ", block_, "; ++u) to[u] = 0;\n}\n}\n}\n");
  }

  std::string units_of_the_block() const {
    return str("const int64_t lo = block * ", block_, ", hi = lo + ", block_, " < ", r_.units,
               " ? lo + ", block_, " : ", r_.units, ";\n");
  }

  std::string behind_the_last_step() {
    std::string text;
    for (size_t i = 0; i < states(); ++i) {
      if (c_.results[i] < 0) continue;
      text += copied(str("out", c_.results[i]),
                     str("state", i, " + ", r_.loop.trips % 2 * state_pitch(i)), operand_type(i));
    }
    return text;
  }

  std::string stage(size_t s) {
    // Every other step backwards: what a thread's cache holds is what the last step used last.
    std::string text =
        str("for (int64_t turn = begin; turn < end; ++turn) {\n",
            "const int64_t block = t & 1 ? begin + end - 1 - turn : turn;\n", units_of_the_block());
    Nest nest = placed(r_.stages[s]);
    text += pointers(r_.stages[s], nest);
    for (size_t p = 0; p < r_.products.size(); ++p) {
      if (r_.products[p].stage == s) text += product(p);
    }
    return str(text, lanes(r_.stages[s], nest), "}\n", meet());
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
    TileShape shape = tile_of(rows(p), vectors, target_);
    RegisterTile t{.arithmetic = {.width = width_},
                   .panel = vectors * width_,
                   .row_step = p.row_step,
                   .k_step = p.k_step,
                   .sums_step = p.gates * block_};
    std::string text;
    for (int64_t part = 0; part < parts; ++part) {
      int64_t gate = from.split ? (p.first_gate + part) * from.depth * block_ : 0;
      for (int64_t row = 0; row < rows(p); row += shape.rows) {
        for (int64_t vector = 0; vector < vectors; vector += shape.vectors) {
          t.rows = std::min(shape.rows, rows(p) - row);
          t.vectors = std::min(shape.vectors, vectors - vector);
          // What a tile reads of a panel is no stream that the machine itself would see.
          constexpr int64_t kAhead = 8;
          t.fetch = {.every = 1,
                     .lines = t.vectors * width_ / kLineFloats,
                     .step = 4 * t.panel,
                     .near = true};
          std::string panel =
              str("panels", p.matrix, " + block * ", from.floats(), " + ", gate + vector * width_);
          text += str(tile(t), "(", from.depth, ", ", vector_of(p), " + (row + ", row, ") * ",
                      p.row_step, ", ", panel, ", ", sums(number), " + ",
                      row * t.sums_step + part * block_ + vector * width_, ", (const char*)(",
                      panel, " + ", kAhead * t.panel, "));\n");
        }
      }
    }
    return text;
  }

  std::string tile(RegisterTile t) {
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
        return str(sums(from.index), " - row * ", r_.products[from.index].gates * block_, " - lo");
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

  // The stage's nest with sums where products leave them, and stores that somebody wants.
  Nest placed(const Recurrence::Stage& s) const {
    Nest nest = s.nest;
    for (NestValue& v : nest.values) {
      bool sum = v.kind == NestValue::Kind::load &&
                 s.loads[static_cast<size_t>(v.buffer)].kind == Place::Kind::sum;
      if (sum) v.at = apart(nest.math, v.at, r_.units, block_);
    }
    std::erase_if(nest.stores, [&](const NestStore& to) {
      return store(s.stores[static_cast<size_t>(to.buffer)]).empty();
    });
    return nest;
  }

  std::string pointers(const Recurrence::Stage& s, const Nest& nest) const {
    std::string text;
    for (size_t i = 0; i < s.loads.size(); ++i) {
      DType t = s.graph.type(s.graph.inputs[i].node).dtype;
      text += str("const ", c_storage(t), "* const x", i, " = ", load(s.loads[i]), ";\n");
    }
    for (const NestStore& to : nest.stores) {
      auto o = static_cast<size_t>(to.buffer);
      DType t = s.graph.type(s.graph.outputs[o].node).dtype;
      text += str(c_storage(t), "* const y", o, " = ", store(s.stores[o]), ";\n");
    }
    return text;
  }

  std::string for_all_rows(const Nest& nest, const std::string& what) const {
    std::string rows;
    for (size_t k = 0; k + 1 < nest.space.size(); ++k) {
      std::string i = iterator_name(nest.space[k]);
      int64_t extent = config_.rows > 0 ? config_.rows : nest.math.extent(nest.space[k]);
      rows += str("for (int64_t ", i, " = row; ", i, " < row + ", extent, "; ++", i, ") {\n");
    }
    return str(rows, what, std::string(nest.space.size() - 1, '}'), "\n");
  }

  std::string lanes(const Recurrence::Stage& s, const Nest& nest) const {
    RowPrinter printer(nest, s.graph, nest.space.back(), block_);
    if (r_.units % block_ == 0) printer.fix_lanes(block_);
    return for_all_rows(nest, printer.print());
  }

  const Graph& group_;
  const Candidate& chosen_;
  Cell c_;
  const Recurrence& r_;
  const Target& target_;
  RecurrentConfig config_;
  int64_t width_, block_, blocks_, tasks_;
  std::vector<std::string> tiles_;
  size_t shared_ = kMeetingBytes;
};

}  // namespace

KernelCode print_recurrent(const Graph& group, const Candidate& chosen, const Target& target) {
  return Printer(group, chosen, target).print();
}

}  // namespace emend
