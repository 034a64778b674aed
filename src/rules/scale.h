// How large numbers are, as powers of two: those of constants, of what is computed from them before
// the program runs, and of what factors make of values that nobody knows yet. Rules ask it so that
// no constant leaves the range of its type and no factor moves to where it would push a value out
// of it: docs/ir.md, "Liberties with floats".
#pragma once

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ops/op_def.h"

namespace emend {

struct RightSide;
struct TermFacts;

// Of numbers that are neither zero, subnormal nor infinite: they lie between two powers of two.
// What is out of range already may stay so, and says nothing.
struct Scale {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double least = kInfinity, most = -kInfinity;  // exponents of two; that way round: no such number
  bool zeros = false, negatives = false;        // may there be any?
  bool empty() const { return least > most; }
  bool operator==(const Scale&) const = default;
};

// Of large weights in types of many exponents only roughly, a little wider: programs that differ in
// their training look alike.
Scale scale_of(const Tensor& t);
// The numbers that a type holds without losing digits.
Scale normal_numbers(DType t);

// A sum of parts, each so large as a product of powers of unknown values, its atoms, and numbers of
// a scale. What is computed before the program runs has one part without atoms, if anything is
// known of it.
struct Magnitude {
  using Atoms = std::vector<std::pair<uint64_t, double>>;  // by the value's name: the power
  struct Part {
    Atoms atoms;
    Scale scale;
  };
  std::vector<Part> parts;
  bool ahead = false;
  bool known() const { return !parts.empty(); }

  static Magnitude of_value(uint64_t name) { return {{{{{name, 1}}, {0, 0, true, true}}}, false}; }
  static Magnitude of_constant(const Scale& s) { return {{{{}, s}}, true}; }
  static Magnitude unknown_constant() { return {{}, true}; }
};

// What an operator makes of operands.
struct Made {
  Magnitude value;
  // Products, quotients and roots lose digits below the range of the type, sums only above it.
  bool multiplies = false, adds = false;
  Scale terms;  // of what is made before it is summed, where all of it is computed beforehand
};
Made made_by(const OpDef& def, Attrs attrs, std::span<const Magnitude> operands, Types types,
             const Type& result);

// May `after` be computed instead of `before`? All that is computed beforehand must be normal
// numbers wherever what it is made of is; and no value on the way may be larger or smaller than
// every value of its kind was before, whatever the scale of the inputs, by more than the room that
// the type leaves. A failure says what would leave its range.
Result<bool> keeps_range(const RightSide& before, const RightSide& after, const TermFacts& facts);

}  // namespace emend
