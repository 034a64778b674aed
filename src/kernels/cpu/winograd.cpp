// Winograd's convolutions: F(m, r) along every dimension of the window (winograd_transform.h), for
// any sum of products in which one factor depends on the sum of a tap's and an output's index, with
// channels last. A kernel, not a rule: it rounds otherwise than the sum that it stands for.
//
// A task takes a block of tiles and some panels of output channels:
//   1. every tile, channel vector by channel vector, is read, multiplied by B along all dimensions
//      and stored as v[point][tile][channel];
//   2. per point, a matrix product with the weights, which were multiplied by G ahead of time:
//      m[point][tile][output channel], in passes over some panels at a time;
//   3. the tiles of a pass are multiplied by A and go through the group's epilogue.
// What is read outside of the input (pads, ragged ends) is a row of zeros: pointers are made once
// per tile, so neither loads nor sums know of edges. Tiles beyond the last are the last one again.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/contraction.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/cpu/winograd_transform.h"

namespace emend {
namespace {

struct Config {
  Dims products;        // n of F(n - r + 1, r), per dimension of the window
  int64_t rows = 14;    // tiles of a register block
  int64_t vectors = 2;  // of output channels of a register block: a panel
  int64_t blocks = 1;   // register blocks of tiles of one task
  int64_t pass = 1;     // panels of one pass
  int64_t splits = 1;   // tasks that share the passes of a block of tiles
  EMEND_FIELDS(products, rows, vectors, blocks, pass, splits)
};

int64_t pieces(int64_t extent, int64_t size) {
  return (extent + size - 1) / size;
}

struct WindowDim {
  int out = -1, tap = -1;  // iterators
};

// out[image, o, n] = sum over taps and channel of x[image, o + tap, channel] * w[n, channel, tap]
struct Correlation {
  Contraction c;
  Side x, w;
  std::vector<WindowDim> window;
  std::vector<int> images;  // iterators of the output besides the window's and its channels
  int channel = -1, maps = -1;
  int64_t channels = 1, outputs = 1;
  const Nest& nest() const { return c.nest; }
  const NestValue& input() const { return c.load(x); }
  int64_t extent(int iterator) const { return c.nest.math.extent(iterator); }
};

// The load depends on the two iterators by their sum only.
bool moves_with(const Nest& nest, const NestValue& load, int a, int b) {
  auto same = [&](const Linear& e) {
    auto x = nest.math.stride(e, a), y = nest.math.stride(e, b);
    return x && y && *x == *y;
  };
  return same(load.at) &&
         std::ranges::all_of(load.bounds, [&](const Bound& bound) { return same(bound.at); });
}

std::optional<Correlation> correlation_in(const Graph& group) {
  auto contraction = contraction_in(group);
  if (!contraction || contraction->batches != 1) return std::nullopt;
  Correlation r{.c = std::move(*contraction)};
  const Nest& nest = r.nest();
  bool swapped = r.c.second.iterators.size() > r.c.first.iterators.size();
  r.x = swapped ? r.c.second : r.c.first;
  r.w = swapped ? r.c.first : r.c.second;
  r.images = r.x.iterators;
  for (int tap : r.c.k) {
    auto out =
        std::ranges::find_if(r.images, [&](int o) { return moves_with(nest, r.input(), tap, o); });
    if (out != r.images.end()) {
      r.window.push_back({*out, tap});
      r.images.erase(out);
    } else if (r.channel < 0) {
      r.channel = tap;
    } else {
      return std::nullopt;
    }
  }
  if (r.window.empty() || r.window.size() > 3 || r.channel < 0 || r.w.iterators.size() != 1)
    return std::nullopt;
  // As the output has them.
  std::ranges::sort(r.window, {}, [&](const WindowDim& d) {
    return std::ranges::find(nest.space, d.out) - nest.space.begin();
  });
  r.maps = r.w.iterators[0];
  r.channels = r.extent(r.channel);
  r.outputs = r.extent(r.maps);
  bool in_lanes = nest.math.stride(r.input().at, r.channel) == 1 &&
                  std::ranges::all_of(r.input().bounds, [&](const Bound& b) {
                    return nest.math.stride(b.at, r.channel) == 0;
                  });
  if (!in_lanes) return std::nullopt;
  return r;
}

// What follows from a configuration.
struct Sizes {
  Dims n, m, taps, tiles;                          // per dimension of the window
  int64_t points = 1, pixels = 1, tiles_in_all = 1;  // a tile's products and outputs
  int64_t width = 16, panel = 32;                  // lanes; output channels
  int64_t passes = 1, passes_of_task = 1, splits = 1;
  int64_t block = 14, blocks = 1;  // tiles of a task
  int64_t v_row = 0, m_row = 0;    // elements from one tile to the next

