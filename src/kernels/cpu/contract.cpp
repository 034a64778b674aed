// Any contraction with any epilogue: tiles of MR x NR sums in registers over packed panels.
//
//   out = epilogue( sum over k of s[batch, m, k] * v[batch, n, k] )
//
// One operand runs along the vector registers (v: n), the other is broadcast element by element
// (s: m); which is which is part of the configuration. m, n and k stand for any number of
// iterators, so matrix products, convolutions of any dimension, stride, dilation and group, and
// einsums are one case. Panels hold k rows of NR (or MR) neighbours: of a constant they are made
// ahead of time, of other operands in the task that uses them, where bounds (pads) become zeros. An
// operand that is broadcast and has one stride along k is read where it stands. The sums of a task
// go through a buffer in the second-level cache, from which the epilogue is printed row by row.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"
#include "ops/build.h"

namespace emend {
namespace {

constexpr int64_t kDepth = 384;      // k's of one pass: panels stay in the first-level cache
constexpr int64_t kSums = 64 << 10;  // sums of one task at most
constexpr double kPackRate = 1.5e9;  // elements packed per second and thread

struct Config {
  bool swapped = false;                // the first factor is the one along the vectors
  int64_t rows = 8;                    // MR
  int64_t vectors = 2;                 // NR in registers
  int64_t blocks_m = 1, blocks_n = 1;  // of one task
  EMEND_FIELDS(swapped, rows, vectors, blocks_m, blocks_n)
};

// From an operand to panels [batch, blocks, k, width], as a graph; none if it cannot be.
std::optional<Graph> panels(const Contraction& c, const Side& side, const Graph& group,
                            int64_t width) {
  std::vector<int> wanted = c.batch;
  wanted.insert(wanted.end(), side.iterators.begin(), side.iterators.end());
  wanted.insert(wanted.end(), c.k.begin(), c.k.end());
  GraphBuilder b;
  auto arranged = arranged_operand(b, c, side, group, wanted);
  if (!arranged) return std::nullopt;
  int64_t blocks = (side.extent + width - 1) / width;
  auto reshaped = [&](NodeId n, Dims shape) {
    return b.op("reshape", {n}, Attrs({{"shape", std::move(shape)}}));
  };
  NodeId x = reshaped(*arranged, {c.batches, side.extent, c.depth});
  x = b.op("pad", {x}, Attrs({{"pads", Dims{0, 0, 0, 0, blocks * width - side.extent, 0}}}));
  x = reshaped(x, {c.batches, blocks, width, c.depth});
  b.output("y", b.op("transpose", {x}, Attrs({{"perm", Dims{0, 1, 3, 2}}})));
  return std::move(b).build();
}

enum class Mode : uint8_t { ahead, direct, packed };

// Rows that can be read where they stand: one stride along k, but for the outermost k, which is
// then taken one at a time.
bool is_direct(const Contraction& c, const Side& s) {
  return c.load(s).bounds.empty() && (c.k.size() == 1 || c.k.size() == 2);
}

class ContractPrinter {
 public:
  ContractPrinter(const Contraction& c, const Graph& group, const Candidate& candidate,
                  const Target& target)
      : c_(c), group_(group), config_(candidate.config.as<Config>()) {
    scalar_ = config_.swapped ? c.second : c.first;
    vector_ = config_.swapped ? c.first : c.second;
    width_ = target.vector_bytes / 4;
    mr_ = config_.rows;
    nr_ = config_.vectors * width_;
    auto ahead = [&](const Side& s) {
      auto b = static_cast<size_t>(c.load(s).buffer);
      return b < candidate.packing.size() && !candidate.packing[b].outputs.empty();
    };
    vector_mode_ = ahead(vector_) ? Mode::ahead : Mode::packed;
    scalar_mode_ = ahead(scalar_)          ? Mode::ahead
                   : is_direct(c, scalar_) ? Mode::direct
                                           : Mode::packed;
    blocks_m_ = (scalar_.extent + mr_ - 1) / mr_;
    blocks_n_ = (vector_.extent + nr_ - 1) / nr_;
    tasks_m_ = (blocks_m_ + config_.blocks_m - 1) / config_.blocks_m;
    tasks_n_ = (blocks_n_ + config_.blocks_n - 1) / config_.blocks_n;
    inner_ = c.k.empty() ? 1 : c.depth / c.nest.math.extent(c.k[0]);
    int64_t outer = c.k.empty() ? 1 : c.nest.math.extent(c.k[0]);
    bool short_enough = c.depth <= 2 * kDepth;
    if (scalar_mode_ == Mode::direct && c.k.size() == 2) {
      step_ = 1;
      return;
    }
    step_ = short_enough ? outer : std::max<int64_t>(1, kDepth / inner_);
  }

