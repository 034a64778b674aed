#include "kernels/cpu/tile_printer.h"

#include <algorithm>

#include "base/text.h"

namespace emend {

std::string declare_vector(int64_t width) {
  return str("typedef float em_v __attribute__((vector_size(", width * 4,
             "), aligned(4), may_alias));\n");
}

namespace {

// Pairs of 16-bit numbers, multiplied and added.
std::string declare_pairs(const Arithmetic32& a) {
  int64_t bytes = a.width * 4;
  std::string size = str("__attribute__((vector_size(", bytes, ")))");
  const char* where = bytes == 64 ? "__AVX512BW__" : bytes == 32 ? "__AVX2__" : "__SSE2__";
  const char* how = bytes == 64
                        ? "em_q sum;\n__asm__(\"vpmaddwd %2, %1, %0\" : \"=v\"(sum) : \"v\"(x), "
                          "\"v\"(y));\nreturn sum;\n"
                    : bytes == 32 ? "return (em_q)__builtin_ia32_pmaddwd256(x, y);\n"
                                  : "return (em_q)__builtin_ia32_pmaddwd128(x, y);\n";
  return str("typedef int16_t em_h ", size, ";\ntypedef uint16_t em_u ", size,
             ";\nstatic inline em_q ENTRY_pairs(em_h x, em_h y) {\n#if defined(", where, ")\n", how,
             "#else\nem_q a = (em_q)x, b = (em_q)y;\n",
             "return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);\n#endif\n}\n");
}

// Even and odd bytes as 16-bit numbers: exact, where sums of two products of bytes saturate.
std::string byte_products(const Arithmetic32& a) {
  auto half = [](const char* x, bool is_signed, bool odd) {
    if (odd) return str("(em_h)((", is_signed ? "em_h" : "em_u", ")", x, " >> 8)");
    return is_signed ? str("(em_h)((em_h)((em_h)", x, " << 8) >> 8)")
                     : str("((em_h)", x, " & 255)");
  };
  auto pairs = [&](bool odd) {
    return str("ENTRY_pairs(", half("v", a.signed_vectors, odd), ", ",
               half("b", a.signed_rows, odd), ")");
  };
  return str("c += ", pairs(false), ";\nc += ", pairs(true), ";\n");
}

constexpr const char* kBf16Products =
    "c += (em_f)(v << 16) * (em_f)(b << 16);\n"
    "c += (em_f)(v & (int32_t)0xffff0000) * (em_f)(b & (int32_t)0xffff0000);\n";

// As assembly, because compilers differ in what they call these: the first operand is unsigned.
std::string dot_instruction(const Arithmetic32& a) {
  const char* operands = a.signed_vectors ? "\"v\"(b), \"v\"(v)" : "\"v\"(v), \"v\"(b)";
  return str("__asm__(\"", a.product == Product::bf16 ? "vdpbf16ps" : "vpdpbusd",
             " %2, %1, %0\" : \"+v\"(c) : ", operands, ");\n");
}

}  // namespace

std::string declare_arithmetic(const Arithmetic32& a) {
  if (a.plain()) return declare_vector(a.width);
  const bool bytes = a.product == Product::bytes;
  std::string size = str("__attribute__((vector_size(", a.width * 4, ")");
  return str("typedef uint32_t em_w __attribute__((aligned(1), may_alias));\n",
             "typedef int32_t em_p ", size, ", aligned(1), may_alias));\ntypedef ", a.sum(),
             " em_v ", size, ", aligned(1), may_alias));\ntypedef int32_t em_q ", size,
             "));\ntypedef float em_f ", size, "));\n", bytes && !a.dots ? declare_pairs(a) : "",
             "static inline em_v ENTRY_dot(em_v sums, em_p words, uint32_t s) {\n",
             bytes ? "em_q" : "em_f", " c = sums;\nem_q v = words, b = (em_q){0} + (int32_t)s;\n",
             a.dots  ? dot_instruction(a)
             : bytes ? byte_products(a)
                     : kBf16Products,
             "return c;\n}\n");
}

namespace {

// The k after `ahead` others: a register of every vector, then its products with all rows.
std::string products_of_k(const RegisterTile& t, int64_t ahead) {
  const Arithmetic32& a = t.arithmetic;
  const char* lanes = a.plain() ? "em_v" : "em_p";
  std::string text = "{\n";
  for (int64_t j = 0; j < t.vectors; ++j) {
    text += str("const ", lanes, " v", j, " = *(const ", lanes, "*)(v + ",
                ahead * t.panel + j * a.width, ");\n");
  }
  for (int64_t i = 0; i < t.rows; ++i) {
    std::string at = t.pointers ? str(ahead * t.k_step, " + k * ", t.k_step)
                                : str(i * t.row_step + ahead * t.k_step);
    std::string row = t.pointers ? str("s", i) : "s";
    std::string s =
        a.plain() ? str(row, "[", at, "]") : str("*(const em_w*)(", row, " + ", at, ")");
    if (!a.plain()) text += str("const uint32_t b", i, " = ", s, ";\n");
    for (int64_t j = 0; j < t.vectors; ++j) {
      std::string c = str("c", i, "_", j);
      text += a.plain() ? str(c, " += v", j, " * ", s, ";\n")
                        : str(c, " = ENTRY_dot(", c, ", v", j, ", b", i, ");\n");
    }
  }
  return text + "}\n";
}

}  // namespace

// Sums are scalars with names of their own: as an array GCC would leave them in memory.
std::string print_tile(const RegisterTile& t) {
  const Arithmetic32& a = t.arithmetic;
  const char* row = a.plain() ? "float" : "char";
  std::string text =
      str("static __attribute__((noinline)) void ", t.name, "(int64_t depth, const ", row,
          t.pointers ? "* const* rows" : "* restrict s", ", const ", a.word(), "* restrict v, ",
          a.sum(), "* restrict sums", t.continues ? ", int fresh" : "",
          t.adds ? ", float* restrict others, float sign" : "",
          t.fetch.every ? ", const char* next" : "", ") {\n");
  if (t.pointers) {
    for (int64_t i = 0; i < t.rows; ++i)
      text += str("const ", row, "* s", i, " = rows[", i, "];\n");
  }
  std::string declare, load, store, store_others;
  const int64_t vector_step = t.vector_step ? t.vector_step : a.width;
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
std::string print_turn(const Arithmetic32& a) {
  int64_t width = a.width;
  std::string text = str("static inline void ENTRY_turn(const ", a.word(), "* restrict from, ",
                         "int64_t from_step, ", a.word(), "* restrict to, int64_t to_step) {\n");
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
