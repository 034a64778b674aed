#include "ops/meaning.h"

namespace emend {

bool is_contraction(const Meaning& m) {
  return m.reduce == Reduce::sum && m.reads.size() == 2 && is_product(m.body);
}

bool is_movement(const Meaning& m) {
  return m.reduce == Reduce::none && is_argument(m.body, static_cast<int>(m.reads.size()) - 1) &&
         is_argument(m.finish, 0);
}

bool is_reshape(const Meaning& m, const Dims& from) {
  return is_movement(m) && m.reads.size() == 1 && !m.reads[0].outside &&
         count(m.out) == count(from) && m.reads[0].index == reshape_index(from, m.out);
}

double operation_count(const Meaning& m) {
  double points = static_cast<double>(count(m.out)) * static_cast<double>(count(m.reduced));
  double per_point = operation_count(m.body) + (m.reduce == Reduce::none ? 0 : 1);
  return points * per_point + static_cast<double>(count(m.out)) * operation_count(m.finish);
}

std::string to_text(const Meaning& m) {
  std::string out = "out[";
  for (size_t i = 0; i < m.out.size(); ++i) out += str(i ? "," : "", "i", i);
  out += "] = ";
  std::string inner = to_text(m.body);
  std::string reads;
  for (size_t r = 0; r < m.reads.size(); ++r) {
    reads += str(reads.empty() ? "" : ", ", r < 3 ? std::string(1, "xyz"[r]) : str("x", r), " = ",
                 "operand", m.reads[r].operand, "[");
    for (size_t d = 0; d < m.reads[r].index.size(); ++d) {
      reads += str(d ? "," : "", to_text(m.reads[r].index[d]));
    }
    reads += "]";
    if (m.reads[r].outside) reads += str(" or ", number_text(*m.reads[r].outside));
  }
  if (m.reduce != Reduce::none) {
    std::string over;
    for (size_t k = 0; k < m.reduced.size(); ++k) {
      over += str(over.empty() ? "" : ",", "i", m.out.size() + k, "<", m.reduced[k]);
    }
    inner = str(to_text(m.reduce), "(", over, ") ", inner);
  }
  if (!is_argument(m.finish, 0)) inner = str("(let x = ", inner, " in ", to_text(m.finish), ")");
  return str(out, inner, reads.empty() ? "" : " where ", reads);
}

}  // namespace emend