  KernelCode print() {
    std::string text = micro_kernel();
    text += "void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n" +
            declare_buffers(group_);
    text += str("float sums[", config_.blocks_m * mr_ * config_.blocks_n * nr_,
                "] __attribute__((aligned(64)));\n");
    if (vector_mode_ == Mode::packed)
      text += str("float vpanel[", step_ * inner_ * nr_, "] __attribute__((aligned(64)));\n");
    if (scalar_mode_ == Mode::packed)
      text += str("float spanel[", config_.blocks_m * mr_ * step_ * inner_,
                  "] __attribute__((aligned(64)));\n");
    text += "for (int64_t task = first; task < last; ++task) {\n";
    text += str("const int64_t bm0 = task % ", tasks_m_, " * ", config_.blocks_m, ", bn0 = task / ",
                tasks_m_, " % ", tasks_n_, " * ", config_.blocks_n, ", batch = task / ",
                tasks_m_ * tasks_n_, ";\n");
    text += declare_digits(c_.nest, c_.batch, "batch");
    text += str("const int64_t bm1 = bm0 + ", config_.blocks_m, " < ", blocks_m_, " ? bm0 + ",
                config_.blocks_m, " : ", blocks_m_, ", bn1 = bn0 + ", config_.blocks_n, " < ",
                blocks_n_, " ? bn0 + ", config_.blocks_n, " : ", blocks_n_, ";\n");
    text += products();
    text += epilogue();
    text += "}\n}\n";
    return named_kernel(std::move(text), c_.batches * tasks_m_ * tasks_n_);
  }

 private:
  int64_t k_extent() const { return c_.k.empty() ? 1 : c_.nest.math.extent(c_.k[0]); }

  std::string each_sum(const std::function<std::string(int64_t, int64_t)>& line) const {
    std::string text;
    for (int64_t i = 0; i < mr_; ++i) {
      for (int64_t j = 0; j < config_.vectors; ++j) text += line(i, j);
    }
    return text;
  }

  // One tile: sums of all k of a pass. Sums are scalars with names of their own: as an array GCC
  // would leave them in memory.
  std::string micro_kernel() const {
    bool direct = scalar_mode_ == Mode::direct;
    std::string text = str("typedef float em_v __attribute__((vector_size(", width_ * 4,
                           "), aligned(4), may_alias));\n");
    text += str("static void ENTRY_tile(int64_t depth, const float* ",
                direct ? "const* rows" : "restrict s", ", const float* restrict v, ",
                "float* restrict sums, int fresh) {\n");
    if (direct) {
      for (int64_t i = 0; i < mr_; ++i) text += str("const float* s", i, " = rows[", i, "];\n");
    }
    text += each_sum([&](int64_t i, int64_t j) {
      return str("em_v c", i, "_", j, " = fresh ? (em_v){0} : *(em_v*)(sums + ",
                 i * nr_ + j * width_, ");\n");
    });
    int64_t step = direct ? *c_.nest.math.stride(c_.load(scalar_).at, c_.k.back()) : 0;
    text += str("for (int64_t k = 0; k < depth; ++k) {\n");
    for (int64_t j = 0; j < config_.vectors; ++j)
      text += str("const em_v v", j, " = *(const em_v*)(v + ", j * width_, ");\n");
    if (vector_mode_ == Mode::ahead) text += str("__builtin_prefetch(v + ", 8 * nr_, ");\n");
    text += each_sum([&](int64_t i, int64_t j) {
      std::string s = direct ? str("s", i, "[k * ", step, "]") : str("s[", i, "]");
      return str("c", i, "_", j, " += v", j, " * ", s, ";\n");
    });
    text += str("v += ", nr_, ";\n", direct ? "" : str("s += ", mr_, ";\n"), "}\n");
    text += each_sum([&](int64_t i, int64_t j) {
      return str("*(em_v*)(sums + ", i * nr_ + j * width_, ") = c", i, "_", j, ";\n");
    });
    return text + "}\n";
  }

