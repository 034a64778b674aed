// Convolutions where they stand: no panels of the input are made. A tile of sums, some columns by
// some vectors of output channels, stays in registers while the window goes by. Depthwise, and with
// few channels per group, a vector of input channels is loaded once for all taps that see it, and
// shuffled inside its register so that every lane meets the channels of its own group; otherwise
// single inputs are broadcast. Columns whose taps leave the image are tiles of their own, printed
// without those taps, and windows are cut to the image's rows, so that nothing is tested in a tile.
// Channels that fill no vector are vectors of half the width, and so on. The rest of the group
// takes the sums of a tile from registers, vector by vector, or where that would be too much text
// from a buffer in the first-level cache.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/direct_plan.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/cpu/window.h"

namespace emend {
namespace {

class DirectPrinter {
 public:
  DirectPrinter(const Window& window, const Graph& group, const DirectConfig& config,
                const Target& target)
      : w_(window), group_(group), config_(config), width_(target.vector_bytes / 4) {
    block_ = config.vectors * width_;
  }

  KernelCode print() {
    int64_t full = w_.lanes() / block_, all = blocks(w_.lanes(), block_);
    int64_t each = blocks(all, config_.chunks), rows = w_.row_count(), chunks = blocks(all, each);
    std::string body = rows_text();
    if (full > 0) {
      body += str("for (int64_t block = chunk * ", each, "; block < ", full,
                  " && block < (chunk + 1) * ", each, "; ++block) {\n", block_text(block_), "}\n");
    }
    if (full < all) {
      body += str("if (chunk == ", full / each, ") {\nconst int64_t block = ", full, ";\n",
                  block_text(w_.lanes() - full * block_), "}\n");
    }
    std::string text =
        types() + tiles_ +
        "void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n" +
        declare_buffers(group_);
    text +=
        str("float sums[", config_.columns * block_, "] __attribute__((aligned(64)));\n",
            "for (int64_t task = first; task < last; ++task) {\n",
            rows_first(w_) ? str("const int64_t row = task / ", chunks, ", chunk = task % ", chunks)
                           : str("const int64_t row = task % ", rows, ", chunk = task / ", rows),
            ";\n", body, "}\n}\n");
    return named_kernel(std::move(text), rows * chunks);
  }

 private:
  static std::string name(int a) { return iterator_name(a); }

  std::string types() const {
    std::string text;
    for (int64_t n = width_; n >= 1; n /= 2) {
      text += str("typedef float em_v", n, " __attribute__((vector_size(", n * 4,
                  "), aligned(4), may_alias));\n");
      if (w_.shuffled && w_.filters > 1 && n >= w_.filters)
        text += str("typedef int32_t em_i", n, " __attribute__((vector_size(", n * 4, ")));\n");
    }
    return text;
  }

  // Of a row: where it begins in x, and which of the window is inside.
  std::string rows_text() const {
    std::string text = declare_digits(w_.nest, w_.rows, "row");
    Linear at = whole(w_.x.at.constant);
    for (int a : w_.rows) at = at + term(a, w_.x_stride(a));
    text += str("const int64_t begin = ", w_.nest.math.text(at, name), ";\n");
    for (int k : w_.window) {
      text += str("int64_t from", k, " = 0, to", k, " = ", w_.extent(k), ";\n");
    }
    for (const Bound& b : w_.row_bounds()) {
      for (int k : w_.window) {
        int64_t step = *w_.nest.math.stride(b.at, k);
        if (step == 0) continue;
        text += str("{\nconst int64_t rest = ", w_.nest.math.text(b.at + term(k, -step), name),
                    ", from = em_ceil_div(-rest, ", step, "), to = em_ceil_div(", b.extent,
                    " - rest, ", step, ");\nif (from", k, " < from) from", k, " = from;\nif (to", k,
                    " > to) to", k, " = to;\n}\n");
      }
    }
    return text;
  }

  // All columns of one block of lanes.
  std::string block_text(int64_t lanes) {
    std::string at = "begin";
    if (w_.shuffled)
      at += str(" + block * ", block_);
    else if (w_.group >= 0)
      at += str(" + block * ", block_, " / ", w_.filters, " * ", w_.group_stride);
    int64_t count = w_.extent(w_.column), tiles = blocks(count, config_.columns);
    std::string text =
        str("const float* const w = x", w_.w.buffer, " + block * ", w_.depth() * block_, ";\n",
            "for (int64_t tile = 0; tile < ", tiles, "; ++tile) {\n", "const int64_t at = ", at,
            " + tile * ", config_.columns * w_.x_stride(w_.column), ";\n");
    // Runs of tiles that are printed alike.
    std::vector<std::pair<std::string, int64_t>> runs;
    for (int64_t t = 0; t < tiles; ++t) {
      std::string function = tile_function(t, lanes);
      if (runs.empty() || runs.back().first != function) runs.emplace_back(function, 0);
      runs.back().second = t + 1;
    }
    std::string arguments = "w, sums, at, tile, block";
    each_variable([&](const std::string&, const std::string& name) { arguments += ", " + name; });
    for (size_t r = 0; r < runs.size(); ++r) {
      text += r + 1 < runs.size() ? str("if (tile < ", runs[r].second, ") ") : "";
      text += str(runs[r].first, "(", arguments, ");\n", r + 1 < runs.size() ? "else " : "");
    }
    return text + (in_registers() ? "" : epilogue_of_buffer(lanes)) + "}\n";
  }

