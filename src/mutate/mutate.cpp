#include "mutate/mutate.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>

#include "base/contained.h"
#include "base/hash.h"
#include "base/text.h"
#include "mutate/instance.h"
#include "ops/build.h"
#include "ops/table.h"
#include "rules/instance.h"

namespace emend {
namespace {

using Mutant = MutateReport::Mutant;
using Verdict = MutationManager::Verdict;

// Kernels must be faster by more than estimates can tell.
constexpr double kWorthwhile = 0.95;
constexpr const char* kGenerated = "generated";

std::string text_of(const PricedNode& site) {
  std::string out = op_def(site.op).name + to_text(site.attrs) + "(";
  for (size_t i = 0; i < site.operands.size(); ++i)
    out += (i ? ", " : "") + to_text(site.operands[i]);
  return out + ")";
}

// What is worth a proof at a site, and what becomes of a mutant that is wrong somewhere.
class Judge {
 public:
  Judge(const PricedNode& site, const MutateOptions& options, MutateReport& counts)
      : site_(site),
        options_(options),
        counts_(counts),
        corrects_(is_enabled("correct", options.enable, options.disable)) {}

  bool corrects() const { return corrects_; }
  MutationManager* manager() const { return options_.manager; }

  // Is it the original, everywhere? If not: where, if all is asked.
  MutationManager::Judged judged(const Graph& original, const Graph& program, bool all) const {
    const size_t boxes = all ? options_.correct.max_patches : 0;
    MutationManager::Judged j;
    if (options_.manager) {
      j = options_.manager->judge(original, program, boxes);
    } else {
      j.verdict = MutationManager::proven(original, program, boxes);
    }
    ++(j.known ? counts_.known : counts_.proofs);
    return j;
  }

  // What gains nothing is not worth a proof, nor room in the e-graph.
  bool too_dear(const Graph& mutant, bool exact, double other, Mutant& m) const {
    if (!options_.price) return false;
    m.seconds = options_.price(mutant, site_.weights, exact);
    if (m.seconds < kWorthwhile * other) return false;
    m.reason = str("takes ", number_text(std::round(m.seconds * 1e8) / 1e2), " us",
                   exact ? "" : " at least",
                   other == site_.seconds ? ", the original " : ", without a repair ",
                   number_text(std::round(other * 1e8) / 1e2), " us");
    return true;
  }

  // The mutant with the original where it is wrong, and the proof that it is right now.
  void correct(const Graph& original, const Graph& mutant, double seconds, Mutant& m,
               std::vector<Rule>& proven) const {
    const Verdict where = judged(original, mutant, true).verdict;
    if (!where.reason.empty()) {
      m.reason = where.reason;
      return;
    }
    m.share = where.share;
    const std::string differs =
        str("differs at ", std::round((1 - m.share) * 1000) / 10, " %, not repaired: ");
    if (!where.scattered.empty()) {
      m.reason = differs + where.scattered;
      return;
    }
    // Boxes that are alike by one operator, or each by its own: the first that is worthwhile. Exact
    // prices take less than proofs.
    Result<Correction> repaired = fail("");
    bool dear = true;
    for (CorrectOptions how = options_.correct; dear; how.together = false) {
      repaired = corrected(original, mutant, where.differ, how);
      if (!repaired) {
        m.reason = differs + repaired.error();
        return;
      }
      m.patches = repaired->patches.size();
      m.repaired = repaired->share;
      dear = too_dear(repaired->program, false, seconds, m) ||
             too_dear(repaired->program, true, seconds, m);
      if (dear && !how.together) return;
    }
    const Verdict shown = judged(original, repaired->program, false).verdict;
    if (!shown.equal) {
      m.reason =
          differs + (shown.reason.empty() ? "that it is right then is not proven" : shown.reason);
      return;
    }
    m.outcome = Mutant::Outcome::corrected;
    m.method = shown.method;
    m.reason.clear();
    proven.push_back(rule_between(m.mutation, original, repaired->program));
  }

