// Values in the arithmetics in which equality is decided: the prime field, where different
// polynomials differ, and exact integers, where order has a meaning. Integers do not know what lies
// between 0 and 1 (there, x (x + 1) is below zero): where they decide, reals may be asked, too.
// What an operator is stays where it is defined: this evaluates operators' own meanings and only
// remembers types and meanings of what was evaluated before, because enumeration asks for the same
// few types again and again.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ops/evaluate.h"

namespace emend {

struct ExactValue {
  Type type;
  // Empty where some operator has no meaning in that arithmetic; `real` where nobody gave one.
  std::optional<Value> field, integer, real;
};

// All elements are zero: such a value tells nothing apart.
bool is_zero(const ExactValue& v);

// What is left of a value that nobody computes with any more. Shapes are part of it.
struct Fingerprint {
  uint64_t field = 0, integer = 0;  // 0: none in that arithmetic; both 0: illegal
  bool legal() const { return field || integer; }
};
Fingerprint fingerprint(const ExactValue& v);

enum class Agreement : uint8_t { equal, different, unknown };
// Unknown where one is illegal, or where the two have no arithmetic in common.
Agreement compare(const Fingerprint& a, const Fingerprint& b);

// Equal up to rounding, as far as there are reals.
bool real_agrees(const ExactValue& a, const ExactValue& b);

class Calculator {
 public:
  // What the operator makes of the operands; nullopt where they do not fit, or where no arithmetic
  // says what it is.
  std::optional<ExactValue> apply(OpId op, Attrs attrs, std::span<const ExactValue* const> args);
  int64_t evaluations() const { return evaluations_; }

 private:
  struct Key {
    OpId op;
    Attrs attrs;
    std::vector<Type> types;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const;
  };
  struct Known {
    std::optional<Type> type;
    std::optional<Meaning> meaning;
  };
  const Known& known(Key key);
  std::optional<Value> evaluate(const Key& key, const Known& known, Arithmetic arithmetic,
                                std::span<const Value> operands);

  std::unordered_map<Key, Known, KeyHash> known_;
  int64_t evaluations_ = 0;
};

}  // namespace emend
