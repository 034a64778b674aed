#include "kernels/cpu/winograd_printer.h"

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/cpu/sum_bound.h"
#include "kernels/cpu/tile_printer.h"
#include "kernels/cpu/winograd_transform.h"

namespace emend {
namespace {

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

// The same from memory to memory. Of the first dimension some rows of the matrix are done at a
// time, those that share work, and taken through the others: all at once would not fit the
// registers, and to read an input twice is cheaper than to put away what was made of it.
class SeparableInParts {
 public:
  using Place = std::function<std::string(int64_t)>;

  // With `squares`, what is read is also squared and added to four sums of vectors of that name.
  SeparableInParts(std::vector<RationalMatrix> matrices, Place load, Place store, bool squares)
      : matrices_(std::move(matrices)),
        load_(std::move(load)),
        store_(std::move(store)),
        squares_(squares) {
    for (size_t d = 1; d < matrices_.size(); ++d) {
      inputs_ *= static_cast<int64_t>(matrices_[d][0].size());
      outputs_ *= static_cast<int64_t>(matrices_[d].size());
    }
  }

  std::string print() const {
    std::string text;
    std::vector<bool> squared(matrices_[0][0].size(), !squares_);
    for (const auto& rows : rows_together(matrices_[0], kLive / inputs_))
      text += part(rows, squared);
    return text;
  }

 private:
  static constexpr int64_t kLive = 16;  // vectors that wait in registers

  // Columns that were read before are squared already.
  std::string part(const std::vector<size_t>& rows, std::vector<bool>& squared) const {
    RationalMatrix some;
    for (size_t r : rows) some.push_back(matrices_[0][r]);
    auto reads = [&](size_t c) {
      return std::ranges::any_of(some, [&](const auto& row) { return row[c].num != 0; });
    };
    std::vector<std::vector<std::string>> waiting(rows.size());
    std::string text = "{\n";
    for (int64_t i = 0; i < inputs_; ++i) {
      std::vector<std::string> in, out;
      for (size_t c = 0; c < some[0].size(); ++c) {
        auto e = static_cast<int64_t>(c) * inputs_ + i;
        in.push_back(str("x", e));
        if (!reads(c)) continue;
        text += str("const em_v x", e, " = ", load_(e), ";\n");
        if (!squared[c]) text += str("squares", e % 4, " += x", e, " * x", e, ";\n");
      }
      for (size_t r = 0; r < rows.size(); ++r) {
        out.push_back(str("t", rows[r], "_", i));
        waiting[r].push_back(out.back());
      }
      text += product_text(some, in, out);
    }
    for (size_t c = 0; c < squared.size(); ++c) squared[c] = squared[c] || reads(c);
    for (size_t r = 0; r < rows.size(); ++r) {
      std::vector<RationalMatrix> others(matrices_.begin() + 1, matrices_.end());
      text += Separable(std::move(others), str("y", rows[r], "_")).print(waiting[r]);
      for (size_t e = 0; e < waiting[r].size(); ++e) {
        auto place = static_cast<int64_t>(rows[r]) * outputs_ + static_cast<int64_t>(e);
        text += str("*(em_v*)(", store_(place), ") = ", waiting[r][e], ";\n");
      }
    }
    // What is read again is not to be kept.
    return text + "__asm__ volatile(\"\" ::: \"memory\");\n}\n";
  }

  std::vector<RationalMatrix> matrices_;
  Place load_, store_;
  bool squares_;
  int64_t inputs_ = 1, outputs_ = 1;  // of the other dimensions
};

class WinogradPrinter {
 public:
  WinogradPrinter(const Correlation& r, const Graph& group, const WinogradConfig& f,
                  const Target& target)
      : r_(r), group_(group), f_(f), s_(r, f, target) {
    for (size_t d = 0; d < s_.n.size(); ++d)
      matrices_.push_back(winograd_matrices(s_.m[d], s_.taps[d], winograd_points(s_.n[d])));
  }