  // Statements for every run of neighbours along the side's innermost iterator, for numbers from
  // `from` to `to`: inside, the side's iterators other than the innermost are known, which goes
  // from lo to hi; `at` is the number at lo.
  std::string runs(const Side& side, const std::string& from, const std::string& to,
                   const std::string& body) const {
    int last = side.iterators.back();
    std::vector<int> outer(side.iterators.begin(), side.iterators.end() - 1);
    int64_t extent = c_.nest.math.extent(last);
    return str("for (int64_t at = ", from, ", hi_; at < ", to, "; at += hi_) {\n",
               "const int64_t lo = at % ", extent, ", hi = lo + (", to, " - at) < ", extent,
               " ? lo + (", to, " - at) : ", extent, ";\nhi_ = hi - lo;\n",
               declare_digits(c_.nest, outer, str("at / ", extent)), body, "}\n");
  }

  // Panels of one block: panel[k][j] for the numbers of the block, zero beyond the side's end.
  std::string pack(const Side& side, const std::string& block, int64_t width,
                   const std::string& panel) const {
    const Nest& nest = c_.nest;
    auto name = [](int a) { return iterator_name(a); };
    std::string condition;
    for (const Bound& b : c_.load(side).bounds) {
      auto [low, high] = nest.math.range(b.at);
      std::string i = nest.math.text(b.at, name);
      if (low < 0) condition += str(condition.empty() ? "" : " && ", i, " >= 0");
      if (high >= b.extent) condition += str(condition.empty() ? "" : " && ", i, " < ", b.extent);
    }
    std::string element =
        str("x", c_.load(side).buffer, "[", nest.math.text(c_.load(side).at, name), "]");
    std::string plain = element;
    if (!condition.empty()) element = str(condition, " ? ", element, " : 0.f");
    std::string text = str("const int64_t from = (", block, ") * ", width, ", to = from + ", width,
                           " < ", side.extent, " ? from + ", width, " : ", side.extent, ";\n");
    if (side.extent % width != 0) {
      text += str("if (to - from < ", width, ") memset(", panel, ", 0, sizeof(float) * ", width,
                  " * depth);\n");
    }
    std::string loops = "int64_t k = 0;\n", closing;
    for (size_t i = 0; i < c_.k.size(); ++i) {
      std::string it = iterator_name(c_.k[i]);
      loops += i == 0 ? str("for (int64_t ", it, " = k0; ", it, " < k1; ++", it, ") {\n")
                      : str("for (int64_t ", it, " = 0; ", it, " < ", nest.math.extent(c_.k[i]),
                            "; ++", it, ") {\n");
      closing += "}\n";
    }
    std::string body;
    if (side.iterators.empty()) {
      return str("{\n", text, loops, panel, "[k++ * ", width, "] = ", element, ";\n", closing,
                 "}\n");
    }
    std::string lane = iterator_name(side.iterators.back());
    body = str(loops, "float* const to_ = ", panel, " + k++ * ", width, " + (at - from);\n");
    auto copy = [&](const char* from, const char* to, const std::string& what) {
      return str("#pragma GCC ivdep\nfor (int64_t ", lane, " = ", from, "; ", lane, " < ", to,
                 "; ++", lane, ") to_[", lane, " - lo] = ", what, ";\n");
    };
    const auto& bounds = c_.load(side).bounds;
    if (auto inside = declare_inside(nest, bounds, side.iterators.back());
        inside && !bounds.empty()) {
      body +=
          *inside + copy("lo", "in0", "0.f") + copy("in0", "in1", plain) + copy("in1", "hi", "0.f");
    } else {
      body += copy("lo", "hi", element);
    }
    body += closing;
    return str("{\n", text, runs(side, "from", "to", body), "}\n");
  }