  Sizes(const Correlation& r, const Config& f, const Target& target) {
    n = f.products;
    for (size_t d = 0; d < r.window.size(); ++d) {
      taps.push_back(r.extent(r.window[d].tap));
      m.push_back(n[d] - taps[d] + 1);
      tiles.push_back(pieces(r.extent(r.window[d].out), m[d]));
      points *= n[d];
      pixels *= m[d];
      tiles_in_all *= tiles[d];
    }
    for (int i : r.images) tiles_in_all *= r.extent(i);
    width = target.vector_bytes / 4;
    panel = f.vectors * width;
    passes = pieces(r.outputs, panel * f.pass);
    passes_of_task = pieces(passes, f.splits);
    splits = pieces(passes, passes_of_task);
    block = f.rows * f.blocks;
    blocks = pieces(tiles_in_all, block);
    // Rows that lie a power of two apart share few places of the cache.
    v_row = r.channels + 16;
    m_row = f.pass * panel + (f.pass > 1 ? 16 : 0);
  }
  // Points of one tile lie an odd number of lines apart.
  static int64_t plane(int64_t elements) { return (pieces(elements, 16) | 1) * 16; }
  int64_t v_plane() const { return plane(block * v_row); }
  int64_t m_plane() const { return plane(block * m_row); }
  int64_t scratch() const { return points * (v_plane() + m_plane()); }  // elements
};

// A matrix for every dimension, applied to vectors that have names.
class Separable {
 public:
  Separable(std::vector<RationalMatrix> matrices, std::string prefix)
      : matrices_(std::move(matrices)), prefix_(std::move(prefix)) {}

  std::string print(std::vector<std::string>& names) {
    std::string text;
    Dims extents;
    for (const RationalMatrix& m : matrices_) extents.push_back(static_cast<int64_t>(m[0].size()));
    for (size_t d = matrices_.size(); d-- > 0;) {
      const RationalMatrix& m = matrices_[d];
      auto rows = static_cast<int64_t>(m.size()), columns = extents[d];
      int64_t inner = 1, outer = 1;
      for (size_t k = 0; k < d; ++k) outer *= extents[k];
      for (size_t k = d + 1; k < extents.size(); ++k) inner *= extents[k];
      std::vector<std::string> next(static_cast<size_t>(outer * rows * inner));
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
          std::vector<std::string> in, out;
          for (int64_t c = 0; c < columns; ++c)
            in.push_back(names[static_cast<size_t>((o * columns + c) * inner + i)]);
          for (int64_t r = 0; r < rows; ++r) {
            int64_t at = (o * rows + r) * inner + i;
            out.push_back(str(prefix_, d, "_", at));
            next[static_cast<size_t>(at)] = out.back();
          }
          text += product_text(m, in, out);
        }
      }
      extents[d] = rows;
      names = std::move(next);
    }
    return text;
  }

 private:
  std::vector<RationalMatrix> matrices_;
  std::string prefix_;
};

class WinogradPrinter {
 public:
  WinogradPrinter(const Correlation& r, const Graph& group, const Config& f, const Target& target)
      : r_(r), group_(group), f_(f), s_(r, f, target) {
    for (size_t d = 0; d < s_.n.size(); ++d)
      matrices_.push_back(winograd_matrices(s_.m[d], s_.taps[d], winograd_points(s_.n[d])));
  }

  KernelCode print() {
    std::string text = str("typedef float em_v __attribute__((vector_size(", s_.width * 4,
                           "), aligned(4), may_alias));\n", "static const float ENTRY_zeros[",
                           r_.channels, "];\n");
    text += input_transform() + micro_kernel() + output_transform();
    text += "void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n" +
            declare_buffers(group_);
    text += str("float* const v = buffers[", group_.inputs.size() + group_.outputs.size(),
                "];\nfloat* const m = v + ", s_.points * s_.v_plane(), ";\n");
    text += str("float out[", s_.pixels * s_.panel, "] __attribute__((aligned(64)));\n");
    text += "for (int64_t task = first; task < last; ++task) {\n";
    text += str("const int64_t tile0 = task % ", s_.blocks, " * ", s_.block,
                ", pass0 = task / ", s_.blocks, " * ", s_.passes_of_task, ";\n");
    text += str("const int64_t pass1 = pass0 + ", s_.passes_of_task, " < ", s_.passes,
                " ? pass0 + ", s_.passes_of_task, " : ", s_.passes, ";\n");
    text += read_tiles();
    text += "for (int64_t pass = pass0; pass < pass1; ++pass) {\n" + products() + write_tiles();
    text += "}\n}\n}\n";
    KernelCode code = named_kernel(std::move(text), s_.blocks * s_.splits);
    code.scratch_bytes = static_cast<size_t>(s_.scratch()) * 4;
    return code;
  }