  KernelCode print() {
    std::string text =
        declare_vector(s_.width) + str("static const float ENTRY_zeros[",
                                       row_step() * (s_.n.back() - 1) + r_.channels, "];\n");
    if (masked()) text += masked_load();
    if (turns()) text += print_turn({.width = s_.width});
    text +=
        print_sum_bound(s_.width, s_.panel, most_of_sample(f_.bound, winograd_amplification(s_)));
    if (row_step() > 0) text += input_transform(true);
    text += input_transform(false) + output_transform() + copy_of_sums();
    for (bool plain : {false, true}) {
      text += tile(plain ? "ENTRY_plain" : "ENTRY_tile", f_.rows, plain);
      if (s_.last_rows > 0)
        text += tile(plain ? "ENTRY_last_plain" : "ENTRY_last", s_.last_rows, plain);
    }
    text += "void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n" +
            declare_buffers(group_);
    text += str("float* const v = buffers[", group_.inputs.size() + group_.outputs.size(),
                "];\nfloat* const m = v + ", s_.points * s_.v_plane(),
                ";\nfloat* const plain_rows = m + ", s_.points * s_.m_plane(), ";\n");
    if (turns()) {
      text += str("float* const out = plain_rows + ", s_.v_plane(), ";\n");
    } else {
      text += str("float out[", s_.pixels * s_.panel, "] __attribute__((aligned(64)));\n");
    }
    text += "for (int64_t task = first; task < last; ++task) {\n";
    text += str("const int64_t tile0 = task % ", s_.blocks, " * ", s_.block, ", pass0 = task / ",
                s_.blocks, " * ", s_.passes_of_task, ";\n");
    text += str("const int64_t pass1 = pass0 + ", s_.passes_of_task, " < ", s_.passes,
                " ? pass0 + ", s_.passes_of_task, " : ", s_.passes, ";\n");
    text += str("const int64_t tiles = ", s_.tiles_in_all, " - tile0 < ", s_.block, " ? ",
                s_.tiles_in_all, " - tile0 : ", s_.block, ";\n", read_tiles(), widest_tile());
    text += "for (int64_t pass = pass0; pass < pass1; ++pass) {\n" + look_at_bound() +
            "if (plain) {\n" + plain_sums() + "} else {\n" + products() + "}\n" +
            (turns() ? write_columns() : write_tiles());
    text += "}\n}\n}\n";
    KernelCode code = named_kernel(std::move(text), s_.blocks * s_.splits);
    code.scratch_bytes = static_cast<size_t>(s_.scratch()) * 4;
    return code;
  }

 private:
  // A function that multiplies a vector after the other by a matrix of every dimension. That of the
  // inputs returns the sum of their squares.
  std::string transform(const char* signature, const char* vector, int64_t lanes,
                        RationalMatrix WinogradMatrices::*which,
                        const std::function<std::string(int64_t)>& load,
                        const std::function<std::string(int64_t)>& store) const {
    std::vector<RationalMatrix> all;
    for (const WinogradMatrices& w : matrices_) all.push_back(w.*which);
    bool squares = which == &WinogradMatrices::b;
    std::string text = str("static ", squares ? "float " : "void ", signature, " {\n");
    if (squares) text += "em_v squares0 = {0}, squares1 = {0}, squares2 = {0}, squares3 = {0};\n";
    text +=
        str("for (int64_t ", vector, " = 0; ", vector, " < ", lanes, "; ", vector, " += ", s_.width,
            ") {\n", SeparableInParts(std::move(all), load, store, squares).print(), "}\n");
    if (squares) {
      text += str("squares0 += squares1;\nsquares2 += squares3;\nsquares0 += squares2;\n",
                  "float sum = 0;\nfor (int i = 0; i < ", s_.width,
                  "; ++i) sum += squares0[i];\nreturn sum;\n");
    }
    return text + "}\n";
  }

  static std::string whole(const std::string& at) { return str("*(const em_v*)(", at, ")"); }