 private:
  const PricedNode& site_;
  const MutateOptions& options_;
  MutateReport& counts_;
  const bool corrects_;
};

// A mutation at a site: terms are the site's operands by their number.
class Trial {
 public:
  Trial(const Mutation& mutation, const PricedNode& site, const MutateOptions& options,
        MutateReport& counts)
      : mutation_(mutation),
        rule_(mutation.rule),
        site_(site),
        judge_(site, options, counts),
        prices_(static_cast<bool>(options.price)),
        thorough_(options.generate.has_value()) {
    facts_ = {.type = [&](Term t) -> const Type& { return site_.operands[t.value]; },
              .constant = [](Term) -> const Tensor* { return nullptr; },
              .weight_only = [&](Term t) { return static_cast<bool>(site_.weights[t.value]); }};
  }

  // Does the left side fit?
  bool bind() {
    const Pattern& p = rule_.lhs;
    if (p.op != site_.op || p.args.size() != site_.operands.size()) return false;
    s_.assign(rule_.variables.names.size(), {});
    if (!bind_attrs(rule_.variables, p, site_.attrs, -1, s_)) return false;
    for (size_t i = 0; i < p.args.size(); ++i) {
      if (p.args[i].kind != Pattern::Kind::variable ||
          !bind_term(rule_.variables, s_, p.args[i].variable, -1, Term(i)))
        return false;
    }
    auto plan = plan_of(rule_.lhs, rule_, s_, facts_, site_.result.dtype);
    if (!plan) return false;
    original_ = program_of(*plan, site_.operands);
    return true;
  }

  // Every choice of parameters, each solved.
  void run(std::vector<Rule>& proven, std::vector<Mutant>& report) { choose(0, proven, report); }

 private:
  void choose(size_t next, std::vector<Rule>& proven, std::vector<Mutant>& report) {
    if (next == mutation_.choices.size()) return attempt(proven, report);
    const Mutation::Choice& c = mutation_.choices[next];
    auto values = value_of(c.values, rule_, s_, facts_);
    const Dims* list = values ? values->as<Dims>() : nullptr;
    if (!list) return;
    for (int64_t v : Dims(*list)) {
      s_[static_cast<size_t>(c.variable)] = AttrValue(v);
      choose(next + 1, proven, report);
    }
    s_[static_cast<size_t>(c.variable)] = {};
  }

  // What became of the mutant while its parameter was solved for.
  struct Wrong {
    Mutant about;
    Graph mutant;
  };
  struct Solving {
    Mutant m;                    // at the last value
    double guessed = 0;          // seconds of it
    std::optional<Wrong> wrong;  // with nothing added
  };

  void attempt(std::vector<Rule>& proven, std::vector<Mutant>& report) {
    if (mutation_.solved < 0 && !holds(rule_, s_, facts_)) return;
    Solving now{.m = {.mutation = rule_.name, .site = text_of(site_)}};
    free_.reset();
    auto known = judge_.manager() ? judge_.manager()->solution(question()) : std::nullopt;
    int64_t landed = 0;  // what was skipped to
    // Just below what was enough before, it is told anew whether it is just enough.
    auto after = [&](int64_t v) {
      if (v > 0 || !known) return v + 1;
      return landed = std::max<int64_t>(*known < 0 ? mutation_.most : *known - 1, 1);
    };
    for (int64_t v = 0; v <= mutation_.most; v = after(v)) {
      if (mutation_.solved >= 0) {
        s_[static_cast<size_t>(mutation_.solved)] = AttrValue(v);
        if (!holds(rule_, s_, facts_)) {
          if (v == 0) return;
          break;
        }
      }
      now.m.parameters = parameters();
      auto plan = apply(rule_, s_, facts_, site_.result);
      if (!plan) {
        now.m.reason = plan.error();
        continue;
      }
      Graph mutant = program_of(*plan, site_.operands);
      if (judge_.too_dear(mutant, false, site_.seconds, now.m)) break;
      now.guessed = now.m.seconds;
      MutationManager::Judged judged = judge_.judged(original_, mutant, v == mutation_.most);
      if (judged.verdict.equal && v == landed && v > 1) {  // the least is somewhere below
        known.reset();
        v = 0;
        continue;
      }
      if (!go_on(v, std::move(mutant), judged, now, proven)) break;
    }
    finish(std::move(now), proven, report);
  }

