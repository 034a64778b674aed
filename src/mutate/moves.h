// The R/T moves of PET's menus (N2H, H2N, D2H, C2H, their inverses, any factor): a digit of one
// dimension goes to another, two dimensions change places, neighbours become one. Every move is a
// view (ir/view.h), so that chains of them compose by arithmetic and a chain that does nothing is
// known to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/view.h"

namespace emend {

struct Move {
  enum class Kind : uint8_t {
    digit,  // the slow or the fast digit of `from` becomes the slow or the fast one of `to`
    swap,   // `from` and `to` change places
    merge,  // the dimensions from `from` to the last one become one
  };
  Kind kind = Kind::digit;
  size_t from = 0, to = 0;
  int64_t radix = 2;  // of the digit
  bool from_slow = false, to_slow = false;
  bool operator==(const Move&) const = default;
};

// "2:fast/2->0:fast": the phases of rows become images.
std::string to_text(const Move& m);
// The move that undoes a digit's or a swap.
Move inverse(const Move& m);
// The shape that a move makes of another, or nothing where it does not apply: a digit must divide.
std::optional<Dims> shape_after(const Move& m, const Dims& shape);
// Of a move that applies.
View view_of(const Move& m, const Dims& shape);
// The view that cuts dimensions into several so that the result has this shape, if there is one.
std::optional<View> refined_to(const Dims& shape, const Dims& result);

// Moves one after the other, in as few views as digits can say.
struct MoveChain {
  Dims shape;  // of what it makes; without moves, of what it is made of
  std::vector<View> views = {};
  std::vector<Dims> reads = {};  // the shape that each of the views reads
  void add(const Move& m);       // one that applies
};
MoveChain chain_of(const std::vector<Move>& moves, const Dims& shape);

}  // namespace emend