  // Of channels that fill no vector the last ones are read under a mask; products do not look at
  // the lanes beyond.
  bool masked() const { return s_.lanes != r_.channels; }
  std::string masked_load() const {
    return "static inline em_v ENTRY_load(const float* from, uint16_t lanes) {\nem_v x;\n"
           "__asm__(\"vmovups %1, %0%{%2%}%{z%}\" : \"=v\"(x) : \"m\"(*(const em_v*)from), "
           "\"Yk\"(lanes));\nreturn x;\n}\n";
  }
  std::string lanes_at(const std::string& c) const {
    return str("(uint16_t)(", c, " + ", s_.width, " > ", r_.channels, " ? ",
               (int64_t{1} << (r_.channels % s_.width)) - 1, " : -1)");
  }

  // Of the input from one column to the next, where tiles can be read row by row; else 0.
  int64_t row_step() const {
    constexpr int64_t kZeros = 16 << 10;  // a row of them
    const Nest& nest = r_.nest();
    int64_t step = *nest.math.stride(r_.input().at, r_.window.back().out);
    bool apart = std::ranges::all_of(r_.input().bounds, [&](const Bound& b) {
      return !of_columns(b) || std::ranges::none_of(r_.window, [&](const WindowDim& d) {
        return d.out != r_.window.back().out && nest.math.stride(b.at, d.out) != 0;
      });
    });
    return apart && step > 0 && step * s_.n.back() <= kZeros ? step : 0;
  }
  bool of_columns(const Bound& b) const {
    return r_.nest().math.stride(b.at, r_.window.back().out) != 0;
  }

  // From a pointer to every place, or to the first of every row.
  std::string input_transform(bool rows) const {
    return transform(
        rows ? "ENTRY_rows(const float* const* from, float* restrict v)"
             : "ENTRY_in(const float* const* from, float* restrict v)",
        "c", r_.channels, &WinogradMatrices::b,
        [&](int64_t e) {
          int64_t n = s_.n.back();
          std::string at =
              rows ? str("from[", e / n, "] + c + ", e % n * row_step()) : str("from[", e, "] + c");
          return masked() ? str("ENTRY_load(", at, ", ", lanes_at("c"), ")") : whole(at);
        },
        [&](int64_t e) { return str("v + c + ", e * s_.v_plane()); });
  }

  std::string output_transform() const {
    return transform(
        "ENTRY_out(const float* restrict m, float* restrict out)", "j", s_.panel,
        &WinogradMatrices::a, [&](int64_t e) { return whole(str("m + j + ", e * s_.m_plane())); },
        [&](int64_t e) { return str("out + j + ", place_of(e) * s_.panel); });
  }
  // Of a tile's outputs, in `out`.
  int64_t place_of(int64_t pixel) const {
    int64_t columns = turns() ? s_.columns : s_.m.back();
    return pixel / s_.m.back() * columns + pixel % s_.m.back();
  }
  // Plain sums need no transform: an output stands where products of a point would.
  std::string copy_of_sums() const {
    std::string text = "static void ENTRY_sums(const float* restrict m, float* restrict out) {\n";
    for (int64_t e = 0; e < s_.pixels; ++e) {
      text += str("memcpy(out + ", place_of(e) * s_.panel, ", m + ", e * s_.m_plane(), ", ",
                  4 * s_.panel, ");\n");
    }
    return text + "}\n";
  }

  bool turns() const { return s_.columns > 0; }

  // Weights are fetched some lines ahead, across the ends of panels: they are read in the order of
  // memory.
  std::string tile(const char* name, int64_t rows, bool plain) const {
    return print_tile({.name = name,
                       .rows = rows,
                       .vectors = f_.vectors,
                       .arithmetic = {.width = s_.width},
                       .panel = s_.panel,
                       .row_step = s_.v_row,
                       .k_step = 1,
                       .sums_step = s_.m_row,
                       .continues = plain,
                       .fetch = {.every = 1,
                                 .lines = blocks(s_.panel, kLineFloats),
                                 .step = 4 * s_.panel,
                                 .near = true}});
  }

