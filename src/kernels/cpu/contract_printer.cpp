#include "kernels/cpu/contract_printer.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/cpu/strassen.h"
#include "kernels/cpu/sum_bound.h"
#include "kernels/cpu/tile_printer.h"

namespace emend {
namespace {

std::string at_most(const std::string& x, int64_t limit) {
  return str("(", x, " < ", limit, " ? ", x, " : ", limit, ")");
}

class ContractPrinter {
 public:
  ContractPrinter(const Contraction& c, const Graph& group, const ContractPlan& plan,
                  const ContractNames& names)
      : c_(c), group_(group), p_(plan), names_(names) {}

  ContractPieces pieces() const {
    ContractPieces text{.functions = tiles() + zero_sums(),
                        .turns = p_.turns_panels || turns_sums()};
    if (p_.config.strassen) {
      text.functions += print_strassen(c_.depth, p_.sums_step(), p_.width);
      text.functions += print_sum_bound(p_.width, p_.tile_columns(),
                                        most_of_sample(p_.config.bound, strassen_amplification()));
      if (p_.scalar.extent % 2)
        text.functions += str("static const float ENTRY_zeros[", c_.depth, "];\n");
    }
    if (!stores_sums()) {
      int64_t rows = blocks(p_.task_rows(), p_.width) * p_.width;
      text.buffers.emplace_back("sums", rows * p_.sums_step());
    }
    if (turns_sums()) text.buffers.emplace_back("turned", p_.task_columns() * turned_step());
    if (!p_.panels_ahead) text.buffers.emplace_back("panels", p_.task_columns() * p_.pass_depth());
    if (p_.held) text.buffers.emplace_back("rows_", p_.held);
    if (p_.sums_columns()) text.buffers.emplace_back("column_sums", p_.task_columns());
    if (p_.sums_rows()) text.buffers.emplace_back("row_sums", p_.task_rows());
    if (keeps_rows()) text.kept += str("int64_t ", kept("rows"), " = -1;\n");
    if (keeps_panels()) text.kept += str("int64_t ", kept("panels"), " = -1;\n");
    text.task = numbers() + (p_.config.strassen ? products_of_quarters() : products());
    if (!stores_sums() && !p_.sums_stay) text.task += epilogue();
    return text;
  }

 private:
  const char* word() const { return p_.arithmetic.word(); }
  const char* sum() const { return p_.arithmetic.sum(); }
  bool plain() const { return p_.arithmetic.plain(); }

  // What belongs to `task`: blocks of rows and of columns, and where they are in the batch.
  std::string numbers() const {
    int64_t m = p_.tasks_m, n = p_.tasks_n;
    std::string by_m = p_.rows_first() ? str("task % ", m) : str("task / ", n, " % ", m),
                by_n = p_.rows_first() ? str("task / ", m, " % ", n) : str("task % ", n);
    std::string text =
        str("const int64_t bm0 = ", by_m, " * ", p_.config.blocks_m, ", bn0 = ", by_n, " * ",
            p_.config.blocks_n, ", batch = task / ", m * n, ";\n");
    text += declare_digits(c_.nest, c_.batch, "batch");
    text += str("const int64_t bm1 = ", at_most(str("bm0 + ", p_.config.blocks_m), p_.blocks_m),
                ", bn1 = ", at_most(str("bn0 + ", p_.config.blocks_n), p_.blocks_n), ";\n");
    return text + str("const int64_t m0 = bm0 * ", p_.mr,
                      ", m1 = ", at_most(str("bm1 * ", p_.mr), p_.scalar.extent), ", n0 = bn0 * ",
                      p_.nr, ", n1 = ", at_most(str("bn1 * ", p_.nr), p_.vector.extent), ";\n");
  }

  std::string kept(const char* what) const { return str("kept_", names_.prefix, what); }
  bool keeps_rows() const { return p_.held && p_.one_pass() && p_.rows != Rows::sums; }
  bool keeps_panels() const { return !p_.panels_ahead && p_.one_pass(); }
  bool turns_sums() const { return p_.along_scalar; }
  // The sums are the result, whole registers of it: they need no buffer.
  bool stores_sums() const {
    return !p_.config.strassen && names_.divisors.empty() && !p_.sums_stay &&
           c_.nest.stores.size() == 1 && c_.nest.stores[0].value == c_.sum && p_.one_pass() &&
           result_step() && p_.vector.extent % p_.width == 0 && !p_.sums_columns() &&
           !p_.sums_rows() && group_.type(group_.outputs[0].node).dtype == sum_type();
  }
  DType sum_type() const { return c_.product == Product::bytes ? DType::i32 : DType::f32; }
  int64_t turned_step() const { return padded_row(blocks(p_.task_rows(), p_.width) * p_.width); }
  // Of tiles of the last block of rows, and of the last panel.
  int64_t last_rows() const {
    return blocks(p_.scalar.extent - (p_.blocks_m - 1) * p_.mr, p_.halves());
  }
  int64_t last_vectors() const {
    return blocks(p_.vector.extent - (p_.blocks_n - 1) * p_.nr, p_.width * p_.halves());
  }