 private:
  std::vector<std::string> numbered(const char* prefix, int64_t count) const {
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) names.push_back(str(prefix, i));
    return names;
  }

  std::string input_transform() const {
    std::vector<RationalMatrix> b;
    for (const auto& w : matrices_) b.push_back(w.b);
    std::string text =
        "static void ENTRY_in(const float* const* from, float* restrict v) {\n";
    text += str("for (int64_t c = 0; c < ", r_.channels, "; c += ", s_.width, ") {\n");
    auto names = numbered("x", s_.points);
    for (int64_t e = 0; e < s_.points; ++e)
      text += str("const em_v x", e, " = *(const em_v*)(from[", e, "] + c);\n");
    text += Separable(std::move(b), "b").print(names);
    for (int64_t e = 0; e < s_.points; ++e)
      text += str("*(em_v*)(v + c + ", e * s_.v_plane(), ") = ", names[static_cast<size_t>(e)],
                  ";\n");
    return text + "}\n}\n";
  }

  std::string output_transform() const {
    std::vector<RationalMatrix> a;
    for (const auto& w : matrices_) a.push_back(w.a);
    std::string text = "static void ENTRY_out(const float* restrict m, float* restrict out) {\n";
    text += str("for (int64_t j = 0; j < ", s_.panel, "; j += ", s_.width, ") {\n");
    auto names = numbered("x", s_.points);
    for (int64_t e = 0; e < s_.points; ++e)
      text += str("const em_v x", e, " = *(const em_v*)(m + j + ", e * s_.m_plane(), ");\n");
    text += Separable(std::move(a), "a").print(names);
    for (int64_t e = 0; e < s_.pixels; ++e)
      text += str("*(em_v*)(out + j + ", e * s_.panel, ") = ", names[static_cast<size_t>(e)],
                  ";\n");
    return text + "}\n}\n";
  }

  // Sums are scalars with names of their own: as an array GCC would leave them in memory.
  std::string micro_kernel() const {
    std::string text =
        "static void ENTRY_tile(const float* restrict v, const float* restrict u, float* restrict "
        "m) {\n";
    auto each = [&](const std::function<std::string(int64_t, int64_t)>& line) {
      std::string all;
      for (int64_t i = 0; i < f_.rows; ++i) {
        for (int64_t j = 0; j < f_.vectors; ++j) all += line(i, j);
      }
      return all;
    };
    text += each([](int64_t i, int64_t j) { return str("em_v c", i, "_", j, " = {0};\n"); });
    text += str("for (int64_t k = 0; k < ", r_.channels, "; ++k) {\n");
    for (int64_t j = 0; j < f_.vectors; ++j)
      text += str("const em_v u", j, " = *(const em_v*)(u + ", j * s_.width, ");\n");
    // Some lines ahead, across the ends of panels: they are read in the order of memory.
    constexpr int64_t kAhead = 512;
    for (int64_t j = 0; j * 16 < s_.panel; ++j)
      text += str("__builtin_prefetch(u + ", kAhead + j * 16, ");\n");
    text += each([&](int64_t i, int64_t j) {
      return str("c", i, "_", j, " += u", j, " * v[k + ", i * s_.v_row, "];\n");
    });
    text += str("u += ", s_.panel, ";\n}\n");
    text += each([&](int64_t i, int64_t j) {
      return str("*(em_v*)(m + ", i * s_.m_row + j * s_.width, ") = c", i, "_", j, ";\n");
    });
    return text + "}\n";
  }

  // Declares the tile's number in every dimension, and the iterators of the images.
  std::string declare_tile(const std::string& tile) const {
    std::string text = str("int64_t rest = ", tile, ";\n");
    for (size_t d = s_.tiles.size(); d-- > 0;)
      text += str("const int64_t t", d, " = rest % ", s_.tiles[d], ";\nrest /= ", s_.tiles[d],
                  ";\n");
    return text + declare_digits(r_.nest(), r_.images, "rest");
  }

  // Loops over the places of a tile; the output's iterators are known inside.
  std::string each_place(const Dims& extents, const char* end_of_tile, const std::string& body) const {
    std::string text, closing;
    for (size_t d = 0; d < extents.size(); ++d) {
      std::string i = iterator_name(r_.window[d].out);
      text += str("for (int64_t e", d, " = 0; e", d, " < ", extents[d], "; ++e", d, ") {\n",
                  "const int64_t ", i, " = t", d, " * ", s_.m[d], " + e", d, ";\n");
      if (end_of_tile && s_.m[d] * s_.tiles[d] != r_.extent(r_.window[d].out))
        text += str("if (", i, " >= ", r_.extent(r_.window[d].out), ") ", end_of_tile, ";\n");
      closing += "}\n";
    }
    return text + body + closing;
  }

  std::string number_of_place(const Dims& extents) const {
    std::string text = "0";
    for (size_t d = 0; d < extents.size(); ++d) text = str("(", text, ") * ", extents[d], " + e", d);
    return text;
  }

  std::string read_tiles() const {
    const Nest& nest = r_.nest();
    Linear at = r_.input().at;
    auto without_sums = [&](Linear e) {
      for (int k : r_.c.k) e = e + term(k, -*nest.math.stride(e, k));
      return e;
    };
    auto name = [](int a) { return iterator_name(a); };
    std::string inside;
    auto require = [&](const std::string& what) { inside += (inside.empty() ? "" : " && ") + what; };
    for (const Bound& b : r_.input().bounds)
      require(str("(uint64_t)(", nest.math.text(without_sums(b.at), name), ") < ", b.extent));
    for (size_t d = 0; d < s_.n.size(); ++d) {
      int64_t outputs = r_.extent(r_.window[d].out);
      if (s_.m[d] * s_.tiles[d] != outputs)
        require(str(name(r_.window[d].out), " < ", outputs + s_.taps[d] - 1));
    }
    std::string from = str("x", r_.input().buffer, " + ", nest.math.text(without_sums(at), name));
    if (!inside.empty()) from = str(inside, " ? ", from, " : ENTRY_zeros");
    std::string text = str("for (int64_t t = 0; t < ", s_.block, "; ++t) {\n");
    text += declare_tile(str("tile0 + t < ", s_.tiles_in_all, " ? tile0 + t : ",
                             s_.tiles_in_all - 1));
    text += str("const float* from[", s_.points, "];\n");
    text += each_place(s_.n, nullptr, str("from[", number_of_place(s_.n), "] = ", from, ";\n"));
    return text + str("ENTRY_in(from, v + t * ", s_.v_row, ");\n}\n");
  }

  std::string products() const {
    int64_t weights = r_.channels * s_.panel;
    std::string buffer = str("x", r_.c.load(r_.w).buffer);
    return str("for (int64_t p = 0; p < ", s_.points, "; ++p) {\nfor (int64_t n = 0; n < ",
               f_.pass, "; ++n) {\nconst float* const u = ", buffer, " + ((pass * ", s_.points,
               " + p) * ", f_.pass, " + n) * ", weights, ";\nfor (int64_t t = 0; t < ", s_.block,
               "; t += ", f_.rows, ")\nENTRY_tile(v + p * ", s_.v_plane(), " + t * ", s_.v_row,
               ", u, m + p * ", s_.m_plane(), " + t * ", s_.m_row, " + n * ", s_.panel,
               ");\n}\n}\n");
  }

  std::string write_tiles() const {
    std::string text = str("for (int64_t t = 0; t < ", s_.block, " && tile0 + t < ",
                           s_.tiles_in_all, "; ++t) {\n", declare_tile("tile0 + t"));
    text += str("for (int64_t n = 0; n < ", f_.pass, "; ++n) {\nconst int64_t lo = (pass * ",
                f_.pass, " + n) * ", s_.panel, ";\n");
    if (r_.outputs % s_.panel == 0) {
      text += str("const int64_t hi = lo + ", s_.panel, ";\n");
      if (r_.outputs % (s_.panel * f_.pass) != 0) text += str("if (lo >= ", r_.outputs, ") break;\n");
    } else {
      text += str("const int64_t hi = lo + ", s_.panel, " < ", r_.outputs, " ? lo + ", s_.panel,
                  " : ", r_.outputs, ";\nif (lo >= hi) break;\n");
    }
    text += str("ENTRY_out(m + t * ", s_.m_row, " + n * ", s_.panel, ", out);\n");
    RowPrinter printer(r_.nest(), group_, r_.maps, s_.panel);
    printer.give(r_.c.sum, str("row[", iterator_name(r_.maps), " - lo]"));
    text += each_place(s_.m, "break",
                       str("const float* const row = out + (", number_of_place(s_.m), ") * ",
                           s_.panel, ";\n", printer.print()));
    return text + "}\n}\n";
  }

  const Correlation& r_;
  const Graph& group_;
  Config f_;
  Sizes s_;
  std::vector<WinogradMatrices> matrices_;
};