  // All tiles of the task, pass by pass over k.
  std::string products() const {
    std::string text = str("for (int64_t k0 = 0; k0 < ", k_extent(), "; k0 += ", step_, ") {\n",
                           "const int64_t k1 = k0 + ", step_, " < ", k_extent(), " ? k0 + ", step_,
                           " : ", k_extent(), ", depth = (k1 - k0) * ", inner_, ";\n");
    if (scalar_mode_ == Mode::packed) {
      text += "for (int64_t bm = bm0; bm < bm1; ++bm)\n" +
              pack(scalar_, "bm", mr_, str("(spanel + (bm - bm0) * depth * ", mr_, ")"));
    }
    text += "for (int64_t bn = bn0; bn < bn1; ++bn) {\n";
    if (vector_mode_ == Mode::packed) {
      text += pack(vector_, "bn", nr_, "vpanel");
      text += "const float* const v = vpanel;\n";
    } else {
      text += str("const float* const v = x", c_.load(vector_).buffer, " + ((batch * ", blocks_n_,
                  " + bn) * ", c_.depth, " + k0 * ", inner_, ") * ", nr_, ";\n");
    }
    text += "for (int64_t bm = bm0; bm < bm1; ++bm) {\n";
    std::string sums =
        str("sums + ((bn - bn0) * ", config_.blocks_m, " + (bm - bm0)) * ", mr_ * nr_);
    std::string s;
    if (scalar_mode_ == Mode::direct) {
      text += direct_rows();
      s = "rows";
    } else if (scalar_mode_ == Mode::ahead) {
      s = str("x", c_.load(scalar_).buffer, " + ((batch * ", blocks_m_, " + bm) * ", c_.depth,
              " + k0 * ", inner_, ") * ", mr_);
    } else {
      s = str("spanel + (bm - bm0) * depth * ", mr_);
    }
    return text + str("ENTRY_tile(depth, ", s, ", v, ", sums, ", k0 == 0);\n}\n}\n}\n");
  }

  // Where the rows of a tile begin; beyond the last row the last one is read again.
  std::string direct_rows() const {
    const Nest& nest = c_.nest;
    Linear at = c_.load(scalar_).at;
    for (int k : c_.k) at = at + term(k, -*nest.math.stride(at, k));
    std::string text =
        str("const float* rows[", mr_, "];\nfor (int64_t i = 0; i < ", mr_, "; ++i) {\n");
    text += str("const int64_t m = bm * ", mr_, " + i < ", scalar_.extent, " ? bm * ", mr_,
                " + i : ", scalar_.extent - 1, ";\n");
    text += declare_digits(nest, scalar_.iterators, "m");
    text += str("rows[i] = x", c_.load(scalar_).buffer, " + ",
                nest.math.text(at, [](int a) { return iterator_name(a); }), " + k0 * ",
                *nest.math.stride(c_.load(scalar_).at, c_.k[0]), ";\n}\n");
    return text;
  }