  // --- tiles ---

  std::string tile_name(int64_t rows, int64_t vectors) const {
    return str("ENTRY_", names_.prefix, "tile", rows, "x", vectors);
  }

  // What a tile fetches beside its work, a line for every so many k's. Panels made ahead come from
  // far away: the next one, while the rows of one are gone through. Else the next rows, if they are
  // long and lie one after the other, or the lines of the result, before they are written.
  enum class Fetched : uint8_t { nothing, panel, rows, result };

  Fetched fetched() const {
    if (p_.panels_ahead) return Fetched::panel;
    if (!p_.one_pass() || p_.sums_stay) return Fetched::nothing;
    bool in_line = p_.rows == Rows::direct && !p_.pointers && p_.k_step * p_.unit == 4 &&
                   p_.row_step * p_.unit == 4 * p_.depth && p_.depth > p_.vector.extent;
    return in_line ? Fetched::rows : result_step() ? Fetched::result : Fetched::nothing;
  }

  RegisterTile::Fetch fetch() const {
    auto power = [](int64_t below) {
      int64_t every = 1;
      while (2 * every <= std::min<int64_t>(below, 8)) every *= 2;
      return every;
    };
    switch (fetched()) {
      case Fetched::panel:
        return {.every = power(p_.config.blocks_m * kLineFloats / p_.tile_columns())};
      case Fetched::rows: {
        int64_t lines = blocks(p_.mr, kLineFloats);
        return {.every = power(kLineFloats / p_.mr), .lines = lines, .step = lines * 64};
      }
      case Fetched::result:
        return {.every = std::min<int64_t>(p_.depth / p_.mr, 8),
                .lines = blocks(p_.nr, kLineFloats),
                .step = *result_step() * 4,
                .to_write = true};
      case Fetched::nothing:
        break;
    }
    return {};
  }

  // From one row of the result to the next, if columns are neighbours there.
  std::optional<int64_t> result_step() const {
    if (c_.nest.stores.size() != 1 || p_.along_scalar) return std::nullopt;
    const Linear& at = c_.nest.stores[0].at;
    if (side_step(c_, p_.vector, at) != 1) return std::nullopt;
    return side_step(c_, p_.scalar, at);
  }

  std::string tiles() const {
    std::string text;
    int64_t sums_step = stores_sums() ? *result_step() : p_.sums_step();
    for (int64_t rows : std::set<int64_t>{p_.config.rows, last_rows()}) {
      for (int64_t vectors : std::set<int64_t>{p_.config.vectors, last_vectors()}) {
        text += print_tile({.name = tile_name(rows, vectors),
                            .rows = rows,
                            .vectors = vectors,
                            .arithmetic = p_.arithmetic,
                            .panel = p_.tile_columns(),
                            .pointers = p_.pointers,
                            .row_step = p_.row_step,
                            .k_step = p_.k_step,
                            .sums_step = sums_step * p_.halves(),
                            .vector_step = p_.width * p_.halves(),
                            .continues = !p_.one_pass(),
                            .adds = p_.config.strassen,
                            .fetch = fetch()});
      }
    }
    return text;
  }

  // Where the sums of a block begin.
  std::string block_sums() const {
    return str("sums + (bm - bm0) * ", p_.mr * p_.sums_step(), " + (bn - bn0) * ", p_.nr);
  }

  std::string call_tile(const std::string& s) const {
    std::string args = str("(depth, ", s, ", v, ", stores_sums() ? "result" : block_sums());
    if (!p_.one_pass()) args += ", k0 == 0";
    return call_tile_with(args);
  }

  std::string call_tile_with(std::string args) const {
    if (fetch().every) args += ", next";
    args += ");\n";
    auto by_vectors = [&](int64_t rows) {
      std::string text = tile_name(rows, p_.config.vectors) + args;
      if (last_vectors() == p_.config.vectors) return text;
      return str("if (bn == ", p_.blocks_n - 1, ") ", tile_name(rows, last_vectors()), args,
                 "else ", text);
    };
    std::string text = by_vectors(p_.config.rows);
    if (last_rows() == p_.config.rows) return text;
    return str("if (bm == ", p_.blocks_m - 1, ") {\n", by_vectors(last_rows()), "} else {\n", text,
               "}\n");
  }

