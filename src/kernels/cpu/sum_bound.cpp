#include "kernels/cpu/sum_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace emend {

namespace {

constexpr double kRounding = 0x1p-24;  // of one operation

std::string c_float(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9ef", x);
  return text;
}

}  // namespace

double most_of_sample(double bound, double amplification) {
  return bound / (kCertain * kRounding * amplification);
}

double least_bound(double usual, double amplification) {
  constexpr double kUneven = 2.5;  // where most elements are zero, or some are larger than others
  return kUneven * kCertain * kRounding * amplification * usual;
}

// A column has some large weights among so many; a few may all be small.
int64_t sampled_terms(int64_t terms, double least, double bound) {
  constexpr int64_t kFewest = 64;
  auto wanted = static_cast<int64_t>(std::ceil(static_cast<double>(terms) * least / bound));
  return std::min(terms, std::max(kFewest, wanted));
}

std::string print_sum_bound(int64_t width, int64_t panel, double most) {
  const int64_t vectors = panel / width;
  std::string text = str("typedef int32_t em_magnitude_bits __attribute__((vector_size(", width * 4,
                         "), aligned(4), may_alias));\n");
  text +=
      str("static __attribute__((unused)) float ENTRY_squares(const float* x, int64_t count) {\n",
          "em_v a = {0}, b = {0}, c = {0}, d = {0};\nint64_t k = 0;\n", "for (; k + ", 4 * width,
          " <= count; k += ", 4 * width, ") {\n");
  for (int i = 0; i < 4; ++i) {
    std::string x = str("*(const em_v*)(x + k + ", i * width, ")");
    text += str("abcd"[i], " += ", x, " * ", x, ";\n");
  }
  text += str("}\na += b;\nc += d;\na += c;\nfloat sum = 0;\nfor (int i = 0; i < ", width,
              "; ++i) sum += a[i];\nfor (; k < count; ++k) sum += x[k] * x[k];\nreturn sum;\n}\n");
  // Two rows of w at a time: sums do not wait for one another.
  std::string declare, both, one, store;
  for (int64_t j = 0; j < vectors; ++j) {
    auto magnitude = [&](const char* row) {
      return str("(em_v)(*(const em_magnitude_bits*)(", row, " + ", j * width, ") & 0x7fffffff)");
    };
    declare += str("em_v a", j, " = {0}, b", j, " = {0};\n");
    both += str("a", j, " += ", magnitude("u"), " * x0;\nb", j, " += ", magnitude("v"), " * x1;\n");
    one += str("a", j, " += ", magnitude("u"), " * x0;\n");
    store += str("*(em_v*)(sums + ", j * width, ") += a", j, " + b", j, ";\n");
  }
  const char* row = "const float x0 = fabsf(x[k]), *const u = w + k * ";
  text +=
      str("static __attribute__((noinline)) void ENTRY_magnitudes(const float* x, int64_t count, "
          "int64_t step, const float* w, float* restrict sums) {\n",
          declare, "int64_t k = 0;\nfor (; k + step < count; k += 2 * step) {\n", row, panel,
          ";\nconst float x1 = fabsf(x[k + step]), *const v = u + step * ", panel, ";\n", both,
          "}\nfor (; k < count; k += step) {\n", row, panel, ";\n", one, "}\n", store, "}\n");
  // Nothing that is no number is less than anything.
  return text +
         str("static int ENTRY_extreme(float squares) {\n",
             "return !(squares < 1e30f && squares > 1e-28f);\n}\n",
             "static int ENTRY_exceeds(float squares, const float* norms, const float* sums) {\n",
             "const float root = sqrtf(squares);\nint exceeds = 0;\nfor (int j = 0; j < ", panel,
             "; ++j) {\nconst float all = norms[j] * root, most = sums[j] * ", c_float(most),
             ";\nexceeds |= norms[j] != 0 && !(all <= most && sums[j] < 1e30f && "
             "sums[j] > 1e-25f);\n}\nreturn exceeds;\n}\n");
}

}  // namespace emend