  // The rest of the group, along the iterator that memory is written in the order of.
  std::string epilogue() const {
    const Nest& nest = c_.nest;
    int last = nest.space.empty() ? -1 : nest.space.back();
    auto has = [&](const Side& s) { return !s.iterators.empty() && s.iterators.back() == last; };
    bool along_vector = has(vector_);
    const Side& lanes = along_vector || !has(scalar_) ? vector_ : scalar_;
    const Side& others = &lanes == &vector_ ? scalar_ : vector_;
    bool vector_lanes = &lanes == &vector_;
    int64_t lane_block = vector_lanes ? nr_ : mr_, other_block = vector_lanes ? mr_ : nr_;
    const char *lane_b = vector_lanes ? "bn" : "bm", *other_b = vector_lanes ? "bm" : "bn";
    std::string text = str("for (int64_t b = ", lane_b, "0; b < ", lane_b, "1; ++b) {\n");
    text += str("const int64_t begin = b * ", lane_block, ", end = begin + ", lane_block, " < ",
                lanes.extent, " ? begin + ", lane_block, " : ", lanes.extent, ";\n");
    text += str("const int64_t o1 = ", other_b, "1 * ", other_block, " < ", others.extent, " ? ",
                other_b, "1 * ", other_block, " : ", others.extent, ";\n");
    text += str("for (int64_t o = ", other_b, "0 * ", other_block, "; o < o1; ++o) {\n");
    text += declare_digits(nest, others.iterators, "o");
    // sums[bn][bm][i][j]
    std::string bn = vector_lanes ? "b" : str("o / ", nr_),
                bm = vector_lanes ? str("o / ", mr_) : "b";
    std::string base =
        str("sums + ((", bn, " - bn0) * ", config_.blocks_m, " + (", bm, " - bm0)) * ", mr_ * nr_);
    base += vector_lanes ? str(" + o % ", mr_, " * ", nr_) : str(" + o % ", nr_);
    int64_t step = vector_lanes ? 1 : nr_;
    text += str("const float* const tile = ", base, ";\n");
    RowPrinter printer(nest, group_, lanes.iterators.empty() ? -1 : lanes.iterators.back(),
                       lane_block);
    if (lanes.iterators.empty()) {
      // One point: a row of one lane without an iterator.
      printer.give(c_.sum, "tile[0]");
      text += printer.print();
    } else {
      std::string lane = iterator_name(lanes.iterators.back());
      printer.give(c_.sum, step == 1 ? str("row[", lane, " - lo]")
                                     : str("row[(", lane, " - lo) * ", step, "]"));
      text += runs(
          lanes, "begin", "end",
          str("const float* const row = tile + (at - begin) * ", step, ";\n", printer.print()));
    }
    return text + "}\n}\n";
  }