  // All tiles of the task, pass by pass over k.
  std::string products() const {
    std::string text = any_zero_points();
    text += str("for (int64_t k0 = 0; k0 < ", p_.outer, "; k0 += ", p_.step, ") {\n",
                "const int64_t k1 = ", at_most(str("k0 + ", p_.step), p_.outer),
                ", depth = ", words_of_pass(), ";\n");
    text += prepare_rows() + prepare_panels();
    text += "for (int64_t bn = bn0; bn < bn1; ++bn) {\n";
    if (p_.panels_ahead) {
      text +=
          str("const ", word(), "* const v = ", ahead(p_.vector, "bn", p_.blocks_n, p_.nr), ";\n");
    } else {
      text += str("const ", word(), "* const v = panels + (bn - bn0) * depth * ", p_.nr, ";\n");
    }
    text += sum_columns() + "for (int64_t bm = bm0; bm < bm1; ++bm) {\n";
    std::string s;
    switch (p_.rows) {
      case Rows::direct:
        text += direct_rows();
        s = "rows";
        break;
      case Rows::ahead:
        s = ahead(p_.scalar, "bm", p_.blocks_m, p_.mr);
        break;
      case Rows::copied:
        s = str("rows_ + (bm - bm0) * ", p_.mr * p_.row_step * p_.unit / 4);
        break;
      case Rows::packed:
        s = str("rows_ + (bm - bm0) * depth * ", p_.mr);
        break;
      case Rows::sums:
        break;
      case Rows::given:
        s = str(names_.given, " + (bm - bm0) * ", p_.mr * p_.row_step);
        break;
    }
    if (!plain() && p_.rows != Rows::direct) s = str("(const char*)(", s, ")");
    return text + result() + next() + sum_rows(s) + call_tile(s) + "}\n}\n}\n";
  }

  std::string words_of_pass() const {
    if (plain()) return str("(k1 - k0) * ", p_.inner);
    return p_.one_pass() ? str(p_.depth) : str("(k1 - k0) * ", p_.inner, " / ", p_.per_word);
  }

  // Where a block of what was packed ahead begins, for this pass.
  std::string ahead(const Side& side, const char* block, int64_t all, int64_t width) const {
    std::string from = str("k0 * ", p_.inner);
    if (!plain()) from += str(" / ", p_.per_word);
    return str(plain() ? "" : "(const em_w*)", "x", c_.load(side).buffer, " + ((batch * ", all,
               " + ", block, ") * ", p_.depth, " + ", from, ") * ", width);
  }

  // --- products of quarters ---

  int64_t half() const { return blocks(c_.depth, 2); }

  // All tiles of the task, product by product; rows go together in pairs, the last perhaps with
  // zeros.
  std::string products_of_quarters() const {
    bool odd = p_.scalar.extent % 2;
    std::string text = str("enum { depth = ", half(), " };\nmemset(sums, 0, sizeof(float) * ",
                           p_.sums_step(), " * ((m1 - m0 + 1) / 2 * 2));\nconst float* from[",
                           p_.task_rows(), "];\n", "for (int64_t m = m0; m < m1; ++m) {\n",
                           declare_digits(c_.nest, p_.scalar.iterators, "m"),
                           "from[m - m0] = ", origin(p_.scalar, 0), ";\n}\n",
                           odd ? "if ((m1 - m0) % 2) from[m1 - m0] = ENTRY_zeros;\n" : "");
    int64_t panel = half() * p_.tile_columns(), block = kStrassenPanels * panel;
    text += str("const float* const panels = x", c_.load(p_.vector).buffer, " + batch * ",
                p_.blocks_n * block, ";\n", look_at_bound(panel, block));
    text += str("for (int p = first_product; p < last_product; ++p) {\n",
                "const struct ENTRY_product q = ENTRY_products[p];\n",
                "for (int64_t m = 0; m < m1 - m0; m += 2) ENTRY_add(from + m, q, rows_ + m / 2 * ",
                p_.row_step, ");\n");
    text +=
        str("for (int64_t bn = bn0; bn < bn1; ++bn) {\n", "const float* const v = panels + bn * ",
            block, " + q.panel * ", panel, ";\n", "const float* const after = bn + 1 < bn1 ? v + ",
            block, " : p + 1 < last_product ? panels + bn0 * ", block,
            " + ENTRY_products[p + 1].panel * ", panel, " : v;\n",
            "for (int64_t bm = bm0; bm < bm1; ++bm) {\n");
    if (int64_t every = fetch().every) {
      text += str("const int64_t share = (bm - bm0) * (depth / ", every, ") * ", fetch().step,
                  ";\nconst char* const next = (const char*)after + (share < ", 4 * panel,
                  " ? share : 0);\n");
    }
    text += str("float* const to = ", block_sums(), ";\n");
    text += call_tile_with(str("(depth, rows_ + (bm - bm0) * ", p_.config.rows * p_.row_step,
                               ", v, to + q.to, q.sign_to ? to + q.other_to : 0, q.sign_to"));
    return text + "}\n}\n}\n";
  }

