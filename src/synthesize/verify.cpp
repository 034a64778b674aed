#include "synthesize/verify.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "synthesize/condition.h"

namespace emend {
namespace {

class Verifier {
 public:
  Verifier(const Equation& e, const Alternatives& alternatives, const VerifyOptions& options,
           Calculator& calculator)
      : alternatives_(alternatives),
        options_(options),
        calculator_(calculator),
        rng_(options.seed, hash_text(to_text(e))) {
    result_.equation = e;
  }

  // With attributes in general if that can be, otherwise with those that it was found with.
  Verified verify() {
    const Equation found = result_.equation;
    attrs_ = generalise(result_.equation, alternatives_);
    if (settle() || attrs_.empty() || false_at_base_) return result_;
    attrs_.clear();
    result_.equation = found;
    settle();
    return result_;
  }

 private:
  // Rounds of trials until a condition survives one.
  bool settle() {
    trials_.clear();
    result_.passed = result_.failed = 0;
    std::vector<Conjunct> condition;
    int clean = 0;
    for (int round = 0; round < options_.rounds; ++round) {
      size_t fresh = trials_.size();
      if (!collect()) return false;
      if (round > 0 && survive(condition, fresh)) {
        if (++clean < 2) continue;
        restrict_equation(result_.equation, attrs_, condition);
        result_.holds = true;
        result_.reason.clear();
        return true;
      }
      clean = 0;
      auto found = find_condition(result_.equation, attrs_, trials_, options_.conjuncts);
      if (!found) {
        result_.reason = trials_.empty() ? "legal nowhere" : witness();
        return false;
      }
      condition = std::move(*found);
      if (!enough(condition)) return false;
    }
    result_.reason = "no condition keeps every failure out";
    return false;
  }

  // False where the sides differ even as the menu has them.
  bool collect() {
    Trier trier(result_.equation, attrs_, calculator_, rng_);
    size_t wanted = trials_.size() + static_cast<size_t>(options_.trials);
    for (int i = 0; i < options_.draws && trials_.size() < wanted && !false_at_base_; ++i) {
      if (auto t = trier.draw()) note(std::move(*t));
    }
    // Every choice of attributes, also those for which few shapes are legal.
    for (size_t v = 0; v < attrs_.size(); ++v) {
      for (size_t c = 0; c < attrs_[v].choices.size(); ++c) {
        size_t enough = trials_.size() + static_cast<size_t>(options_.trials_per_choice);
        for (int i = 0; i < options_.draws_per_choice && trials_.size() < enough; ++i) {
          if (auto t = trier.draw(std::pair(v, c))) note(std::move(*t));
        }
      }
    }
    if (false_at_base_) result_.reason = witness();
    return !false_at_base_;
  }

  void note(Trial t) {
    false_at_base_ = false_at_base_ || (t.base && !t.equal);
    (t.equal ? result_.passed : result_.failed) += 1;
    trials_.push_back(std::move(t));
  }

  bool kept(const std::vector<Conjunct>& condition, const Trial& t) const {
    return std::all_of(condition.begin(), condition.end(),
                       [&](const Conjunct& c) { return is_true(c, result_.equation, attrs_, t); });
  }

  // No trial from `fresh` on fails where the condition holds.
  bool survive(const std::vector<Conjunct>& condition, size_t fresh) const {
    return std::all_of(trials_.begin() + static_cast<ptrdiff_t>(fresh), trials_.end(),
                       [&](const Trial& t) { return t.equal || !kept(condition, t); });
  }

  std::string witness() const {
    auto it = std::find_if(trials_.begin(), trials_.end(), [](auto& t) { return !t.equal; });
    return "the sides differ at " + to_text(result_.equation, *it);
  }

  bool enough(const std::vector<Conjunct>& condition) {
    std::set<std::string> shapes;
    for (const Trial& t : trials_) {
      if (t.equal && kept(condition, t)) shapes.insert(to_text(result_.equation, t));
    }
    if (static_cast<int>(shapes.size()) >= options_.passes) return true;
    result_.reason = str("only ", shapes.size(), " different shapes on which it holds");
    return false;
  }

  const Alternatives& alternatives_;
  const VerifyOptions& options_;
  Calculator& calculator_;
  Rng rng_;
  Verified result_;
  std::vector<AttrVariable> attrs_;
  std::vector<Trial> trials_;
  bool false_at_base_ = false;
};

}  // namespace

Verified verify(const Equation& e, const Alternatives& alternatives, const VerifyOptions& options,
                Calculator& calculator) {
  return Verifier(e, alternatives, options, calculator).verify();
}

}  // namespace emend