// The weights as [pass, point, panel, channel, output channel], multiplied by G.
std::optional<Graph> packed_weights(const Correlation& r, const Graph& group, const Config& f,
                                    const Sizes& s) {
  GraphBuilder b;
  std::vector<int> wanted = {r.maps, r.channel};
  for (const WindowDim& d : r.window) wanted.push_back(d.tap);
  auto w = arranged_operand(b, r.c, r.w, group, wanted);
  if (!w) return std::nullopt;
  auto reshaped = [&](NodeId n, Dims shape) {
    return b.op("reshape", {n}, Attrs({{"shape", std::move(shape)}}));
  };
  size_t dims = s.n.size();
  Dims pads(2 * (dims + 2)), cut = {s.passes, f.pass, s.panel, r.channels}, perm = {0};
  pads[dims + 2] = s.passes * f.pass * s.panel - r.outputs;
  cut.insert(cut.end(), s.taps.begin(), s.taps.end());
  for (size_t d = 0; d < dims; ++d) perm.push_back(static_cast<int64_t>(4 + d));
  perm.insert(perm.end(), {1, 3, 2});
  NodeId x = reshaped(b.op("pad", {*w}, Attrs({{"pads", pads}})), cut);
  x = b.op("transpose", {x}, Attrs({{"perm", perm}}));
  int64_t outer = s.passes, inner = f.pass * r.channels * s.panel * count(s.taps);
  for (size_t d = 0; d < dims; ++d) {
    inner /= s.taps[d];
    RationalMatrix g = winograd_matrices(s.m[d], s.taps[d], winograd_points(s.n[d])).g;
    std::vector<double> values;
    for (const auto& row : g) {
      for (const Rational& v : row) values.push_back(v.value());
    }
    x = reshaped(x, {outer, s.taps[d], inner});
    x = b.op("matmul", {b.constant(Tensor::of_reals(DType::f32, {s.n[d], s.taps[d]}, values)), x});
    outer *= s.n[d];
  }
  b.output("y", reshaped(x, {s.passes, s.points, f.pass, r.channels, s.panel}));
  return std::move(b).build();
}

