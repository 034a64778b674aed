#include "kernels/cpu/tile_printer.h"

#include <algorithm>

#include "base/text.h"

namespace emend {

std::string declare_vector(int64_t width) {
  return str("typedef float em_v __attribute__((vector_size(", width * 4,
             "), aligned(4), may_alias));\n");
}

namespace {

// The k after `ahead` others: a register of every vector, then its products with all rows.
std::string products_of_k(const Tile& t, int64_t ahead) {
  std::string text = "{\n";
  for (int64_t j = 0; j < t.vectors; ++j) {
    text += str("const em_v v", j, " = *(const em_v*)(v + ", ahead * t.panel + j * t.width, ");\n");
  }
  for (int64_t i = 0; i < t.rows; ++i) {
    std::string s = t.pointers ? str("s", i, "[", ahead * t.k_step, " + k * ", t.k_step, "]")
                               : str("s[", i * t.row_step + ahead * t.k_step, "]");
    for (int64_t j = 0; j < t.vectors; ++j)
      text += str("c", i, "_", j, " += v", j, " * ", s, ";\n");
  }
  return text + "}\n";
}

}  // namespace

// Sums are scalars with names of their own: as an array GCC would leave them in memory.
std::string print_tile(const Tile& t) {
  std::string text =
      str("static __attribute__((noinline)) void ", t.name, "(int64_t depth, ",
          t.pointers ? "const float* const* rows" : "const float* restrict s",
          ", const float* restrict v, float* restrict sums", t.continues ? ", int fresh" : "",
          t.adds ? ", float* restrict others, float sign" : "",
          t.fetch.every ? ", const char* next" : "", ") {\n");
  if (t.pointers) {
    for (int64_t i = 0; i < t.rows; ++i) text += str("const float* s", i, " = rows[", i, "];\n");
  }
  std::string declare, load, store, store_others;
  const int64_t vector_step = t.vector_step ? t.vector_step : t.width;
  for (int64_t i = 0; i < t.rows; ++i) {
    for (int64_t j = 0; j < t.vectors; ++j) {
      std::string c = str("c", i, "_", j);
      int64_t place = i * t.sums_step + j * vector_step;
      std::string at = str("*(em_v*)(sums + ", place, ")");
      declare += str("em_v ", c, " = {0};\n");
      load += str(c, " = ", at, ";\n");
      store += str(at, t.adds ? " += " : " = ", c, ";\n");
      store_others += str("*(em_v*)(others + ", place, ") += ", c, " * sign;\n");
    }
  }
  text += declare;
  if (t.continues) text += str("if (!fresh) {\n", load, "}\n");
  auto loop = [&](int64_t times) {
    std::string body;
    for (int64_t u = 0; u < times; ++u) body += products_of_k(t, u);
    body += str("v += ", times * t.panel, ";\n");
    if (!t.pointers) body += str("s += ", times * t.k_step, ";\n");
    return body;
  };
  text += "int64_t k = 0;\n";
  int64_t times = std::max<int64_t>(t.fetch.every, 1);
  if (t.fetch.every) {
    text += str("for (; k + ", times, " <= depth; k += ", times, ") {\n");
    for (int64_t i = 0; i < t.fetch.lines; ++i) {
      text += str("__builtin_prefetch(next + ", i * 64, ", ", t.fetch.to_write ? 1 : 0, ", ",
                  t.fetch.near ? 3 : 2, ");\n");
    }
    text += str("next += ", t.fetch.step, ";\n", loop(times), "}\n");
  }
  if (times > 1 || !t.fetch.every) text += str("for (; k < depth; ++k) {\n", loop(1), "}\n");
  text += store;
  if (t.adds) text += str("if (others) {\n", store_others, "}\n");
  return text + "}\n";
}

// Blocks of d x d change places, for d from half the width down to one.
std::string print_turn(int64_t width) {
  std::string text = str("static inline void ENTRY_turn(const float* restrict from, int64_t ",
                         "from_step, float* restrict to, int64_t to_step) {\n");
  for (int64_t i = 0; i < width; ++i) {
    text += str("em_v r", i, " = *(const em_v*)(from + ", i, " * from_step);\n");
  }
  text += "em_v a;\n";
  for (int64_t d = width / 2; d > 0; d /= 2) {
    std::string low, high;
    for (int64_t j = 0; j < width; ++j) {
      low += str(", ", j & d ? width + j - d : j);
      high += str(", ", j & d ? width + j : j + d);
    }
    for (int64_t i = 0; i < width; ++i) {
      if (i & d) continue;
      std::string pair = str("(r", i, ", r", i + d);
      text += str("a = __builtin_shufflevector", pair, low, ");\nr", i + d,
                  " = __builtin_shufflevector", pair, high, ");\nr", i, " = a;\n");
    }
  }
  for (int64_t i = 0; i < width; ++i) {
    text += str("*(em_v*)(to + ", i, " * to_step) = r", i, ";\n");
  }
  return text + "}\n";
}

}  // namespace emend
