#include "rules/check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ops/evaluate.h"
#include "ops/table.h"
#include "rules/draw.h"
#include "rules/functions.h"

namespace emend {
namespace {

constexpr double kRelative = 1e-9;
constexpr int kIntegerLooks = 12;  // instances per dtype
constexpr int kSecondLooks = 200;  // instances more, for a twin that was not refuted

enum class Verdict { equal, different, inapplicable, inexact };

// Of the whole range of a dtype, so that sums overflow.
int64_t some_integer(DType dtype, Elements elements, Rng& rng) {
  int bits = info(dtype).bits;
  int64_t high = dtype == DType::u8 ? 255 : (int64_t{1} << (bits - 1)) - 1;
  int64_t low = dtype == DType::u8 ? 0 : -high - 1;
  return rng.between(elements == Elements::positive ? 1 : low, high);
}

Tensor some_values(const Type& type, Arithmetic arithmetic, Elements elements, Rng& rng) {
  // Large enough for a field, small enough not to overflow, smooth for floats.
  int64_t bound = arithmetic == Arithmetic::field ? int64_t{1} << 50 : 9;
  double first = 0;
  return Tensor::make(type.dtype, type.shape, [&](std::byte* out) {
    for (int64_t i = 0; i < count(type.shape); ++i) {
      auto at = static_cast<size_t>(i);
      if (arithmetic == Arithmetic::own) {
        int64_t v = some_integer(type.dtype, elements, rng);
        if (elements == Elements::equal) first = i ? first : static_cast<double>(v);
        if (elements == Elements::equal) v = static_cast<int64_t>(first);
        if (elements == Elements::identity) v = on_diagonal(type.shape, i);
        store_int(type.dtype, out, at, v);
      } else if (!is_float(type.dtype)) {
        store_int(type.dtype, out, at, rng.between(0, type.dtype == DType::boolean ? 1 : 9));
      } else {
        double v = arithmetic == Arithmetic::real64
                       ? rng.normal()
                       : static_cast<double>(rng.between(-bound, bound));
        if (elements == Elements::positive) v = std::abs(v) + 1;
        if (elements == Elements::equal) v = i ? first : first = v;
        if (elements == Elements::identity) v = on_diagonal(type.shape, i);
        store_real(type.dtype, out, at, v);
      }
    }
  });
}

bool same_value(const Tensor& a, const Tensor& b, Arithmetic arithmetic) {
  if (arithmetic != Arithmetic::real64) return a == b;
  double largest = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    if (std::isfinite(a.real(i))) largest = std::max(largest, std::abs(a.real(i)));
  }
  for (int64_t i = 0; i < a.count(); ++i) {
    double x = a.real(i), y = b.real(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::abs(x - y) <= kRelative * largest)) return false;
  }
  return true;
}

// The left side of the instance against a right side, in one arithmetic.
Verdict compare(const Rule& rule, const Pattern& rhs, const Instance& drawn, Arithmetic arithmetic,
                Rng rng) {
  Instance instance = drawn;
  GraphBuilder& b = instance.builder;
  std::vector<Tensor> values;
  std::map<NodeId, size_t> input_of;
  for (const GraphInput& i : b.graph().inputs) {
    input_of[i.node] = values.size();
    values.push_back(
        some_values(b.type(i.node), arithmetic, instance.elements[values.size()], rng));
  }
  TermFacts facts{.type = [&](Term t) -> const Type& { return b.type(NodeId(t.value)); },
                  .constant = [&](Term t) -> const Tensor* {
                    auto it = input_of.find(NodeId(t.value));
                    return it == input_of.end() ? nullptr : &values[it->second];
                  },
                  .unbounded = true};
  std::vector<Type> types;
  for (NodeId root : instance.left) types.push_back(b.type(root));
  Rule twin = rule;
  twin.rhs = rhs;
  auto plan = apply(twin, instance.substitution, facts, types);
  if (!plan) return Verdict::inapplicable;
  Adder adder{.matched = [](Term t) { return t; },
              .constant = [&](const Tensor& t) { return Term(b.constant(t).value); },
              .node =
                  [&](const RightSide::Step& step, std::span<const Term> terms) {
                    std::vector<NodeId> args;
                    for (Term t : terms) args.push_back(NodeId(t.value));
                    return Term(b.try_op(step.op, args, step.attrs).value_or_throw().value);
                  }};
  std::vector<Term> right = add(*plan, adder);
  for (size_t i = 0; i < right.size(); ++i) {
    b.output(str("left", i), instance.left[i]);
    b.output(str("right", i), NodeId(right[i].value));
  }
  try {
    std::vector<Value> inputs;
    for (const Tensor& t : values) inputs.emplace_back(converted(t, arithmetic));
    auto results = evaluate(b.graph(), inputs, {.arithmetic = arithmetic});
    for (size_t i = 0; i < results.size(); i += 2) {
      if (!same_value(results[i].tensor, results[i + 1].tensor, arithmetic))
        return Verdict::different;
    }
    return Verdict::equal;
  } catch (const Inexact&) {
    return Verdict::inexact;
  } catch (const Error&) {
    return Verdict::inexact;
  }
}