  // What tiles know besides: buffers, where the row is, and what of the window is inside.
  void each_variable(
      const std::function<void(const std::string& type, const std::string& name)>& see) const {
    for (size_t b = 0; b < group_.inputs.size(); ++b)
      see(str("const ", c_storage(group_.type(group_.inputs[b].node).dtype), "*"), str("x", b));
    for (size_t b = 0; b < group_.outputs.size(); ++b)
      see(str(c_storage(group_.type(group_.outputs[b].node).dtype), "*"), str("y", b));
    for (int a : w_.rows) see("int64_t", name(a));
    for (int k : w_.window) {
      see("int64_t", str("from", k));
      see("int64_t", str("to", k));
    }
  }

  // The rest of the group for some lanes of a column, whose sums begin at tile_row.
  std::string epilogue(const std::string& column, const std::string& first, int64_t lanes) const {
    RowPrinter printer(w_.nest, group_, w_.lane, lanes);
    printer.give(w_.sum, "tile_row[lane_]");
    printer.fix_lanes(lanes);
    return str(w_.column < 0 ? "" : str("const int64_t ", name(w_.column), " = ", column, ";\n"),
               "const int64_t lo = ", first, ";\n", printer.print());
  }

  // Compilers keep a vector that is stored and read again in its register, if that is written out.
  bool in_registers() const {
    constexpr size_t kLongest = 24 << 10;
    return epilogue("0", "0", width_).size() *
               static_cast<size_t>(config_.columns * config_.vectors) <=
           kLongest;
  }
  std::string epilogue_of_registers(int64_t column, const Piece& p, const std::string& sum) const {
    return str("{\nfloat tile_row[", p.width, "] __attribute__((aligned(64)));\n*(em_v", p.width,
               "*)tile_row = ", sum, ";\n",
               epilogue(str("tile * ", config_.columns, " + ", column),
                        str("block * ", block_, " + ", p.first), p.width),
               "}\n");
  }
  std::string epilogue_of_buffer(int64_t lanes) const {
    int64_t count = w_.extent(w_.column);
    std::string end = str("(tile + 1) * ", config_.columns);
    if (count % config_.columns != 0)
      end = str("(", end, " < ", count, " ? ", end, " : ", count, ")");
    return str("const float* tile_row = sums;\nfor (int64_t column = tile * ", config_.columns,
               "; column < ", end, "; ++column, tile_row += ", block_, ") {\n",
               epilogue("column", str("block * ", block_), lanes), "}\n");
  }

  // ---- tiles

  struct Tile {
    std::vector<std::vector<int64_t>> columns;  // per tap, the columns that see it
    int64_t count = 0;
    auto operator<=>(const Tile&) const = default;
  };

  Tile tile_at(int64_t number) const {
    int64_t first = number * config_.columns;
    Tile t;
    t.count = std::min(config_.columns, w_.extent(w_.column) - first);
    t.columns.resize(static_cast<size_t>(w_.extent(w_.tap)));
    for (size_t tap = 0; tap < t.columns.size(); ++tap) {
      for (int64_t c = 0; c < t.count; ++c) {
        if (w_.inside(first + c, static_cast<int64_t>(tap))) t.columns[tap].push_back(c);
      }
    }
    return t;
  }