  // Which products the task takes: the seven, or the eight of plain sums. Rows are looked at by
  // pairs, and in the pair with the most the row with more of it is the sample: some of its terms,
  // all of them where those are too little to be certain.
  std::string look_at_bound(int64_t panel, int64_t block) const {
    int64_t norms = c_.batches * p_.blocks_n * block, columns = p_.tile_columns();
    int64_t step = c_.depth / sampled_terms(c_.depth, strassen_least_bound(), p_.config.bound);
    std::string text = str(
        "float widest = 0;\nint64_t sample = 0;\nint extreme = 0;\n",
        "for (int64_t m = 0; m < m1 - m0; m += 2) {\nconst float upper = ENTRY_squares(from[m], ",
        c_.depth, "), lower = ENTRY_squares(from[m + 1], ", c_.depth,
        ");\nextreme |= !(upper + lower < 1e30f);\n",
        "if (upper + lower > widest) widest = upper + lower, sample = m + (lower > upper);\n}\n",
        "int empty = 0;\nif (ENTRY_extreme(widest)) {\nempty = !extreme;\n",
        "for (int64_t m = 0; m < m1 - m0 && empty; ++m)\nfor (int64_t k = 0; k < ", c_.depth,
        "; ++k) empty &= from[m][k] == 0;\nextreme = !empty;\n}\nint plain = extreme;\n");
    text += str("for (int64_t bn = bn0; bn < bn1 && !plain && !empty; ++bn) {\n",
                "for (int64_t step = ", step, "; step; step = plain && step > 1) {\nplain = 0;\n");
    for (int column : {0, 1}) {
      text += str("{\nfloat sums_[", columns, "] = {0};\n");
      for (int k : {0, 1}) {
        int64_t from = k * half(), count = k ? c_.depth - half() : half();
        text += str("ENTRY_magnitudes(from[sample] + ", from, ", ", count, ", step, panels + bn * ",
                    block, " + ", strassen_panel_of(k, column) * panel, ", sums_);\n");
      }
      // What only fills the last block has no sum to be right for.
      if (p_.vector.extent % p_.nr) {
        text += str("for (int64_t j = 0; j < ", columns, "; ++j)\nif (bn * ", p_.nr, " + j / ",
                    p_.width, " * ", 2 * p_.width, " + ", column * p_.width, " + j % ", p_.width,
                    " >= ", p_.vector.extent, ") sums_[j] = 1e29f;\n");
      }
      text += str("plain |= ENTRY_exceeds(widest, x", c_.load(p_.vector).buffer, " + ", norms,
                  " + (batch * ", p_.blocks_n, " + bn) * ", columns, ", sums_);\n}\n");
    }
    return str(text, "}\n}\nconst int first_product = plain ? ", kStrassenProducts,
               " : 0, last_product = plain ? ", kStrassenProducts + 8, " : ", kStrassenProducts,
               ";\n");
  }

  // Where the tile's part of the result begins.
  std::string result() const {
    if (!stores_sums() && fetched() != Fetched::result) return "";
    return str(sum(), "* result;\n{\n",
               declare_digits(c_.nest, p_.scalar.iterators, str("(bm * ", p_.mr, ")")),
               declare_digits(c_.nest, p_.vector.iterators, str("(bn * ", p_.nr, ")")),
               "result = (", sum(), "*)(y", c_.nest.stores[0].buffer, " + ",
               c_.nest.math.text(c_.nest.stores[0].at, iterator_name), ");\n}\n");
  }

  // Where the tile starts to fetch.
  std::string next() const {
    RegisterTile::Fetch f = fetch();
    if (!f.every) return "";
    if (fetched() == Fetched::rows) {
      return str("const char* const next = (const char*)(rows + (bn == bn0 ? ", p_.mr * p_.row_step,
                 " : 0));\n");
    }
    if (fetched() == Fetched::result) return "const char* const next = (const char*)result;\n";
    int64_t panel = 4 * p_.nr;
    return str("const int64_t share = (bm - bm0) * (depth / ", f.every, ") * ", f.step,
               ";\nconst char* const next = (const char*)v + (share < depth * ", panel,
               " ? depth * ", panel, " + share : 0);\n");
  }

  // --- rows ---

  // Where an element of a side is, for the outermost `n` of k given and the others zero.
  std::string origin(const Side& side, size_t n) const {
    Linear at = c_.load(side).at;
    for (size_t i = n; i < c_.k.size(); ++i) {
      at = at + term(c_.k[i], -*c_.nest.math.stride(at, c_.k[i]));
    }
    return str("x", c_.load(side).buffer, " + ",
               c_.nest.math.text(at, [](int a) { return iterator_name(a); }));
  }

  // What is packed or copied, unless it was for the task before.
  static std::string once(const std::string& text, const std::string& kept,
                          const std::string& key) {
    return str("if (", kept, " != ", key, ") {\n", kept, " = ", key, ";\n", text, "}\n");
  }

  // Where the rows of a tile begin.
  std::string direct_rows() const {
    std::string first = str(origin(p_.scalar, 0), " + k0 * ",
                            *c_.nest.math.stride(c_.load(p_.scalar).at, c_.k[0]), ";\n");
    if (!plain()) first = str("(const char*)(", first.substr(0, first.size() - 2), ");\n");
    const char* type = plain() ? "float" : "char";
    if (!p_.pointers) {
      return str("const ", type, "* rows;\n{\n",
                 declare_digits(c_.nest, p_.scalar.iterators, str("(bm * ", p_.mr, ")")),
                 "rows = ", first, "}\n");
    }
    return str("const ", type, "* rows[", p_.mr, "];\nfor (int64_t i = 0; i < ", p_.mr, " && bm * ",
               p_.mr, " + i < m1; ++i) {\n",
               declare_digits(c_.nest, p_.scalar.iterators, str("(bm * ", p_.mr, " + i)")),
               "rows[i] = ", first, "}\n");
  }