double estimate(const Correlation& r, const Config& f, const Sizes& s, const Target& target) {
  auto real = [](int64_t x) { return static_cast<double>(x); };
  double threads = target.threads;
  double cycle_s = 2 * real(s.width) * threads / target.peak_flops;
  double tiles = real(s.block), outputs = real(s.passes_of_task * f.pass * s.panel);
  // Of one task.
  double busy = std::min(1.0, real(f.rows * f.vectors) / 8) * 0.96;
  if (f.rows <= 4) busy *= 0.75;  // a panel is read from the second-level cache for few sums
  double sums = real(s.points) * tiles * real(r.channels) * outputs / real(s.width) / busy;
  constexpr double kInput = 5, kOutput = 6;  // cycles per point and vector
  double in = kInput * real(s.points) * tiles * real(r.channels) / real(s.width);
  double out = kOutput * real(s.points) * tiles * outputs / real(s.width);
  constexpr double kNear = 26, kSecond = 700e3;  // bytes per cycle; bytes
  double u_bytes = 4 * real(s.points) * real(r.channels) * outputs;
  double all_u = 4 * real(s.points) * real(r.channels) * real(s.passes * f.pass * s.panel);
  double stream = u_bytes / kNear;
  double v_bytes = 4 * real(s.points * s.v_plane()), m_bytes = 4 * real(s.points * s.m_plane());
  double again = v_bytes + m_bytes > kSecond
                     ? (v_bytes * real(s.passes_of_task) / 2 + 2 * m_bytes * real(s.passes_of_task)) / kNear
                     : 0;
  // Streams and sums run at once, but for a part.
  double task = std::max(sums, stream) + 0.1 * std::min(sums, stream) + in + out + again;
  double rounds = std::ceil(real(s.blocks * s.splits) / threads);
  // Other layers' weights have come in between: these are read from main memory, while computing.
  constexpr double kMeanwhile = 0.6;
  return target.launch_s + std::max(rounds * task * cycle_s, all_u / (target.bandwidth * kMeanwhile));
}