  // Declares the tile's number in every dimension, and the iterators of the images.
  std::string declare_tile(const std::string& tile) const {
    std::string text = str("int64_t rest = ", tile, ";\n");
    for (size_t d = s_.tiles.size(); d-- > 0;)
      text +=
          str("const int64_t t", d, " = rest % ", s_.tiles[d], ";\nrest /= ", s_.tiles[d], ";\n");
    return text + declare_digits(r_.nest(), r_.images, "rest");
  }

  // Loops over the places of a tile, from places o0, o1 .. on if there are any; the output's
  // iterators are known inside.
  std::string each_place(const Dims& extents, const char* end_of_tile, const std::string& body,
                         bool from_origin = false) const {
    std::string text, closing;
    for (size_t d = 0; d < extents.size(); ++d) {
      std::string i = iterator_name(r_.window[d].out);
      text += str("for (int64_t e", d, " = 0; e", d, " < ", extents[d], "; ++e", d, ") {\n",
                  "const int64_t ", i, " = t", d, " * ", s_.m[d], " + e", d,
                  from_origin ? str(" + o", d) : "", ";\n");
      if (end_of_tile && s_.m[d] * s_.tiles[d] != r_.extent(r_.window[d].out))
        text += str("if (", i, " >= ", r_.extent(r_.window[d].out), ") ", end_of_tile, ";\n");
      closing += "}\n";
    }
    return text + body + closing;
  }

  std::string number_of_place(const Dims& extents) const {
    std::string text = "0";
    for (size_t d = 0; d < extents.size(); ++d)
      text = str("(", text, ") * ", extents[d], " + e", d);
    return text;
  }

  // Where a place of a tile is in the input, by the iterators of the output, and when it is inside.
  struct Reading {
    std::string from;
    std::vector<std::string> row,
        column;  // conditions: what does not depend on the column, and what does
    std::string inside(bool columns) const {
      std::vector<std::string> all = row;
      if (columns) all.insert(all.end(), column.begin(), column.end());
      return join(all, " && ");
    }
  };
  Reading reading() const {
    const Nest& nest = r_.nest();
    auto without_sums = [&](Linear e) {
      for (int k : r_.c.k) e = e + term(k, -*nest.math.stride(e, k));
      return nest.math.text(e, iterator_name);
    };
    Reading all;
    for (const Bound& b : r_.input().bounds)
      (of_columns(b) ? all.column : all.row)
          .push_back(str("(uint64_t)(", without_sums(b.at), ") < ", b.extent));
    for (size_t d = 0; d < s_.n.size(); ++d) {
      int64_t outputs = r_.extent(r_.window[d].out);
      if (s_.m[d] * s_.tiles[d] != outputs)
        (d + 1 == s_.n.size() ? all.column : all.row)
            .push_back(str(iterator_name(r_.window[d].out), " < ", outputs + s_.taps[d] - 1));
    }
    all.from = str("x", r_.input().buffer, " + ", without_sums(r_.input().at));
    return all;
  }

  std::string read_tiles() const {
    Reading r = reading();
    auto transformed = [&](const char* function, const Dims& places, const std::string& inside) {
      std::string from = inside.empty() ? r.from : str(inside, " ? ", r.from, " : ENTRY_zeros");
      return str(
          each_place(places, nullptr, str("from[", number_of_place(places), "] = ", from, ";\n")),
          "squares[t] = ", function, "(from, v + t * ", s_.v_row, ");\n");
    };
    std::string each = transformed("ENTRY_in", s_.n, r.inside(true));
    if (row_step() > 0) {
      Dims rows = s_.n;
      rows.back() = 1;
      each = str("int whole = 1;\n", columns_inside(r), "if (whole) {\n",
                 transformed("ENTRY_rows", rows, r.inside(false)), "} else {\n", each, "}\n");
    }
    return str("float squares[", s_.block, "];\nfor (int64_t t = 0; t < tiles; ++t) {\n",
               declare_tile("tile0 + t"), "const float* from[", s_.points, "];\n", each, "}\n");
  }