  // The name of the function for a tile, which is printed when it is first wanted.
  std::string tile_function(int64_t number, int64_t lanes) {
    Tile tile = tile_at(number);
    auto [it, fresh] = functions_.try_emplace({tile, lanes}, str("ENTRY_tile", functions_.size()));
    if (!fresh) return it->second;
    auto vectors = pieces(lanes, width_);
    std::string text = str(
        "static inline __attribute__((always_inline)) void ", it->second,
        "(const float* restrict w, float* restrict sums, int64_t at, int64_t tile, int64_t block");
    each_variable([&](const std::string& type, const std::string& name) {
      text += str(", ", type, " ", name);
    });
    text += ") {\n";
    each_sum(tile, vectors, [&](int64_t c, size_t v) {
      text += str("em_v", vectors[v].width, " c", c, "_", v, " = {0};\n");
    });
    Linear x_at, w_at;
    int64_t step = w_.extent(w_.tap) * w_.extent(w_.channel) * block_;
    for (size_t i = w_.window.size(); i-- > 0;) {
      x_at = x_at + term(w_.window[i], w_.x_stride(w_.window[i]));
      w_at = w_at + term(w_.window[i], step);
      step *= w_.extent(w_.window[i]);
    }
    for (int k : w_.window) {
      text += str("for (int64_t ", name(k), " = from", k, "; ", name(k), " < to", k, "; ++",
                  name(k), ") {\n");
    }
    text +=
        str("const float* const xs = x", w_.x.buffer, " + (at + ", w_.nest.math.text(x_at, name),
            ");\n", "const float* const ws = w + (", w_.nest.math.text(w_at, name), ");\n");
    text += w_.shuffled ? shuffled_sums(tile, vectors) : broadcast_sums(tile, vectors);
    for (size_t k = 0; k < w_.window.size(); ++k) text += "}\n";
    each_sum(tile, vectors, [&](int64_t c, size_t v) {
      std::string sum = str("c", c, "_", v);
      text += in_registers() ? epilogue_of_registers(c, vectors[v], sum)
                             : str("*(em_v", vectors[v].width, "*)(sums + ",
                                   c * block_ + vectors[v].first, ") = ", sum, ";\n");
    });
    tiles_ += text + "}\n";
    return it->second;
  }

  static void each_sum(const Tile& tile, const std::vector<Piece>& vectors,
                       const std::function<void(int64_t, size_t)>& line) {
    for (int64_t c = 0; c < tile.count; ++c) {
      for (size_t v = 0; v < vectors.size(); ++v) line(c, v);
    }
  }

  // Every vector of inputs is loaded once and multiplied by all taps that see it.
  std::string shuffled_sums(const Tile& tile, const std::vector<Piece>& vectors) const {
    int64_t taps = w_.extent(w_.tap), channels = w_.extent(w_.channel);
    std::map<int64_t, std::vector<std::pair<int64_t, int64_t>>> uses;  // place in x: column, tap
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c : tile.columns[static_cast<size_t>(t)])
        uses[c * w_.x_stride(w_.column) + t * w_.x_stride(w_.tap)].emplace_back(c, t);
    }
    std::string text;
    for (int64_t channel = 0; channel < channels; ++channel) {
      text += "{\n";
      for (int64_t t = 0; t < taps; ++t) {
        if (tile.columns[static_cast<size_t>(t)].empty()) continue;
        for (size_t v = 0; v < vectors.size(); ++v) {
          text += str("const em_v", vectors[v].width, " w", t, "_", v, " = ",
                      load(vectors[v], "ws", (t * channels + channel) * block_), ";\n");
        }
      }
      size_t number = 0;
      for (const auto& [place, seen] : uses) {
        for (size_t v = 0; v < vectors.size(); ++v) {
          std::string x = str("x", number, "_", v);
          text += str("const em_v", vectors[v].width, " ", x, " = ",
                      shuffled(load(vectors[v], "xs", place), vectors[v].width, channel), ";\n");
          for (auto [c, t] : seen) text += str("c", c, "_", v, " += w", t, "_", v, " * ", x, ";\n");
          if (channel == 0) text += fetch_ahead(place + vectors[v].first);
        }
        ++number;
      }
      text += "}\n";
    }
    return text;
  }

  // Of an input that no cache holds, what two rows further need of it: lanes are read in pieces, of
  // which the machine itself sees no stream coming.
  std::string fetch_ahead(int64_t place) const {
    constexpr int64_t kHeld = 8 << 20;  // bytes
    const Type& x = group_.type(group_.inputs[static_cast<size_t>(w_.x.buffer)].node);
    if (w_.rows.empty() || count(x.shape) * 4 <= kHeld) return "";
    return str("__builtin_prefetch(xs + ", place + 2 * w_.x_stride(w_.rows.back()), ");\n");
  }

  static std::string load(const Piece& p, const char* from, int64_t at) {
    return str("*(const em_v", p.width, "*)(", from, " + ", at + p.first, ")");
  }

  // In every lane this channel of the lane's own group.
  std::string shuffled(const std::string& x, int64_t width, int64_t channel) const {
    if (w_.filters == 1) return x;
    std::string lanes;
    for (int64_t l = 0; l < width; ++l)
      lanes += str(l == 0 ? "" : ", ", l / w_.filters * w_.filters + channel);
    return str("__builtin_shuffle(", x, ", (em_i", width, "){", lanes, "})");
  }