  // Takes note of a verdict; false where no other value is worth a look.
  bool go_on(int64_t v, Graph mutant, const MutationManager::Judged& judged, Solving& now,
             std::vector<Rule>& proven) {
    const Verdict& shown = judged.verdict;
    Mutant& m = now.m;
    if (!shown.reason.empty()) {
      m.reason = shown.reason;
      return false;
    }
    meet(judged.free);
    m.method = shown.method;
    m.share = shown.share;
    if (shown.equal) {
      note(v);
      m.outcome = Mutant::Outcome::equal;
      m.reason.clear();
      if (!judge_.too_dear(mutant, true, site_.seconds, m))
        proven.push_back(rule_between(rule_.name, original_, mutant));
      return false;
    }
    m.reason = v < mutation_.most ? "differs somewhere"
                                  : str("differs at ", std::round((1 - m.share) * 100), " %");
    if (v == mutation_.most) note(MutationManager::kNoSolution);
    if (v == 0 && judge_.corrects()) now.wrong = {m, std::move(mutant)};
    return true;
  }

  // What is wrong with nothing added may be worth a repair.
  void finish(Solving now, std::vector<Rule>& proven, std::vector<Mutant>& report) {
    Mutant& m = now.m;
    if (!now.wrong) return report.push_back(std::move(m));
    Mutant& about = now.wrong->about;
    // Beside an equal one, a repaired one has to be better than that. Where guesses say that it is
    // not even without its repair, only a thorough search looks.
    const bool solved = m.outcome == Mutant::Outcome::equal && prices_;
    const double other = solved ? std::min(m.seconds, site_.seconds) : site_.seconds;
    if (!solved || thorough_ || about.seconds < kWorthwhile * now.guessed)
      judge_.correct(original_, now.wrong->mutant, other, about, proven);
    else
      about.reason = "no faster than with " + m.parameters + ", which needs no repair";
    if (mutation_.most > 0) report.push_back(std::move(m));
    report.push_back(std::move(about));
  }

  // Extents that matter to one verdict matter.
  void meet(const MutationManager::Free& free) {
    if (!free_) free_ = free;
    for (size_t i = 0; i < free_->size(); ++i)
      for (size_t d = 0; d < (*free_)[i].size(); ++d)
        if (free.empty() || !free[i][d]) (*free_)[i][d] = false;
  }
  // The site with the choices made, as the manager is asked about it.
  MutationManager::Question question() const {
    MutationManager::Question q{.about = hash_mix(mutation_.hash, site_.attrs.hash())};
    q.about = hash_text(op_def(site_.op).name, q.about);
    for (const Mutation::Choice& c : mutation_.choices)
      q.about = hash_mix(q.about, std::get<AttrValue>(s_[static_cast<size_t>(c.variable)]).hash());
    for (const Type& t : site_.operands) {
      q.about = hash_mix(q.about, static_cast<uint64_t>(t.dtype));
      q.shapes.push_back(t.shape);
    }
    return q;
  }
  void note(int64_t value) {
    if (judge_.manager() && mutation_.solved >= 0 && free_)
      judge_.manager()->solved(question(), value, *free_);
  }

  std::string parameters() const {
    std::string out;
    auto add = [&](int v) {
      const auto* value = std::get_if<AttrValue>(&s_[static_cast<size_t>(v)]);
      if (!value) return;
      if (!out.empty()) out += ", ";
      out += rule_.variables.names[static_cast<size_t>(v)] + "=" + to_text(*value);
    };
    for (const Mutation::Choice& c : mutation_.choices) add(c.variable);
    if (mutation_.solved >= 0) add(mutation_.solved);
    return out;
  }