  // What of a tile's window is read for an output, o0, o1 ..
  std::string window_of_output() const {
    Reading r = reading();
    std::string inside = r.inside(true);
    std::string from = inside.empty() ? r.from : str(inside, " ? ", r.from, " : ENTRY_zeros");
    return str("const float* window[", s_.plain, "];\n",
               each_place(s_.taps, nullptr,
                          str("window[", number_of_place(s_.taps), "] = ", from, ";\n"), true));
  }

  // The tile with the largest inputs, and an output in the middle of it. Of zeros nothing is lost.
  std::string widest_tile() const {
    std::string text = str(
        "int64_t widest = 0;\nint extreme = 0, empty = 0;\n",
        "for (int64_t t = 0; t < tiles; ++t) {\nextreme |= !(squares[t] < 1e30f);\n",
        "if (squares[t] > squares[widest]) widest = t;\n}\nif (ENTRY_extreme(squares[widest])) {\n",
        "empty = !extreme;\nfor (int64_t t = 0; t < tiles && empty; ++t)\nfor (int64_t p = 0; p < ",
        s_.points, "; ++p)\nfor (int64_t c = 0; c < ", r_.channels, "; ++c) empty &= v[p * ",
        s_.v_plane(), " + t * ", s_.v_row, " + c] == 0;\nextreme = !empty;\n}\n");
    text += "const float* sample[" + str(s_.plain) + "];\n{\n" + declare_tile("tile0 + widest");
    for (size_t d = 0; d < s_.m.size(); ++d) {
      text += str("const int64_t o", d, " = t", d, " * ", s_.m[d], " + ", s_.m[d] / 2, " < ",
                  r_.extent(r_.window[d].out), " ? ", s_.m[d] / 2, " : 0;\n");
    }
    return str(text, window_of_output(), "memcpy(sample, window, sizeof window);\n}\n");
  }

  // The weights of a point or tap of panel n; of a pass.
  std::string weights(const std::string& plane) const {
    return str("x", r_.c.load(r_.w).buffer, " + ((pass * ", s_.planes(), " + ", plane, ") * ",
               f_.pass, " + n) * ", r_.channels * s_.panel);
  }

  // The sample is some taps in the middle of the window, perhaps not all channels of them. Where it
  // is too little to be certain, a closer look decides.
  std::string look_at_bound() const {
    int64_t terms = sampled_terms(s_.plain * r_.channels, winograd_least_bound(s_), f_.bound),
            taps = blocks(terms, r_.channels), first = (s_.plain - taps) / 2,
            step = std::max<int64_t>(1, r_.channels / terms);
    return str("int plain = extreme;\nfor (int64_t n = 0; n < ", f_.pass,
               " && !plain && !empty; ++n) {\nfloat sums[", s_.panel, "] = {0};\n",
               magnitudes("sample", first, first + taps, step), "if (", exceeds("sums"), ") {\n",
               look_closer(), "}\n}\n");
  }

  // All terms of some outputs of the widest tile, the largest sum of every column.
  std::string look_closer() const {
    std::string text = str("float most[", s_.panel, "] = {0};\n", declare_tile("tile0 + widest")),
                closing;
    for (size_t d = 0; d < s_.m.size(); ++d) {
      text += str("for (int64_t o", d, " = 0; o", d, " < ", s_.m[d], "; o", d,
                  " += ", blocks(s_.m[d], 2), ") {\n");
      if (s_.m[d] * s_.tiles[d] != r_.extent(r_.window[d].out))
        text += str("if (t", d, " * ", s_.m[d], " + o", d, " >= ", r_.extent(r_.window[d].out),
                    ") break;\n");
      closing += "}\n";
    }
    return str(text, window_of_output(), "memset(sums, 0, sizeof sums);\n",
               magnitudes("window", 0, s_.plain, 1), "for (int j = 0; j < ", s_.panel,
               "; ++j) if (sums[j] > most[j]) most[j] = sums[j];\n", closing,
               "plain = ", exceeds("most"), ";\n");
  }