  std::string prepare_rows() const {
    std::string text;
    if (p_.rows == Rows::packed) {
      text = "for (int64_t bm = bm0; bm < bm1; ++bm)\n" +
             pack(p_.scalar, "bm", p_.mr, str("(rows_ + (bm - bm0) * depth * ", p_.mr, ")"));
    } else if (p_.rows == Rows::copied) {
      text = str("for (int64_t m = m0; m < m1; ++m) {\n",
                 declare_digits(c_.nest, p_.scalar.iterators, "m"), factor_type(), "* to = (",
                 factor_type(), "*)(rows_ + (m - m0) * ", p_.row_step * p_.unit / 4, ");\n",
                 outer_k(), copy_run(), "to += khi - klo;\n", outer_k_end());
      if (!has_whole_words(c_))
        text += str("memset(to, 0, ", 4 * p_.depth, " - (k1 - k0) * ", 4 / p_.per_word, ");\n");
      text += "}\n";
    }
    if (!keeps_rows()) return text;
    return once(text, kept("rows"), str("batch * ", p_.blocks_m, " + bm0"));
  }

  const char* factor_type() const {
    return plain() ? "float" : c_.product == Product::bytes ? "uint8_t" : "uint16_t";
  }

  // A run of a row, its signs flipped if they must be; outside of the bounds, its zero point.
  std::string copy_run() const {
    std::string from = str(origin(p_.scalar, c_.k.size() - 1), " + klo");
    std::string size = str("sizeof(", factor_type(), ") * (khi - klo)");
    std::string copy = str("memcpy(to, ", from, ", ", size, ");\n");
    if (p_.flips_rows) {
      copy = str("for (int64_t k = 0; k < khi - klo; ++k) to[k] = (uint8_t)((", from,
                 ")[k] ^ 128);\n");
    }
    std::string inside = condition(p_.scalar);
    if (inside.empty()) return copy;
    std::string zero = c_.product == Product::bytes ? zero_point(p_.scalar) : "0";
    return str("if (", inside, ") {\n", copy, "} else {\nmemset(to, (uint8_t)(", zero,
               p_.flips_rows ? " ^ 128" : "", "), ", size, ");\n}\n");
  }

  // That an element of a side is inside its bounds; empty if it always is.
  std::string condition(const Side& side) const {
    std::string text;
    for (const Bound& b : side.factor.bounds) {
      auto [low, high] = c_.nest.math.range(b.at);
      std::string i = c_.nest.math.text(b.at, [](int a) { return iterator_name(a); });
      if (low < 0) text += str(text.empty() ? "" : " && ", i, " >= 0");
      if (high >= b.extent) text += str(text.empty() ? "" : " && ", i, " < ", b.extent);
    }
    return text;
  }

  // Loops over all k of the pass but the innermost, which goes from klo to khi.
  std::string outer_k() const {
    std::string text;
    for (size_t i = 0; i + 1 < c_.k.size(); ++i) text += k_loop(i);
    return c_.k.size() == 1
               ? "const int64_t klo = k0, khi = k1;\n"
               : str(text, "enum { klo = 0, khi = ", c_.nest.math.extent(c_.k.back()), " };\n");
  }
  std::string outer_k_end() const { return std::string(c_.k.size() - 1, '}') + "\n"; }

  std::string k_loop(size_t i, int64_t by = 1) const {
    std::string it = iterator_name(c_.k[i]);
    std::string from = i == 0 ? "k0" : "0", to = i == 0 ? "k1" : str(c_.nest.math.extent(c_.k[i]));
    std::string next = by == 1 ? str("++", it) : str(it, " += ", by);
    return str("for (int64_t ", it, " = ", from, "; ", it, " < ", to, "; ", next, ") {\n");
  }

  // --- panels ---

  std::string prepare_panels() const {
    if (p_.panels_ahead) return "";
    std::string panel = str("(panels + (bn - bn0) * depth * ", p_.nr, ")");
    std::string text =
        str("for (int64_t bn = bn0; bn < bn1; ++bn)\n",
            p_.turns_panels ? pack_by_turns(panel) : pack(p_.vector, "bn", p_.nr, panel));
    if (!keeps_panels()) return text;
    return once(text, kept("panels"), str("batch * ", p_.blocks_n, " + bn0"));
  }

  // Numbers of a block, and zeros beyond the side's end (and in words that are not full).
  std::string begin_panel(const Side& side, const std::string& block, int64_t width,
                          const std::string& panel) const {
    std::string text = str("const int64_t from = (", block, ") * ", width,
                           ", to = ", at_most(str("from + ", width), side.extent), ";\n");
    if (!has_whole_words(c_)) {
      text += str("memset(", panel, ", 0, ", 4 * width, " * depth);\n");
    } else if (side.extent % width != 0) {
      text += str("if (to - from < ", width, ") memset(", panel, ", 0, sizeof(", word(), ") * ",
                  width, " * depth);\n");
    }
    return text;
  }