  const Mutation& mutation_;
  const Rule& rule_;
  const PricedNode& site_;
  const Judge judge_;
  const bool prices_;  // are there any?
  const bool thorough_;
  TermFacts facts_;
  Substitution s_;
  Graph original_;
  std::optional<MutationManager::Free> free_;  // extents that mattered to no verdict
};

// What no line of the table names.
void try_generated(const PricedNode& site, const MutateOptions& options, std::vector<Rule>& proven,
                   MutateReport& facts) {
  std::vector<Mutant>& report = facts.mutants;
  GraphBuilder b;
  std::vector<NodeId> operands;
  for (const Type& t : site.operands) operands.push_back(b.input(str("x", operands.size()), t));
  b.output("y", b.try_op(site.op, operands, site.attrs).value_or_throw());
  const Graph original = std::move(b).build();
  const Judge judge(site, options, facts);
  const Mutant common{.mutation = kGenerated, .site = text_of(site)};
  GenerateOptions how = *options.generate;
  how.monitor = options.monitor;
  how.worthwhile = [&](const Graph& mutant, const std::string& steps) {
    Mutant m = common;
    m.parameters = steps;
    if (!judge.too_dear(mutant, false, site.seconds, m)) return true;
    report.push_back(std::move(m));
    return false;
  };
  for (const GeneratedMutant& found : generate(original, how)) {
    Mutant m = common;
    m.parameters = found.steps;
    m.share = found.share();
    m.method = found.where[0].method;
    if (found.equal()) {
      m.outcome = Mutant::Outcome::equal;
      if (!judge.too_dear(found.program, true, site.seconds, m))
        proven.push_back(rule_between(kGenerated, original, found.program));
    } else if (judge.corrects()) {
      judge.correct(original, found.program, site.seconds, m, proven);
    } else {
      m.reason = "differs somewhere";
    }
    report.push_back(std::move(m));
  }
}

// A bug in one mutation costs its mutants of this site.
template <class Work>
void contained(const std::string& mutation, const PricedNode& site, MutateReport& facts,
               const Work& work) {
  if (auto fault = fault_of(work))
    facts.faults.push_back(str("mutation ", mutation, " of ", text_of(site), ": ", *fault));
}

}  // namespace

std::string_view to_text(Mutant::Outcome o) {
  static constexpr std::string_view kNames[] = {"equal", "corrected", "refused"};
  return kNames[static_cast<size_t>(o)];
}

void MutateReport::add(MutateReport more) {
  std::ranges::move(more.mutants, std::back_inserter(mutants));
  seconds += more.seconds;
  pricing_seconds += more.pricing_seconds;
  proofs += more.proofs;
  known += more.known;
  std::ranges::move(more.faults, std::back_inserter(faults));
}

std::vector<Rule> mutate(const std::vector<PricedNode>& sites, const MutateOptions& options,
                         MutateReport* report) {
  auto start = std::chrono::steady_clock::now();
  auto seconds_since = [](std::chrono::steady_clock::time_point from) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  MutateReport facts;
  MutateOptions timed = options;
  if (options.price) {
    timed.price = [&](const Graph& mutant, const std::vector<bool>& weights, bool exact) {
      auto asked = std::chrono::steady_clock::now();
      double price = options.price(mutant, weights, exact);
      facts.pricing_seconds += seconds_since(asked);
      return price;
    };
  }
  std::vector<Rule> proven;
  for (const PricedNode& site : sites) {
    for (const Mutation& m : options.mutations.empty() ? all_mutations() : options.mutations) {
      if (options.monitor.stop_requested()) break;
      if (!is_enabled(m.rule.name, options.enable, options.disable)) continue;
      contained(m.rule.name, site, facts, [&] {
        Trial trial(m, site, timed, facts);
        if (trial.bind()) trial.run(proven, facts.mutants);
      });
    }
    if (options.generate && is_enabled(kGenerated, options.enable, options.disable))
      contained(kGenerated, site, facts, [&] { try_generated(site, timed, proven, facts); });
  }
  facts.seconds = seconds_since(start);
  if (report) *report = std::move(facts);
  return proven;
}

}  // namespace emend