  // Adds the magnitudes of an output's terms to `sums`: of some taps, every step-th channel.
  std::string magnitudes(const char* inputs, int64_t first, int64_t last, int64_t step) const {
    return str("for (int64_t p = ", first, "; p < ", last, "; ++p) ENTRY_magnitudes(", inputs,
               "[p], ", r_.channels, ", ", step, ", ", weights(str("(", s_.points, " + p)")),
               ", sums);\n");
  }
  std::string exceeds(const char* sums) const {
    int64_t behind = s_.passes * s_.planes() * f_.pass * r_.channels * s_.panel;
    return str("ENTRY_exceeds(squares[widest], x", r_.c.load(r_.w).buffer, " + ", behind,
               " + (pass * ", f_.pass, " + n) * ", s_.panel, ", ", sums, ")");
  }

  // Output by output of all tiles, tap by tap: their inputs are gathered where transformed ones
  // were, which the next pass may need again.
  std::string plain_sums() const {
    std::string text;
    for (size_t d = 0; d < s_.m.size(); ++d)
      text += str("for (int64_t o", d, " = 0; o", d, " < ", s_.m[d], "; ++o", d, ") {\n");
    std::string pixel = "0";
    for (size_t d = 0; d < s_.m.size(); ++d) pixel = str("(", pixel, ") * ", s_.m[d], " + o", d);
    text += str("const int64_t pixel = ", pixel, ";\nfor (int64_t p = 0; p < ", s_.plain,
                "; ++p) {\nfor (int64_t t = 0; t < tiles; ++t) {\n", declare_tile("tile0 + t"),
                window_of_output(), "memcpy(plain_rows + t * ", s_.v_row, ", window[p], ",
                4 * r_.channels, ");\n}\nfor (int64_t n = 0; n < ", f_.pass,
                "; ++n) {\nconst float* const u = ", weights(str("(", s_.points, " + p)")),
                ";\nfor (int64_t t = 0; t < tiles; t += ", f_.rows, ")\n");
    std::string arguments =
        str("(", r_.channels, ", plain_rows + t * ", s_.v_row, ", u, m + pixel * ", s_.m_plane(),
            " + t * ", s_.m_row, " + n * ", s_.panel, ", p == 0, (const char*)u);\n");
    if (s_.last_rows > 0)
      text += str("if (t + ", f_.rows, " > tiles) ENTRY_last_plain", arguments, "else ");
    text += str("ENTRY_plain", arguments, "}\n}\n");
    return text + std::string(s_.m.size(), '}') + "\n";
  }

  // Whether the first and the last column of a tile are inside, and so all of them.
  std::string columns_inside(const Reading& r) const {
    if (r.column.empty()) return "";
    std::string text;
    for (int64_t e : {int64_t{0}, s_.n.back() - 1}) {
      text += str("{\nconst int64_t ", iterator_name(r_.window.back().out), " = t", s_.n.size() - 1,
                  " * ", s_.m.back(), " + ", e, ";\nwhole &= ", join(r.column, " && "), ";\n}\n");
    }
    return text;
  }

  std::string products() const {
    constexpr int64_t kAhead = 512;  // floats
    std::string arguments = str("(", r_.channels, ", v + p * ", s_.v_plane(), " + t * ", s_.v_row,
                                ", u, m + p * ", s_.m_plane(), " + t * ", s_.m_row, " + n * ",
                                s_.panel, ", (const char*)(u + ", kAhead, "));\n");
    std::string last;
    if (s_.last_rows > 0) {
      last = str("if (t + ", f_.rows, " > tiles) ENTRY_last", arguments, "else ");
    }
    return str("for (int64_t p = 0; p < ", s_.points, "; ++p) {\n", fetch_tiles(),
               "for (int64_t n = 0; n < ", f_.pass,
               "; ++n) {\nconst float* const u = ", weights("p"),
               ";\nfor (int64_t t = 0; t < tiles; t += ", f_.rows, ")\n", last, "ENTRY_tile",
               arguments, "}\n}\n");
  }