// Errors grow by what the matrices amplify, and with the root of the sum's length: within a third
// of what was measured from 64 to 512 channels.
double expected_error(const Correlation& r, const Dims& products) {
  double squares = std::sqrt(static_cast<double>(r.channels)) * 0x1p-25;
  for (size_t d = 0; d < products.size(); ++d) {
    int64_t taps = r.extent(r.window[d].tap);
    squares *= amplification(
        winograd_matrices(products[d] - taps + 1, taps, winograd_points(products[d])));
  }
  return squares;
}

// Which products to try along every dimension.
std::vector<Dims> product_choices(const Correlation& r) {
  std::vector<Dims> all = {{}};
  for (const WindowDim& d : r.window) {
    std::vector<Dims> next;
    for (const Dims& before : all) {
      int64_t covered = 0;
      for (int64_t n : {4, 6, 8}) {
        int64_t m = n - r.extent(d.tap) + 1;
        if (m < 2 || covered >= r.extent(d.out)) continue;
        covered = m;
        next.push_back(before);
        next.back().push_back(n);
      }
    }
    all = std::move(next);
  }
  constexpr int64_t kPoints = 256;
  std::erase_if(all, [](const Dims& n) { return count(n) > kPoints; });
  return all;
}

// Register blocks, and what a task may take of tiles and panels.
std::vector<Config> configurations(const Correlation& r, const Dims& products,
                                   const Target& target) {
  constexpr int64_t kScratch = 8 << 20;  // bytes of a thread
  std::vector<Config> all;
  int64_t registers = target.vector_bytes == 64 ? 32 : 16;
  auto add = [&](Config f) {
    Sizes s(r, f, target);
    bool empty = f.blocks > 1 && s.block - f.rows >= s.tiles_in_all;
    if (!empty && s.scratch() * 4 <= kScratch) all.push_back(std::move(f));
  };
  for (int64_t vectors : {1, 2, 3, 4}) {
    int64_t panels = pieces(r.outputs, vectors * target.vector_bytes / 4);
    for (int64_t rows = 4; (rows + 1) * vectors < registers; ++rows) {
      for (int64_t blocks : {1, 2, 3, 4, 6, 8}) {
        for (int64_t splits : std::set<int64_t>{1, target.threads}) {
          for (int64_t pass : std::set<int64_t>{1, 2, 4, pieces(panels, splits)}) {
            if (pass <= panels) add({products, rows, vectors, blocks, pass, splits});
          }
        }
      }
    }
  }
  return all;
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  Graph group = laid_out(wanted.group, wanted.layouts);
  auto r = correlation_in(group);
  if (!r || r->channels % (target.vector_bytes / 4) != 0) return {};
  auto weights = static_cast<size_t>(r->c.load(r->w).buffer);
  if (!wanted.constant[weights]) return {};
  std::vector<Candidate> all;
  for (const Dims& products : product_choices(*r)) {
    std::vector<Candidate> some;
    double error = expected_error(*r, products);
    for (const Config& f : configurations(*r, products, target)) {
      some.push_back({.kernel = "winograd",
                      .config = to_attrs(f),
                      .layouts = wanted.layouts,
                      .estimate_s = estimate(*r, f, Sizes(*r, f, target), target),
                      .error = error});
    }
    std::ranges::stable_sort(some, {}, &Candidate::estimate_s);
    // Of every choice of products: others may be too large or lose too much.
    constexpr size_t kKept = 4;
    if (some.size() > kKept) some.resize(kKept);
    all.insert(all.end(), some.begin(), some.end());
  }
  for (Candidate& c : all) {
    auto f = c.config.as<Config>();
    auto packing = packed_weights(*r, group, f, Sizes(*r, f, target));
    if (!packing) return {};
    c.packing.resize(group.inputs.size());
    c.packing[weights] = std::move(*packing);
  }
  return all;
}

KernelCode emit(const Graph& logical, const Candidate& candidate, const Target& target) {
  Graph group = laid_out(logical, candidate.layouts);
  Correlation r = *correlation_in(group);
  return WinogradPrinter(r, group, candidate.config.as<Config>(), target).print();
}

}  // namespace

Kernel winograd_kernel() {
  return {.name = "winograd", .candidates = candidates, .emit = emit};
}

}  // namespace emend