struct Finding {
  Verdict verdict;
  std::string method;
};

// In the first arithmetic that can say something.
Finding compare(const Rule& rule, const Pattern& rhs, const Instance& instance, Rng& rng) {
  constexpr std::pair<Arithmetic, const char*> kOrder[] = {{Arithmetic::field, "field"},
                                                           {Arithmetic::integer, "integer"},
                                                           {Arithmetic::real64, "real64"}};
  uint64_t seed = rng.bits();
  for (auto [arithmetic, name] : kOrder) {
    Verdict v = compare(rule, rhs, instance, arithmetic, Rng(seed));
    if (v != Verdict::inexact) return {v, name};
  }
  return {Verdict::inexact, ""};
}

// --- Twins: right sides with one thing changed ---

using Twins = std::vector<Pattern>;

void operand_variables(const Pattern& p, std::set<int>& out) {
  if (p.kind == Pattern::Kind::variable) out.insert(p.variable);
  for (const Pattern& a : p.args) operand_variables(a, out);
}

std::vector<AttrExpr> changed(const AttrExpr& e) {
  std::vector<AttrExpr> out;
  auto with = [&](AttrValue v) {
    AttrExpr c = e;
    c.literal = std::move(v);
    out.push_back(c);
  };
  if (e.kind == AttrExpr::Kind::literal) {
    if (auto* i = e.literal.as<int64_t>()) with(*i + 1);
    if (auto* r = e.literal.as<double>()) with(*r + 1);
    if (auto* b = e.literal.as<bool>()) with(!*b);
    if (auto* d = e.literal.as<Dims>(); d && !d->empty()) {
      Dims reversed(d->rbegin(), d->rend()), increased = *d;
      increased.back() += 1;
      if (reversed != *d) with(reversed);
      with(increased);
    }
  } else if (e.kind == AttrExpr::Kind::call && e.args.size() == 2) {
    static const std::set<std::string> kSymmetric = {"sum", "product", "largest"};
    if (!kSymmetric.count(e.function)) {
      AttrExpr swapped = e;
      std::swap(swapped.args[0], swapped.args[1]);
      out.push_back(swapped);
    }
    if (e.args[0].kind == AttrExpr::Kind::variable) out.push_back(e.args[0]);
  }
  return out;
}

Pattern number(double v) {
  Pattern p;
  p.kind = Pattern::Kind::number;
  p.number = v;
  return p;
}

