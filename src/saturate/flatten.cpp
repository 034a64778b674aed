#include "saturate/flatten.h"

#include <algorithm>

#include "ops/table.h"
#include "rules/instance.h"

namespace emend {
namespace {

// Longer lists are left alone: the ways to take them apart multiply.
constexpr size_t kMostRepeated = 16;

// A pattern begun, and the slot of the part that was added last.
struct Begun {
  FlatPattern flat;
  std::map<int, OpId> chosen;  // what operator variables stand for
  int slot = -1;
};

class Flattener {
 public:
  Flattener(const Variables& variables, const Vocabulary& vocabulary)
      : variables_(variables), vocabulary_(vocabulary) {}

  std::vector<Begun> add(const Pattern& p, int repetition, const Begun& begun) {
    switch (p.kind) {
      case Pattern::Kind::variable: {
        int r = variables_.starred(p.variable) ? repetition : -1;
        return {with_slot(begun, {.variable = p.variable, .repetition = r})};
      }
      case Pattern::Kind::number: {
        Begun next = begun;
        next.slot = static_cast<int>(next.flat.slots.size());
        next.flat.slots.push_back({.number = p.number});
        return {next};
      }
      case Pattern::Kind::node:
        return add_node(p, repetition, begun);
      default:
        return {};  // stands on right sides only
    }
  }

 private:
  static Begun with_slot(Begun begun, const FlatPattern::Slot& slot) {
    auto& slots = begun.flat.slots;
    auto it = std::find(slots.begin(), slots.end(), slot);
    begun.slot = static_cast<int>(it - slots.begin());
    if (it == slots.end()) slots.push_back(slot);
    return begun;
  }

  std::vector<Begun> add_node(const Pattern& p, int repetition, const Begun& begun) {
    std::vector<Begun> out;
    for (const auto& [op, arities] : vocabulary_) {
      Begun next = begun;
      if (p.variable < 0) {
        if (op != p.op) continue;
      } else {
        if (!in_class(variables_.classes[static_cast<size_t>(p.variable)], op_def(op))) continue;
        if (next.chosen.try_emplace(p.variable, op).first->second != op) continue;
      }
      for (size_t arity : arities) add_with(p, repetition, next, op, arity, out);
    }
    return out;
  }

  // The parts of the pattern that meet the operands, one by one.
  struct Part {
    const Pattern* pattern;
    int repetition;
  };

  void add_with(const Pattern& p, int repetition, const Begun& begun, OpId op, size_t arity,
                std::vector<Begun>& out) {
    for (std::vector<Part>& parts : shared_out(p, repetition, arity)) {
      add_operands(p, repetition, begun, op, parts, out);
      // Not where it is repeated: the ways would multiply, and any of them is as good.
      bool swaps = op_def(op).has(commutative) && parts.size() == 2 && repetition < 0;
      if (!swaps) continue;
      std::swap(parts[0], parts[1]);
      add_operands(p, repetition, begun, op, parts, out);
    }
  }

  // Ways to give this many operands to the parts, repeated ones taking any number.
  std::vector<std::vector<Part>> shared_out(const Pattern& p, int repetition, size_t arity) {
    std::vector<std::vector<Part>> ways{{}};
    for (size_t k = 0; k < p.args.size(); ++k) {
      const Pattern& a = p.args[k];
      std::vector<std::vector<Part>> next;
      for (const auto& way : ways) {
        size_t most = a.repeated ? std::min(kMostRepeated, arity - std::min(arity, way.size())) : 1;
        for (size_t n = a.repeated ? 0 : 1; n <= most; ++n) {
          next.push_back(way);
          for (size_t i = 0; i < n; ++i)
            next.back().push_back({&a, a.repeated ? static_cast<int>(i) : repetition});
        }
      }
      ways = std::move(next);
    }
    std::erase_if(ways, [&](const auto& way) { return way.size() != arity; });
    return ways;
  }

  void add_operands(const Pattern& p, int repetition, const Begun& begun, OpId op,
                    const std::vector<Part>& parts, std::vector<Begun>& out) {
    Begun start = begun;
    auto result = static_cast<int>(start.flat.slots.size());
    start.flat.slots.emplace_back();
    size_t atom = start.flat.atoms.size();
    start.flat.atoms.push_back(
        {.pattern = &p, .repetition = repetition, .op = op, .result = result, .operands = {}});
    std::vector<Begun> ways{start};
    for (const Part& part : parts) {
      std::vector<Begun> next;
      for (const Begun& way : ways) {
        for (Begun& longer : add(*part.pattern, part.repetition, way)) {
          longer.flat.atoms[atom].operands.push_back(longer.slot);
          next.push_back(std::move(longer));
        }
      }
      ways = std::move(next);
    }
    for (Begun& way : ways) {
      way.slot = result;
      out.push_back(std::move(way));
    }
  }

  const Variables& variables_;
  const Vocabulary& vocabulary_;
};

// Does every operator occur that must? Most rules are about others, and are told apart fast by
// this.
bool may_be_met(const Pattern& p, const Vocabulary& vocabulary) {
  if (p.kind == Pattern::Kind::node && p.variable < 0 && !vocabulary.count(p.op)) return false;
  return std::ranges::all_of(p.args, [&](const Pattern& a) {
    bool must = !a.repeated || p.kind == Pattern::Kind::tuple;
    return !must || may_be_met(a, vocabulary);
  });
}

}  // namespace

std::vector<FlatPattern> flatten(const Pattern& p, const Variables& variables,
                                 const Vocabulary& vocabulary) {
  if (!may_be_met(p, vocabulary)) return {};
  Flattener flattener(variables, vocabulary);
  bool tuple = p.kind == Pattern::Kind::tuple;
  std::vector<Begun> ways{Begun{}};
  for (const Pattern& root : tuple ? std::span(p.args) : std::span(&p, 1)) {
    std::vector<Begun> next;
    for (const Begun& way : ways) {
      for (Begun& longer : flattener.add(root, root.repeated ? 0 : -1, way)) {
        longer.flat.roots.push_back(longer.slot);
        next.push_back(std::move(longer));
      }
    }
    ways = std::move(next);
  }
  std::vector<FlatPattern> out;
  for (Begun& way : ways) {
    if (std::find(out.begin(), out.end(), way.flat) == out.end())
      out.push_back(std::move(way.flat));
  }
  return out;
}

}  // namespace emend
