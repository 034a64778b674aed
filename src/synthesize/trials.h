// Trials of an equation: operands of shapes and attributes that its menu does not have (other
// ranks, sizes of one that broadcast, groups, sizes that agree or do not), and whether both sides
// are equal there.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rules/instance.h"
#include "synthesize/attributes.h"

namespace emend {

struct Trial {
  std::vector<Type> types;  // per operand
  Substitution substitution;
  std::vector<AttrValue> attrs;  // per attribute variable
  bool base = false;             // shapes and attributes as the menu has them
  bool equal = false;
};
std::string to_text(const Equation& e, const Trial& t);  // the shapes and attributes

// The equation as guards and plans want it, and what is known of a trial's operands.
Rule as_rule(const Equation& e);
TermFacts facts_of(const std::vector<Type>& types);

class Trier {
 public:
  // All must outlive it.
  Trier(const Equation& e, const std::vector<AttrVariable>& attrs, Calculator& calculator,
        Rng& rng);

  // nullopt where a side is illegal, where the sides have other types, or where they are zero. With
  // `fixed` an attribute variable takes that choice: (which variable, which choice).
  std::optional<Trial> draw(std::optional<std::pair<size_t, size_t>> fixed = std::nullopt);

 private:
  AttrValue some_choice(const AttrVariable& v);
  std::vector<Dims> draw_shapes(bool base);
  std::vector<Dims> menu_shapes(const SizeTable& sizes, bool base);
  bool occurs(const std::string& size, bool in_filters) const;
  void change(Dims& shape, const Dims& other);
  std::optional<ExactValue> evaluate(const RightSide& plan, const std::vector<ExactValue>& values);

  const Equation& e_;
  const std::vector<AttrVariable>& attrs_;
  Calculator& calculator_;
  Rng& rng_;
  Rule rule_;
  std::vector<std::string> names_;  // of sizes
  Dims used_;                       // sizes of the last drawing
};

}  // namespace emend