  // Of columns that lie across the vectors, along k.
  std::string pack_by_turns(const std::string& panel) const {
    int64_t w = p_.width, step = *side_step(c_, p_.vector) / p_.per_word;
    std::string x = origin(p_.vector, c_.k.size() - 1);
    if (!plain()) x = str("(const em_w*)(", x, ")");
    std::string low = "klo", high = "khi", flip;
    if (!plain()) {
      low += str(" / ", p_.per_word);
      high += str(" / ", p_.per_word);
    }
    if (p_.flips_panels) {
      flip =
          str("for (int64_t i = 0; i < depth * ", p_.nr, "; ++i) ", panel, "[i] ^= 0x80808080u;\n");
    }
    return str("{\n", begin_panel(p_.vector, "bn", p_.nr, panel),
               "for (int64_t j = from; j < to; j += ", w, ") {\n",
               declare_digits(c_.nest, p_.vector.iterators, "j"),
               "const int64_t lanes = ", at_most("to - j", w), ";\n", word(),
               "* to_ = ", plain() ? "" : "(em_w*)", panel, " + (j - from);\n", outer_k(), "const ",
               word(), "* const x = ", x, ";\nint64_t k = ", low, ";\nif (lanes == ", w,
               ") for (; k + ", w, " <= ", high, "; k += ", w, ", to_ += ", w * p_.nr,
               ") ENTRY_turn(x + k, ", step, ", to_, ", p_.nr, ");\nfor (; k < ", high,
               "; ++k, to_ += ", p_.nr, ") for (int64_t l = 0; l < lanes; ++l) to_[l] = x[k + l * ",
               step, "];\n", outer_k_end(), "}\n", flip, "}\n");
  }

  // Whether a side's words are read as such or put together, and not factor by factor.
  bool packs_words(const Side& side) const {
    auto cut = [&](const Bound& b) { return *c_.nest.math.stride(b.at, c_.k.back()) != 0; };
    return plain() || (has_whole_words(c_) && std::ranges::none_of(side.factor.bounds, cut));
  }

  bool flips(const Side& side) const {
    return side.factor.load == p_.scalar.factor.load ? p_.flips_rows : p_.flips_panels;
  }

  // What stands in memory for a word of a panel, or for one factor.
  std::string packed_element(const Side& side) const {
    const NestValue& load = c_.load(side);
    auto factor = [&](int64_t ahead) {
      Linear at = load.at;
      at.constant += ahead;
      return str("x", load.buffer, "[", c_.nest.math.text(at, iterator_name), "]");
    };
    if (plain()) return factor(0);
    std::string flip = flips(side) ? " ^ 128" : "";
    if (!packs_words(side)) return str("(", factor_type(), ")(", factor(0), flip, ")");
    if (flips(side)) flip = " ^ 0x80808080u";
    int64_t stride = *c_.nest.math.stride(load.at, c_.k.back());
    if (stride == 1) return str("(*(const em_w*)&", factor(0), flip, ")");
    std::string word;
    for (int64_t u = 0; u < p_.per_word; ++u) {
      word += str(u ? " | " : "((", "(uint32_t)(", factor_type(), ")", factor(u * stride));
      if (u) word += str(" << ", u * 32 / p_.per_word);
    }
    return str(word, ")", flip, ")");
  }

  // The same outside of the bounds.
  std::string outside_element(const Side& side) const {
    if (plain()) return "0.f";
    if (c_.product == Product::bf16) return "0";
    std::string zero = str("(uint8_t)(", zero_point(side), flips(side) ? " ^ 128)" : ")");
    return packs_words(side) ? str("(uint32_t)", zero, " * 0x01010101u") : zero;
  }

