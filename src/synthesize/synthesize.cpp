#include "synthesize/synthesize.h"

#include <algorithm>
#include <tuple>

namespace emend {
namespace {

void add_directions(const Equation& e, const std::string& name, std::vector<Directed>& rules) {
  for (bool reversed : {false, true}) {
    if (auto r = directed(e, reversed, name)) rules.push_back(std::move(*r));
  }
}

std::vector<std::string> every_operation(const std::vector<Menu>& menus) {
  std::vector<std::string> all = more_operations();
  for (const Menu& m : menus) all.insert(all.end(), m.operations.begin(), m.operations.end());
  return all;
}

// Small ones first; of these the ones about more operands, and those of higher rank, without
// special constants: the others follow from them.
void sort(std::vector<Suggestion>& candidates) {
  struct Keyed {
    std::tuple<int, int, int, int, size_t, std::string> key;
    Suggestion candidate;
  };
  std::vector<Keyed> keyed;
  for (Suggestion& c : candidates) {
    int constants = 0, rank = 0;
    for (const Input& in : c.equation.operands) {
      constants += in.is_constant();
      rank += static_cast<int>(in.extents.size());
    }
    std::string text = to_text(c.equation);
    keyed.push_back({{c.operators, constants, -static_cast<int>(c.equation.operands.size()), -rank,
                      text.size(), std::move(text)},
                     std::move(c)});
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
  candidates.clear();
  for (Keyed& k : keyed) candidates.push_back(std::move(k.candidate));
}

class Synthesizer {
 public:
  explicit Synthesizer(const SynthesizeOptions& options)
      : options_(options),
        alternatives_(alternatives_of(every_operation(options.menus))),
        rules_(options.known) {}

  SynthesizeReport run() {
    for (const Menu& menu : options_.menus) {
      if (options_.monitor.stop_requested()) break;
      search(menu);
    }
    drop_what_follows();
    report_.evaluations = calculator_.evaluations();
    report_.interrupted = options_.monitor.stop_requested();
    return std::move(report_);
  }

 private:
  void search(const Menu& menu) {
    BankOptions o = options_.bank;
    o.seed = options_.seed;
    Bank bank(menu, o, calculator_);
    menu_ = {.name = menu.name};
    while (!bank.done() && !options_.monitor.stop_requested()) {
      auto candidates = bank.grow(options_.monitor);
      menu_.candidates += static_cast<int64_t>(candidates.size());
      sort(candidates);
      settle(candidates);
    }
    menu_.terms = bank.tried();
    menu_.kept = bank.kept();
    menu_.complete = bank.complete();
    report_.menus.push_back(menu_);
  }

  // Each by itself: in an e-graph of all of them, more would follow, but by way of terms that are
  // not there when the equation is wanted.
  void settle(const std::vector<Suggestion>& candidates) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (options_.monitor.stop_requested()) return;
      options_.monitor.tell({.phase = "synthesize",
                             .done = static_cast<int64_t>(i),
                             .of = static_cast<int64_t>(candidates.size())});
      const Suggestion& c = candidates[i];
      if (derivable(c.equation, c.sizes, rules_, options_.derive)) {
        ++menu_.derivable;
      } else {
        judge(c);
      }
    }
  }

  void judge(const Suggestion& c) {
    VerifyOptions o = options_.verify;
    o.seed = options_.seed;
    Verified v = verify(c.equation, alternatives_, o, calculator_);
    if (!v.holds) {
      ++menu_.refuted;
      report_.refuted.push_back(str(to_text(c.equation), ": ", v.reason));
      return;
    }
    ++menu_.accepted;
    Found f{.name = str(menu_.name, "-", menu_.accepted),
            .menu = menu_.name,
            .equation = std::move(v.equation),
            .passed = v.passed,
            .failed = v.failed};
    add_directions(f.equation, f.name, rules_);
    sizes_.push_back(c.sizes);
    report_.found.push_back(std::move(f));
  }

  // Later equations may imply earlier ones. Sizes are those each was found at.
  void drop_what_follows() {
    for (size_t i = report_.found.size(); i-- > 0;) {
      std::vector<Directed> others = options_.known;
      for (size_t j = 0; j < report_.found.size(); ++j) {
        if (j != i) add_directions(report_.found[j].equation, report_.found[j].name, others);
      }
      if (!derivable(report_.found[i].equation, sizes_[i], others, options_.derive)) continue;
      report_.found.erase(report_.found.begin() + static_cast<ptrdiff_t>(i));
      sizes_.erase(sizes_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  const SynthesizeOptions& options_;
  Calculator calculator_;
  Alternatives alternatives_;
  std::vector<Directed> rules_;
  std::vector<SizeTable> sizes_;  // per found equation
  MenuReport menu_;
  SynthesizeReport report_;
};

}  // namespace

SynthesizeReport synthesize(const SynthesizeOptions& options) {
  return Synthesizer(options).run();
}

std::vector<Directed> rules_of(const std::vector<Found>& found) {
  std::vector<Directed> rules;
  for (const Found& f : found) add_directions(f.equation, f.name, rules);
  return rules;
}

}  // namespace emend