// Every pattern that differs from p in one place.
Twins changed(const Pattern& p, const std::set<int>& variables) {
  Twins out;
  auto with = [&](auto change) {
    Pattern c = p;
    change(c);
    out.push_back(std::move(c));
  };
  auto change_args = [&] {
    for (size_t i = 0; i < p.args.size(); ++i) {
      for (const Pattern& a : changed(p.args[i], variables)) {
        with([&](Pattern& c) {
          bool repeated = c.args[i].repeated;
          c.args[i] = a;
          c.args[i].repeated = repeated;
        });
      }
    }
  };
  switch (p.kind) {
    case Pattern::Kind::variable:
      for (int v : variables) {
        if (v != p.variable) with([&](Pattern& c) { c.variable = v; });
      }
      break;
    case Pattern::Kind::number:
      if (p.index.kind == AttrExpr::Kind::call) {
        for (const AttrExpr& e : changed(p.index)) with([&](Pattern& c) { c.index = e; });
        out.push_back(number(1));
      } else {
        with([](Pattern& c) { c.number += 1; });
      }
      break;
    case Pattern::Kind::constant:
      for (const AttrExpr& e : changed(p.index)) with([&](Pattern& c) { c.index = e; });
      break;
    case Pattern::Kind::identity:
    case Pattern::Kind::at:
      break;
    case Pattern::Kind::node: {
      bool commutes = p.variable < 0 && op_def(p.op).has(commutative);
      if (p.args.size() == 2 && !p.args[1].repeated && !commutes)
        with([](Pattern& c) { std::swap(c.args[0], c.args[1]); });
      if (p.args.size() == 1 && !p.args[0].repeated) out.push_back(p.args[0]);
      for (size_t i = 0; i < p.attrs.size(); ++i) {
        for (const AttrExpr& e : changed(p.attrs[i].second))
          with([&](Pattern& c) { c.attrs[i].second = e; });
      }
      change_args();
      break;
    }
    case Pattern::Kind::tuple:
      if (p.args.size() == 2) with([](Pattern& c) { std::swap(c.args[0], c.args[1]); });
      change_args();
  }
  return out;
}

Twins twins_of(const Rule& rule) {
  std::set<int> variables;
  operand_variables(rule.lhs, variables);
  Twins out = changed(rule.rhs, variables);
  std::string left = to_text(rule.lhs, rule.variables);
  std::erase_if(out, [&](const Pattern& p) { return to_text(p, rule.variables) == left; });
  return out;
}

// Of all results where there are several.
Pattern other_sign(const Pattern& p, OpId sign) {
  Pattern out = p;
  if (p.kind == Pattern::Kind::tuple ||
      (p.kind == Pattern::Kind::node && p.op == op_named("split"))) {
    for (Pattern& a : out.args) a = other_sign(a, sign);
    return out;
  }
  out = Pattern();
  out.kind = Pattern::Kind::node;
  out.op = sign;
  out.args = {p};
  std::swap(out.repeated, out.args[0].repeated);
  return out;
}

class Checker {
 public:
  Checker(const Rule& rule, const CheckOptions& options)
      : rule_(rule), options_(options), rng_(options.seed, hash_text(rule.name)) {
    result_.name = rule.name;
  }

  RuleCheck check() {
    bool equal =
        collect(DrawnSizes::different, result_.assignments) && collect(DrawnSizes::alike, alike_);
    result_.methods.assign(methods_.begin(), methods_.end());
    if (!equal) return result_;
    if (result_.assignments < options_.assignments) {
      result_.reason = str("only ", result_.assignments,
                           " different assignments of shapes found in ", options_.tries, " draws");
      return result_;
    }
    result_.holds = integers_agree() && refute_twins();
    return result_;
  }

 private:
  // Draws instances until there are enough; false if the sides differ on one.
  bool collect(DrawnSizes sizes, int& found) {
    for (int i = 0; i < options_.tries && found < options_.assignments; ++i) {
      auto instance = draw_instance(rule_, sizes, rng_);
      if (!instance || (sizes == DrawnSizes::different && shapes_.count(instance->shapes)))
        continue;
      Finding f = compare(rule_, rule_.rhs, *instance, rng_);
      if (f.verdict == Verdict::different) {
        result_.reason = str("the sides differ (", f.method, ") at ", instance->shapes);
        return false;
      }
      if (f.verdict != Verdict::equal) continue;
      shapes_.insert(instance->shapes);
      methods_.insert(f.method);
      instances_.push_back(std::move(*instance));
      ++found;
    }
    return true;
  }