  const Contraction& c_;
  const Graph& group_;
  Config config_;
  Side scalar_, vector_;
  Mode scalar_mode_ = Mode::packed, vector_mode_ = Mode::packed;
  int64_t width_ = 16, mr_ = 8, nr_ = 32, blocks_m_ = 1, blocks_n_ = 1, tasks_m_ = 1, tasks_n_ = 1;
  int64_t inner_ = 1, step_ = 1;  // k's below the outermost; outermost k's of one pass
};

int64_t blocks(int64_t extent, int64_t block) {
  return (extent + block - 1) / block;
}

// Blocks per task: all rows of a panel if they fit, cut until every thread has work.
void cut_into_tasks(Config& f, const Contraction& c, const Side& scalar, const Side& vector,
                    int64_t nr, int threads) {
  int64_t bm = blocks(scalar.extent, f.rows), bn = blocks(vector.extent, nr);
  f.blocks_m = std::max<int64_t>(1, std::min(bm, kSums / (f.rows * nr)));
  f.blocks_n = 1;
  int64_t wanted = 4 * threads;
  int64_t have = c.batches * blocks(bm, f.blocks_m) * bn;
  if (have < wanted && bm > 1) {
    int64_t pieces = std::min(bm, blocks(wanted, c.batches * bn));
    f.blocks_m = std::min(f.blocks_m, blocks(bm, pieces));
  }
}

double estimate(const Config& f, const Contraction& c, const Side& scalar, const Side& vector,
                int64_t width, bool vector_ahead, bool scalar_packed, bool scalar_direct,
                const Target& target) {
  int64_t nr = f.vectors * width;
  auto padded = [](int64_t n, int64_t to) { return static_cast<double>(blocks(n, to) * to); };
  auto depth = static_cast<double>(c.depth), batches = static_cast<double>(c.batches);
  double m = padded(scalar.extent, f.rows), n = padded(vector.extent, nr);
  // Fewer sums than the pipeline is deep leave it waiting.
  double busy = std::min(1.0, static_cast<double>(f.rows * f.vectors) / 8);
  // Every row that is read where it stands has a pointer of its own, and those are few.
  constexpr int64_t kPointers = 10;
  if (scalar_direct && f.rows > kPointers) busy *= 0.6;
  // A register of the vector side is loaded for few sums only.
  if (scalar.extent >= 6 && f.rows < 6) busy *= 0.8;
  double seconds = 2 * batches * m * n * depth / (target.peak_flops * 0.95 * busy);
  auto threads = static_cast<double>(target.threads);
  double chunks_m = static_cast<double>(blocks(blocks(scalar.extent, f.rows), f.blocks_m));
  double chunks_n = static_cast<double>(blocks(blocks(vector.extent, nr), f.blocks_n));
  if (!vector_ahead) {
    bool neighbours = !vector.iterators.empty() &&
                      c.nest.math.stride(c.load(vector).at, vector.iterators.back()) == 1;
    double rate = neighbours ? kPackRate * 4 : kPackRate;
    seconds += batches * n * depth * chunks_m / (rate * threads);
  }
  if (scalar_packed) seconds += batches * m * depth * chunks_n / (kPackRate * threads);
  // Rows that the second-level cache does not hold are read again for every panel.
  constexpr double kCached = 600e3, kShared = 20e9;  // bytes; bytes/s and thread
  double bytes = static_cast<double>(f.blocks_m * f.rows) * depth * 4;
  if (bytes > kCached) seconds += batches * m * depth * 4 * chunks_n / (kShared * threads);
  // The epilogue runs along the iterator that memory is written in the order of; across the sums'
  // rows its lanes are few and far apart.
  int last = c.nest.space.empty() ? -1 : c.nest.space.back();
  bool across = !scalar.iterators.empty() && scalar.iterators.back() == last;
  double each = across ? (f.rows < width ? 4e-9 : 1e-9) : 0.1e-9;
  seconds += batches * static_cast<double>(scalar.extent * vector.extent) * each / threads;
  double tasks = batches * chunks_m * chunks_n;
  double uneven = std::ceil(tasks / threads) * threads / tasks;
  return target.launch_s + seconds * uneven;
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  Graph group = laid_out(wanted.group, wanted.layouts);
  auto c = contraction_in(group);
  if (!c || c->depth < 4) return {};
  std::vector<Candidate> all;
  int64_t width = target.vector_bytes / 4;
  int64_t registers = target.vector_bytes == 64 ? 32 : 16;
  auto can_pack = [&](const Side& s) {
    return wanted.constant[static_cast<size_t>(c->load(s).buffer)] && panels(*c, s, group, 1);
  };
  const bool first_ahead = can_pack(c->first), second_ahead = can_pack(c->second);
  auto ahead = [&](const Side& s) { return &s == &c->first ? first_ahead : second_ahead; };
  for (bool swapped : {false, true}) {
    const Side& scalar = swapped ? c->second : c->first;
    const Side& vector = swapped ? c->first : c->second;
    for (int64_t vectors : {1, 2, 3, 4}) {
      for (int64_t rows : {1, 2, 3, 4, 6, 7, 8, 10, 12, 13, 14, 16}) {
        if (rows * vectors + vectors + 1 > registers) continue;
        if (rows > 1 && rows > 2 * scalar.extent) continue;
        Config f{swapped, rows, vectors};
        cut_into_tasks(f, *c, scalar, vector, vectors * width, target.threads);
        Candidate candidate{.kernel = "contract", .config = to_attrs(f), .layouts = wanted.layouts};
        bool direct = !ahead(scalar) && is_direct(*c, scalar);
        candidate.estimate_s = estimate(f, *c, scalar, vector, width, ahead(vector),
                                        !ahead(scalar) && !direct, direct, target);
        all.push_back(std::move(candidate));
      }
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.estimate_s < b.estimate_s;
  });
  if (all.size() > 8) all.resize(8);
  // Graphs only for those that are left.
  for (Candidate& candidate : all) {
    auto f = candidate.config.as<Config>();
    candidate.packing.resize(group.inputs.size());
    auto pack = [&](const Side& side, int64_t to) {
      if (!ahead(side)) return;
      candidate.packing[static_cast<size_t>(c->load(side).buffer)] =
          panels(*c, side, group, to).value();
    };
    pack(c->first, f.swapped ? f.vectors * width : f.rows);
    pack(c->second, f.swapped ? f.rows : f.vectors * width);
  }
  return all;
}

KernelCode emit(const Graph& logical, const Candidate& candidate, const Target& target) {
  Graph group = laid_out(logical, candidate.layouts);
  Contraction c = *contraction_in(group);
  return ContractPrinter(c, group, candidate, target).print();
}

}  // namespace

Kernel contract_kernel() {
  return {.name = "contract", .candidates = candidates, .emit = emit};
}

}  // namespace emend
