// Index arithmetic of loop nests: linear forms over *atoms*, where an atom is a loop iterator, a
// quotient or remainder of a form by a constant, or an integer value that the nest itself computes.
// Forms are kept simple by what is known of ranges: digits that cannot carry disappear, and the
// digits of one number are put together again. So chains of views (reshapes, transposes, slices)
// become plain strides wherever they are.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/index_expr.h"

namespace emend {

struct Atom {
  enum class Kind : uint8_t { iterator, quotient, remainder, value };
  Kind kind = Kind::iterator;
  Linear of;       // of a quotient or remainder; its terms name atoms
  int64_t by = 0;  // the divisor; for a value: the extent that negative ones are counted from
  int value = -1;  // which value of the nest
  int64_t low = 0, high = 0;
  bool operator==(const Atom&) const = default;
};

class IndexMath {
 public:
  int iterator(int64_t extent);  // a new atom
  // An integer computed at run time, known to be in [low, high] once negative ones were counted
  // from the end of `wrap` (0: they are not).
  Linear value(int value, int64_t wrap, int64_t low, int64_t high);
  // An iterator of which only [from, to) is of interest: it ends there.
  void narrow(int iterator, int64_t from, int64_t to);
  // Of forms that are never negative.
  Linear quotient(const Linear& of, int64_t by);
  Linear remainder(const Linear& of, int64_t by);
  Linear sum(const Linear& a, const Linear& b);
  // The form with its iterators replaced: iterator k of `e` by at[k]. `read` gives the form of a
  // value that `e` reads.
  Linear substitute(const IndexExpr& e, std::span<const Linear> at,
                    const std::function<Linear(int read, int64_t wrap)>& read);

  const Atom& atom(int a) const { return atoms_[static_cast<size_t>(a)]; }
  size_t size() const { return atoms_.size(); }
  int64_t extent(int iterator) const { return atom(iterator).high + 1; }
  std::pair<int64_t, int64_t> range(const Linear& e) const;
  // Iterators and values that a form depends on, quotients and remainders looked through.
  void visit(const Linear& e, const std::function<void(int atom)>& see) const;
  // If the form is coef * iterator + (something without it).
  std::optional<int64_t> stride(const Linear& e, int iterator) const;
  // C text; name(atom) names iterators and values.
  std::string text(const Linear& e, const std::function<std::string(int)>& name) const;

 private:
  int intern(Atom a);
  Linear joined(Linear e);
  std::vector<Atom> atoms_;
};

inline Linear term(int atom, int64_t coef = 1) {
  Linear l;
  if (coef != 0) l.terms.emplace_back(atom, coef);
  return l;
}
inline Linear whole(int64_t value) {
  return {.constant = value, .terms = {}};
}
inline bool is_whole(const Linear& e) {
  return e.terms.empty();
}

}  // namespace emend