  // While the products of a point run, the place of that number is fetched of the inputs of the
  // next task's tiles, which have as many places as points, and of these tiles' outputs.
  std::string fetch_tiles() const {
    if (!s_.streams) return "";
    Reading r = reading();
    std::string inside = r.inside(true);
    std::string text =
        str("if (pass == pass0)\n",
            fetch_place(s_.n, s_.block, inside.empty() ? "1" : inside, r.from, r_.channels, false));
    if (r_.stores != Stores::channels || r_.maps.size() != 1) return text;
    const NestStore& store = r_.nest().stores[0];
    std::string at = r_.nest().math.text(store.at + term(r_.maps.back(), -1), iterator_name),
                within = str("p < ", s_.pixels);
    for (const WindowDim& d : r_.window)
      within += str(" && ", iterator_name(d.out), " < ", r_.extent(d.out));
    return text + fetch_place(s_.m, 0, within,
                              str("y", store.buffer, " + ", at, " + pass * ", f_.pass * s_.panel),
                              f_.pass * s_.panel, true);
  }

  // Of all tiles of a task, counted from `first` of this one's.
  std::string fetch_place(const Dims& extents, int64_t first, const std::string& inside,
                          const std::string& from, int64_t count, bool to_write) const {
    std::string text =
        str("for (int64_t t = ", first, "; t < ", first + s_.block, " && tile0 + t < ",
            s_.tiles_in_all, "; ++t) {\n", declare_tile("tile0 + t"));
    int64_t step = 1;
    for (size_t d = extents.size(); d-- > 0; step *= extents[d]) {
      text += str("const int64_t ", iterator_name(r_.window[d].out), " = t", d, " * ", s_.m[d],
                  " + p / ", step, " % ", extents[d], ";\n");
    }
    return str(text, "if (", inside, ")\nfor (int64_t c = 0; c < ", count, "; c += ", kLineFloats,
               ") __builtin_prefetch(", from, " + c, ", to_write ? 1 : 0, ", 2);\n}\n");
  }

  // Opens a loop over the panels of a pass; the maps of one go from `from` to `to`.
  std::string each_panel(const char* from, const char* to) const {
    std::string text = str("for (int64_t n = 0; n < ", f_.pass, "; ++n) {\nconst int64_t ", from,
                           " = (pass * ", f_.pass, " + n) * ", s_.panel, ";\n");
    if (r_.outputs % s_.panel == 0) {
      text += str("const int64_t ", to, " = ", from, " + ", s_.panel, ";\n");
      if (r_.outputs % (s_.panel * f_.pass) != 0)
        text += str("if (", from, " >= ", r_.outputs, ") break;\n");
    } else {
      std::string end = str(from, " + ", s_.panel);
      text += str("const int64_t ", to, " = ", end, " < ", r_.outputs, " ? ", end, " : ",
                  r_.outputs, ";\nif (", from, " >= ", to, ") break;\n");
    }
    return text;
  }