  // The panel of one block: panel[k][j] for the numbers of the block.
  std::string pack(const Side& side, const std::string& block, int64_t width,
                   const std::string& panel) const {
    const Nest& nest = c_.nest;
    const auto& bounds = side.factor.bounds;
    std::string inside_bounds = condition(side);
    std::string plain_ = packed_element(side), outside = outside_element(side);
    std::string element =
        inside_bounds.empty() ? plain_ : str(inside_bounds, " ? ", plain_, " : ", outside);
    const bool words = packs_words(side);
    std::string loops = "int64_t k = 0;\n", closing(c_.k.size(), '}');
    for (size_t i = 0; i < c_.k.size(); ++i)
      loops += k_loop(i, words && i + 1 == c_.k.size() ? p_.per_word : 1);
    std::string begin = str("{\n", begin_panel(side, block, width, panel));
    // Factors that are packed one by one are every so many, within their words.
    std::string type = words ? word() : factor_type();
    std::string row = words ? str(plain() ? "" : "(em_w*)", panel, " + k++ * ", width)
                            : str("(", type, "*)(", panel, " + k / ", p_.per_word, " * ", width,
                                  ") + k++ % ", p_.per_word);
    std::string every = words ? "" : str(" * ", p_.per_word);
    if (side.iterators.empty()) {
      return str(begin, loops, type, "* const to_ = ", row, ";\n*to_ = ", element, ";\n", closing,
                 "\n}\n");
    }
    std::string lane = iterator_name(side.iterators.back());
    std::string body = str(loops, type, "* const to_ = ", row, " + (at - from)", every, ";\n");
    auto copy = [&](const char* from, const char* to, const std::string& what) {
      return str("#pragma GCC ivdep\nfor (int64_t ", lane, " = ", from, "; ", lane, " < ", to,
                 "; ++", lane, ") to_[", every.empty() ? "" : "(", lane, " - lo",
                 every.empty() ? "" : str(")", every), "] = ", what, ";\n");
    };
    auto inside = declare_inside(nest, bounds, side.iterators.back());
    if (inside && !bounds.empty()) {
      body += *inside + copy("lo", "in0", outside) + copy("in0", "in1", plain_) +
              copy("in1", "hi", outside);
    } else {
      body += copy("lo", "hi", element);
    }
    return str(begin, print_runs(nest, side.iterators, "from", "to", body + closing + "\n"), "}\n");
  }

  // --- zero points ---
  //
  //   sum of (s - a) (v - b) = sum of s v - a * sum of v - b * sum of s + k * a * b
  //
  // with bytes as they are stored: of a flipped side, it and its zero point are 128 more or less.

  std::string zero_point(const Side& side) const {
    if (side.factor.zero < 0) return "0";
    const NestValue& z = c_.nest.values[static_cast<size_t>(side.factor.zero)];
    if (z.kind != NestValue::Kind::load) return str(static_cast<int64_t>(z.body.code[0].value));
    return str("(int32_t)x", z.buffer, "[", c_.nest.math.text(z.at, iterator_name), "]");
  }
  std::string stored_zero(const Side& side) const {
    std::string moved = !flips(side) ? "" : c_.load(side).dtype == DType::i8 ? " + 128" : " - 128";
    return str("(", zero_point(side), moved, ")");
  }

  // Functions that sum columns and rows.
  std::string zero_sums() const {
    std::string text;
    if (p_.sums_columns()) {
      text += "static const uint32_t ENTRY_ones = 0x01010101u;\n";
      text += print_tile({.name = "ENTRY_columns",
                          .rows = 1,
                          .vectors = p_.config.vectors,
                          .arithmetic = p_.arithmetic,
                          .panel = p_.nr,
                          .row_step = 0,
                          .k_step = 0,
                          .continues = !p_.one_pass()});
    }
    if (!p_.sums_rows()) return text;
    const char* type = p_.arithmetic.signed_rows ? "int8_t" : "uint8_t";
    std::string row = p_.pointers ? "rows[i]" : str("rows + i * ", p_.row_step);
    // Neighbouring words are one row of bytes.
    bool dense = p_.k_step == 4;
    std::string loop =
        dense ? str("for (int64_t k = 0; k < 4 * depth; ++k) sum += row[k];\n")
              : str("for (int64_t k = 0; k < depth; ++k)\nfor (int64_t u = 0; u < 4; ++u) sum += ",
                    "row[k * ", p_.k_step, " + u];\n");
    return str(text, "static void ENTRY_rows(int64_t depth, const char* ",
               p_.pointers ? "const* " : "", "rows, int64_t count, int32_t* sums, int fresh) {\n",
               "for (int64_t i = 0; i < count; ++i) {\nconst ", type, "* const row = (const ", type,
               "*)(", row, ");\nint32_t sum = fresh ? 0 : sums[i];\n", loop,
               "sums[i] = sum;\n}\n}\n");
  }

  std::string sum_columns() const {
    if (!p_.sums_columns()) return "";
    return str("ENTRY_columns(depth, (const char*)&ENTRY_ones, v, column_sums + (bn - bn0) * ",
               p_.nr, p_.one_pass() ? "" : ", k0 == 0", ");\n");
  }

  // Rows need no sums where all zero points of the columns are 0, as quantisers make them.
  std::string any_zero_points() const {
    if (!p_.sums_rows() || p_.flips_panels) return "";
    return str("int any_zero_points = 0;\nfor (int64_t n = n0; n < n1; ++n) {\n",
               declare_digits(c_.nest, p_.vector.iterators, "n"),
               "any_zero_points |= ", zero_point(p_.vector),
               " != 0;\n}\nif (!any_zero_points) memset(row_sums, 0, ", "sizeof(row_sums));\n");
  }

  std::string sum_rows(const std::string& s) const {
    if (!p_.sums_rows()) return "";
    const char* when = p_.flips_panels ? "bn == bn0" : "bn == bn0 && any_zero_points";
    return str("if (", when, ") ENTRY_rows(depth, ", s, ", ",
               at_most(str("m1 - bm * ", p_.mr), p_.mr), ", row_sums + (bm - bm0) * ", p_.mr,
               ", k0 == 0);\n");
  }