  // Weights run along the lanes, inputs are one number for all of them.
  std::string broadcast_sums(const Tile& tile, const std::vector<Piece>& vectors) const {
    int64_t channels = w_.extent(w_.channel);
    bool unrolled = channels <= kUnrolled;
    std::string text;
    for (size_t t = 0; t < tile.columns.size(); ++t) {
      if (tile.columns[t].empty()) continue;
      auto tap = static_cast<int64_t>(t);
      for (int64_t k = 0; k < (unrolled ? channels : 1); ++k) {
        std::string number = unrolled ? str(k) : "k";
        text += unrolled ? "{\n" : str("for (int64_t k = 0; k < ", channels, "; ++k) {\n");
        for (size_t v = 0; v < vectors.size(); ++v) {
          text += str("const em_v", vectors[v].width, " w_", v, " = ",
                      load(vectors[v], str("ws + ", number, " * ", block_).c_str(),
                           tap * channels * block_),
                      ";\n");
        }
        for (int64_t c : tile.columns[t]) {
          std::string x = str("xs[", c * w_.x_stride(w_.column) + tap * w_.x_stride(w_.tap), " + ",
                              number, " * ", w_.x_stride(w_.channel), "]");
          for (size_t v = 0; v < vectors.size(); ++v)
            text += str("c", c, "_", v, " += w_", v, " * ", x, ";\n");
        }
        // Inputs that other taps see are read again: kept, they would crowd the sums out.
        text += unrolled ? "__asm__ volatile(\"\" ::: \"memory\");\n}\n" : "}\n";
      }
    }
    return text;
  }

  const Window& w_;
  const Graph& group_;
  DirectConfig config_;
  int64_t width_ = 16, block_ = 16;
  std::map<std::pair<Tile, int64_t>, std::string> functions_;
  std::string tiles_;
};

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  const Graph& group = wanted.in_memory.graph;
  auto w = window_in(wanted.in_memory, wanted.constant, target.vector_bytes / 4);
  if (!w || w->depth() < 4) return {};
  for (const NestStore& s : w->nest.stores) {
    if (w->nest.math.stride(s.at, w->lane) != 1) return {};
  }
  int64_t width = target.vector_bytes / 4, registers = target.vector_bytes == 64 ? 32 : 16;
  int64_t taps = w->shuffled ? w->extent(w->tap) : 1;
  std::vector<Candidate> all;
  for (int64_t vectors : {1, 2, 3, 4}) {
    // A vector that reads one number stays within a group.
    if (!w->shuffled && w->groups > 1 && w->filters % (vectors * width) != 0) continue;
    if (vectors > 1 && (vectors - 1) * width >= w->lanes()) continue;
    for (int64_t columns : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}) {
      if (columns > w->extent(w->column)) continue;
      if (columns * vectors + vectors * taps + 2 * vectors > registers) continue;
      int64_t all_blocks = blocks(w->lanes(), vectors * width);
      for (int64_t chunks : std::set<int64_t>{1, std::min<int64_t>(2, all_blocks), all_blocks}) {
        DirectConfig f{columns, vectors, chunks};
        Candidate c{.kernel = "direct", .config = to_attrs(f), .layouts = wanted.layouts};
        c.estimate_s = direct_seconds(*w, group, f, target);
        all.push_back(std::move(c));
      }
    }
  }
  std::ranges::stable_sort(all, {}, &Candidate::estimate_s);
  if (all.size() > wanted.kept(8)) all.resize(wanted.kept(8));
  for (Candidate& c : all) {
    c.packing.resize(group.inputs.size());
    c.packing[static_cast<size_t>(w->w.buffer)] =
        window_packing(*w, group, c.config.as<DirectConfig>().vectors * width);
  }
  return all;
}

double estimate(const Wanted& wanted, const Candidate& c, const Target& target) {
  Window w = *window_in(wanted.in_memory, wanted.constant, target.vector_bytes / 4);
  return direct_seconds(w, wanted.in_memory.graph, c.config.as<DirectConfig>(), target);
}

KernelCode emit(const Graph& logical, const Candidate& c, const Target& target) {
  GroupInMemory group(logical, c.layouts);
  // The weights are what is packed.
  std::vector<bool> constant;
  for (const Graph& p : c.packing) constant.push_back(!p.outputs.empty());
  Window w = *window_in(group, constant, target.vector_bytes / 4);
  return DirectPrinter(w, group.graph, c.config.as<DirectConfig>(), target).print();
}

}  // namespace

Kernel direct_kernel() {
  // Taps beyond an edge are left out.
  return {.name = "direct",
          .stores_anywhere = true,
          .candidates = candidates,
          .emit = emit,
          .estimate = estimate,
          .executes = 0.8};
}

}  // namespace emend