  // Tiles that are neighbours in a row are turned together, so that long runs of columns are
  // stored.
  std::string write_columns() const {
    const int64_t m = s_.m.back(), extent = r_.extent(r_.window.back().out), width = s_.width;
    const NestStore& store = r_.nest().stores[0];
    std::string map = iterator_name(r_.maps.back()), column = iterator_name(r_.window.back().out);
    std::string buffer = str("y", store.buffer), last = str("t", s_.tiles.size() - 1);
    std::string text = str(
        "for (int64_t t = 0, run; t < tiles; t += run) {\n", declare_tile("tile0 + t"),
        "run = ", s_.tiles.back(), " - ", last, ";\nif (run > tiles - t) run = tiles - t;\n",
        "const int64_t begin = ", last, " * ", m, ", left = ", extent, " - begin, count = run * ",
        m, " < left ? run * ", m, " : left;\n", each_panel("lo", "hi"),
        "for (int64_t u = 0; u < run; ++u)\n(plain ? ENTRY_sums : ENTRY_out)(m + (t + u) * ",
        s_.m_row, " + n * ", s_.panel, ", out + u * ", m * s_.panel, ");\n");
    // The rest of the group, in place.
    Nest nest = r_.nest();
    nest.space = {r_.maps.back()};
    nest.stores[0].at = term(r_.maps.back());
    RowPrinter printer(nest, group_, r_.maps.back(), s_.panel);
    printer.give(r_.c.sum, str("row[", map, " - lo]"));
    Dims outer(s_.m.begin(), s_.m.end() - 1);
    std::string body =
        str("float* const line = out + (", number_of_place(outer), ") * ", s_.columns * s_.panel,
            ";\nfor (int64_t x = 0; x < count; ++x) {\nconst int64_t ", column, " = begin + x;\n",
            "float *const row = line + x * ", s_.panel, ", *const ", buffer, " = row - lo;\n",
            printer.print(), "}\n");
    // Then columns change places with channels; the last square may be done again in part.
    std::string at = r_.nest().math.text(store.at, iterator_name);
    int64_t step = *r_.nest().math.stride(store.at, r_.maps.back());
    body += str("for (int64_t ", map, " = lo; ", map, " < hi; ", map, " += ", width, ") {\n",
                "const float* const from = line + (", map,
                " - lo);\nfor (int64_t x = 0; x < count; ", "x += ", width, ") {\nif (x + ", width,
                " > count && count >= ", width, ") x = count - ", width, ";\nconst int64_t ",
                column, " = begin + x;\nfloat* const to = ", buffer, " + ", at,
                ";\nif (count >= ", width, ") {\nENTRY_turn(from + x * ", s_.panel, ", ", s_.panel,
                ", to, ", step, ");\n} else {\nfor (int64_t j = 0; j < ", width,
                "; ++j) for (int64_t i = 0; i < count; ++i) to[j * ", step, " + i] = from[i * ",
                s_.panel, " + j];\n}\n}\n}\n");
    return text + each_place(outer, "break", body) + "}\n}\n";
  }

  std::string write_tiles() const {
    bool one = r_.maps.size() == 1;
    std::string text = str("for (int64_t t = 0; t < tiles; ++t) {\n", declare_tile("tile0 + t"),
                           each_panel(one ? "lo" : "from", one ? "hi" : "to"));
    text += str("(plain ? ENTRY_sums : ENTRY_out)(m + t * ", s_.m_row, " + n * ", s_.panel,
                ", out);\n");
    RowPrinter printer(r_.nest(), group_, r_.maps.back(), s_.panel);
    bool fixed = one && r_.outputs % s_.panel == 0;
    if (fixed) printer.fix_lanes(s_.panel);
    printer.give(r_.c.sum,
                 fixed ? "row[lane_]" : str("row[", iterator_name(r_.maps.back()), " - lo]"));
    std::string place = str("out + (", number_of_place(s_.m), ") * ", s_.panel);
    std::string body = str("const float* const row = ", place, one ? "" : " + (at - from)", ";\n",
                           printer.print());
    if (!one) body = print_runs(r_.nest(), r_.maps, "from", "to", body);
    return text + each_place(s_.m, "break", body) + "}\n}\n";
  }

  const Correlation& r_;
  const Graph& group_;
  WinogradConfig f_;
  WinogradSizes s_;
  std::vector<WinogradMatrices> matrices_;
};

}  // namespace

double winograd_amplification(const WinogradSizes& s) {
  double all = 1;
  for (size_t d = 0; d < s.n.size(); ++d)
    all *= worst_amplification(winograd_matrices(s.m[d], s.taps[d], winograd_points(s.n[d])));
  return all;
}

double winograd_least_bound(const WinogradSizes& s) {
  constexpr double kMean = 0.64;  // of a magnitude, by the root of the mean square
  double usual = std::sqrt(static_cast<double>(s.points)) / (kMean * static_cast<double>(s.plain));
  return least_bound(usual, winograd_amplification(s));
}

KernelCode print_winograd(const Correlation& r, const Graph& group, const WinogradConfig& f,
                          const Target& target) {
  return WinogradPrinter(r, group, f, target).print();
}

}  // namespace emend