  // The sum of products at the lane, from what was summed.
  std::string whole_sum(const std::string& products, const std::string& column_sum,
                        const std::string& row_sum) const {
    std::string a = stored_zero(p_.scalar), b = stored_zero(p_.vector), text = products;
    if (c_.product == Product::bf16)
      return c_rounded(c_.nest.values[static_cast<size_t>(c_.sum)].dtype, DType::f32, products);
    if (p_.sums_columns()) text += str(" - ", a, " * ", column_sum);
    if (p_.sums_rows()) text += str(" - ", b, " * ", row_sum);
    if (p_.sums_columns() && p_.sums_rows()) text += str(" + ", c_.depth, " * ", a, " * ", b);
    return str("(", text, ")");
  }

  // --- epilogue ---

  // The rest of the group, along the iterator that memory is written in the order of.
  std::string epilogue() const {
    const Side& lanes = p_.along_scalar ? p_.scalar : p_.vector;
    const Side& others = p_.along_scalar ? p_.vector : p_.scalar;
    const char *lane = p_.along_scalar ? "m" : "n", *other = p_.along_scalar ? "n" : "m";
    std::string text, from = str(lane, "0"), to = str(lane, "1");
    if (turns_sums()) text += turn_sums();
    text += str("for (int64_t o = ", other, "0; o < ", other, "1; ++o) {\n",
                declare_digits(c_.nest, others.iterators, "o"), "const ", sum(),
                "* const line = ", turns_sums() ? "turned" : "sums", " + (o - ", other, "0) * ",
                turns_sums() ? turned_step() : p_.sums_step(), ";\n");
    RowPrinter printer(c_.nest, group_, lanes.iterators.empty() ? -1 : lanes.iterators.back(),
                       p_.along_scalar ? p_.task_rows() : p_.task_columns());
    // Sums of the side that the lanes run along, and of the other one.
    auto given = [&](const std::string& products, const std::string& place) {
      std::string along = str(p_.along_scalar ? "row_sums[" : "column_sums[", place, "]");
      std::string across = str(p_.along_scalar ? "column_sums[o - n0]" : "row_sums[o - m0]");
      return p_.along_scalar ? whole_sum(products, across, along)
                             : whole_sum(products, along, across);
    };
    if (lanes.iterators.empty()) {
      // One point: a row of one lane without an iterator.
      printer.give(c_.sum, given("line[0]", "0") + divided("o"));
      text += printer.print();
    } else {
      std::string lane_ = str(iterator_name(lanes.iterators.back()), " - lo");
      printer.give(c_.sum, given(str("row[", lane_, "]"), str("at - ", from, " + ", lane_)) +
                               divided(p_.along_scalar ? "at + " + lane_ : "o"));
      text += print_runs(
          c_.nest, lanes.iterators, from, to,
          str("const ", sum(), "* const row = line + (at - ", from, ");\n", printer.print()));
    }
    return text + "}\n";
  }

  // By what the sums of row number m must still be divided.
  std::string divided(const std::string& m) const {
    return names_.divisors.empty() ? "" : str(" / ", names_.divisors, "[", m, " - m0]");
  }

  std::string turn_sums() const {
    int64_t w = p_.width;
    const char *from = plain() ? "" : "(const em_w*)", *to = plain() ? "" : "(em_w*)";
    return str("for (int64_t i = 0; i < m1 - m0; i += ", w,
               ")\nfor (int64_t j = 0; j < n1 - n0; j += ", w, ") ENTRY_turn(", from,
               "(sums + i * ", p_.sums_step(), " + j), ", p_.sums_step(), ", ", to,
               "(turned + j * ", turned_step(), " + i), ", turned_step(), ");\n");
  }

  const Contraction& c_;
  const Graph& group_;
  const ContractPlan& p_;
  const ContractNames& names_;
};

}  // namespace

ContractPieces contract_pieces(const Contraction& c, const Graph& group, const ContractPlan& plan,
                               const ContractNames& names) {
  return ContractPrinter(c, group, plan, names).pieces();
}

KernelCode print_contract(const Contraction& c, const Graph& group, const ContractPlan& plan) {
  ContractPieces p = contract_pieces(c, group, plan);
  const Arithmetic32& a = plan.arithmetic;
  std::string text = declare_arithmetic(a);
  if (p.turns) text += print_turn(a);
  text += p.functions;
  text += "void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n" +
          declare_buffers(group);
  for (const auto& [name, words] : p.buffers) {
    bool factors = name == "panels" || name == "rows_";
    const char* type = a.plain() ? "float" : factors ? "uint32_t" : a.sum();
    text += str(type, " ", name, "[", words, "] __attribute__((aligned(64)));\n");
  }
  text += p.kept + "for (int64_t task = first; task < last; ++task) {\n" + p.task + "}\n}\n";
  return named_kernel(std::move(text), c.batches * plan.tasks_m * plan.tasks_n);
}

}  // namespace emend