  // Programs have integers, too. Wherever the guard lets them pass, sums that overflow and
  // quotients that are cut off must do so on both sides alike.
  bool integers_agree() {
    for (DType dtype : {DType::i8, DType::u8, DType::i32}) {
      for (int i = 0; i < kIntegerLooks; ++i) {
        auto instance =
            draw_instance(rule_, i % 2 ? DrawnSizes::alike : DrawnSizes::different, rng_, dtype);
        if (!instance || !all_of_dtype(*instance, dtype)) continue;
        Verdict v = compare(rule_, rule_.rhs, *instance, Arithmetic::own, Rng(rng_.bits()));
        if (v != Verdict::different) continue;
        result_.reason = str("the sides differ at ", instance->shapes);
        return false;
      }
    }
    return true;
  }

  static bool all_of_dtype(const Instance& i, DType dtype) {
    const Graph& g = i.builder.graph();
    return std::all_of(g.inputs.begin(), g.inputs.end(),
                       [&](const GraphInput& in) { return g.types[in.node].dtype == dtype; });
  }

  bool refute_twins() {
    DType dtype = instances_[0].builder.dtype(instances_[0].left[0]);
    Twins twins = twins_of(rule_);
    OpId sign = op_named(dtype == DType::boolean ? "logical_not" : "neg");
    twins.push_back(other_sign(rule_.rhs, sign));
    std::string accepted;  // the twins that were not refuted
    int n = 0;
    for (size_t i = 0; i < twins.size(); ++i) {
      bool must = i + 1 == twins.size();
      if (refute(twins[i], must)) continue;
      ++n;
      accepted += (accepted.empty() ? "" : ", ") + to_text(twins[i], rule_.variables);
    }
    if (n == rule_.true_twins) return true;
    result_.reason = n > rule_.true_twins ? str("not told apart from ", accepted)
                                          : str("only ", n, " of ", rule_.true_twins,
                                                " twins turned out to be true");
    return false;
  }

  // A twin may well call a function with arguments of the wrong sort.
  Verdict verdict_on(const Pattern& twin, const Instance& i) {
    try {
      return compare(rule_, twin, i, rng_).verdict;
    } catch (const InternalError&) {
      return Verdict::inapplicable;
    }
  }

  // Counts the twin; false if it should have been refuted and was not.
  bool refute(const Pattern& twin, bool must) {
    size_t typed = 0;
    for (const Instance& i : instances_) {
      Verdict v = verdict_on(twin, i);
      if (v == Verdict::different) return count_refuted();
      typed += v == Verdict::equal;
    }
    if (!must && typed < instances_.size()) {
      result_.twins += typed > 0;
      return true;
    }
    // Equal wherever the rule was tried: by chance, as slices are whose steps are all one, or true
    // in the special cases that happened to be drawn?
    for (int i = 0; i < kSecondLooks; ++i) {
      auto instance = draw_instance(rule_, i % 2 ? DrawnSizes::alike : DrawnSizes::different, rng_);
      if (!instance) continue;
      Verdict v = verdict_on(twin, *instance);
      if (v == Verdict::different) return count_refuted();
      if (must || v != Verdict::inapplicable) continue;
      if (verdict_on(rule_.rhs, *instance) == Verdict::equal) {
        ++result_.twins;
        return true;
      }
    }
    ++result_.twins;
    return false;
  }

  bool count_refuted() {
    ++result_.twins;
    ++result_.refuted;
    return true;
  }

  const Rule& rule_;
  const CheckOptions& options_;
  Rng rng_;
  RuleCheck result_;
  int alike_ = 0;
  std::vector<Instance> instances_;
  std::set<std::string> shapes_, methods_;
};

}  // namespace

RuleCheck check_rule(const Rule& rule, const CheckOptions& options) {
  return Checker(rule, options).check();
}

}  // namespace emend
