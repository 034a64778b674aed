// emend rules: what Emend believes to be equal, and whether it is.
#include <iostream>
#include <memory>

#include "mutate/mutation.h"
#include "rules/check.h"
#include "rules_synthesize.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string action = "list", name = "*", theme = "*";
  SynthesizeVerbOptions synthesize;
};

std::vector<const Mutation*> mutations_named(const Options& o) {
  std::vector<const Mutation*> out;
  for (const Mutation& m : all_mutations())
    if (glob_match(o.name, m.rule.name) && glob_match(o.theme, m.rule.theme)) out.push_back(&m);
  return out;
}

// Mutations are looked at beside them, where something is only shown.
std::vector<const Rule*> rules_named(const Options& o, bool or_mutations = false) {
  std::vector<const Rule*> out;
  for (const Rule& r : all_rules()) {
    if (glob_match(o.name, r.name) && glob_match(o.theme, r.theme)) out.push_back(&r);
  }
  if (out.empty() && !(or_mutations && !mutations_named(o).empty())) {
    std::string of_theme = o.theme == "*" ? "" : " of theme " + o.theme;
    throw UsageError{
        str("no rule", of_theme, " is called ", o.name, "; 'emend rules list' prints them")};
  }
  return out;
}

std::string padded(std::string s, size_t width) {
  s.resize(std::max(width, s.size() + 1), ' ');
  return s;
}

Json facts_of(const Rule& r) {
  Json j = Json::object();
  j["name"] = r.name;
  j["theme"] = r.theme;
  j["lhs"] = to_text(r.lhs, r.variables);
  j["rhs"] = to_text(r.rhs, r.variables);
  j["where"] = Json::array();
  for (const AttrExpr& w : r.where) j["where"].push(to_text(w, r.variables));
  j["use"] = to_text(r.use);
  j["both"] = r.both;
  j["numerics"] = to_text(r.numerics);
  return j;
}

// What a mutation leaves open, as its parameters say it.
std::string parameters_of(const Mutation& m) {
  std::string out;
  auto name = [&](int v) {
    return std::string(out.empty() ? "" : ", ") + m.rule.variables.names[static_cast<size_t>(v)];
  };
  for (const Mutation::Choice& c : m.choices)
    out += name(c.variable) + " in " + to_text(c.values, m.rule.variables);
  if (m.solved >= 0) out += name(m.solved) + str(" solved for, up to ", m.most);
  return out;
}

Json facts_of(const Mutation& m) {
  Json j = facts_of(m.rule);
  j["parameters"] = parameters_of(m);
  return j;
}

// A rule in each of its directions.
std::vector<RuleCheck> checks_of(const Rule& r, const Globals& globals) {
  std::vector<RuleCheck> out = {check_rule(r, {.seed = globals.seed + 1})};
  if (r.both) out.push_back(check_rule(reversed(r), {.seed = globals.seed + 1}));
  return out;
}

std::string methods_of(const RuleCheck& c) {
  std::string methods;
  for (const std::string& m : c.methods) methods += (methods.empty() ? "" : ",") + m;
  return methods;
}

Json facts_of(const RuleCheck& c) {
  Json j = Json::object();
  j["holds"] = c.holds;
  j["assignments"] = c.assignments;
  j["method"] = methods_of(c);
  j["twins"] = c.twins;
  j["twins_refuted"] = c.refuted;
  j["reason"] = c.reason;
  return j;
}

std::string evidence(const RuleCheck& c) {
  return str(c.assignments, " shapes, ", c.refuted, " of ", c.twins, " twins refuted",
             c.holds ? "" : ": ", c.reason);
}

// One line of text per rule, under the names of their themes.
int list(const Options& o, const Globals& globals) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["rules"] = Json::array();
  std::string theme;
  facts["mutations"] = Json::array();
  for (const Rule* r : rules_named(o, true)) {
    facts["rules"].push(facts_of(*r));
    if (globals.json == "-") continue;
    if (r->theme != theme) std::cout << (theme.empty() ? "" : "\n") << r->theme << '\n';
    theme = r->theme;
    std::cout << "  " << padded(r->name, 28) << padded(std::string(to_text(r->use)), 8)
              << (r->numerics == Numerics::exact ? "" : "~ ") << to_text(*r) << '\n';
  }
  bool first = true;
  for (const Mutation* m : mutations_named(o)) {
    facts["mutations"].push(facts_of(*m));
    if (globals.json == "-") continue;
    if (first) {
      std::cout << (theme.empty() ? "" : "\n")
                << "mutation (equal somewhere; where, is proven for every mutant)\n";
    }
    first = false;
    const std::string open = parameters_of(*m);
    std::cout << "  " << padded(m->rule.name, 28) << padded("search", 8) << "~ " << to_text(m->rule)
              << (open.empty() ? "" : "; " + open) << '\n';
  }
  globals.report(facts);
  return kOk;
}

void print(const Rule& r) {
  std::cout << r.name << " (" << r.theme << ")\n  " << to_text(r.lhs, r.variables)
            << (r.both ? "\n  = " : "\n  -> ") << to_text(r.rhs, r.variables) << '\n';
  for (const AttrExpr& w : r.where) std::cout << "  where " << to_text(w, r.variables) << '\n';
  std::cout << "  use: " << to_text(r.use) << "; numerics: " << to_text(r.numerics) << '\n';
  if (!r.draw.empty()) std::cout << "  checked at " << r.draw << '\n';
}

// All there is to say, and why it is believed.
int show(const Options& o, const Globals& globals) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["rules"] = Json::array();
  facts["mutations"] = Json::array();
  for (const Mutation* m : mutations_named(o)) {
    facts["mutations"].push(facts_of(*m));
    if (globals.json == "-") continue;
    print(m->rule);
    if (std::string open = parameters_of(*m); !open.empty())
      std::cout << "  parameters: " << open << '\n';
    std::cout << "  every mutant is proven, or repaired, before it is used\n";
  }
  for (const Rule* r : rules_named(o, true)) {
    Json& j = facts["rules"].push(facts_of(*r));
    j["checks"] = Json::array();
    if (globals.json != "-") print(*r);
    bool back = false;
    for (const RuleCheck& c : checks_of(*r, globals)) {
      j["checks"].push(facts_of(c));
      if (globals.json == "-") continue;
      std::cout << (back ? "  right to left: " : "  evidence: ") << (c.holds ? "holds" : "FAILS")
                << " (" << methods_of(c) << "), " << evidence(c) << '\n';
      back = true;
    }
  }
  globals.report(facts);
  return kOk;
}

int check(const Options& o, const Globals& globals) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["rules"] = Json::array();
  int bad = 0, directions = 0;
  auto rules = rules_named(o);
  int64_t done = 0;
  for (const Rule* r : rules) {
    globals.monitor.tell({"check", done++, static_cast<int64_t>(rules.size())});
    bool holds = true, back = false;
    for (const RuleCheck& c : checks_of(*r, globals)) {
      ++directions;
      holds &= c.holds;
      Json j = facts_of(c);
      j["name"] = c.name;
      j["back"] = back;
      facts["rules"].push(std::move(j));
      if (globals.json != "-") {
        globals.finish_progress();
        std::cout << padded(c.name + (back ? " (back)" : ""), 34)
                  << padded(c.holds ? "holds" : "FAILS", 7) << padded(methods_of(c), 16)
                  << evidence(c) << '\n';
      }
      back = true;
    }
    bad += !holds;
  }
  facts["checked"] = rules.size();
  facts["directions"] = directions;
  facts["failed"] = bad;
  globals.report(facts);
  globals.say(bad ? str("FAILED: ", bad, " of ", rules.size(), " rules do not hold")
                  : str("PASSED: ", rules.size(), " rules hold in ", directions,
                        " directions, and the check tells them from wrong ones"));
  return bad ? kDifferent : kOk;
}

}  // namespace

Verb rules_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      app.add_subcommand("rules", "the table of rewrite rules: list, show, check, synthesize");
  c->add_option("ACTION", o->action, "list, show, check or synthesize")
      ->check(CLI::IsMember({"list", "show", "check", "synthesize"}));
  c->add_option("NAME", o->name, "of rules (menus for synthesize); * and ? stand for anything");
  add_synthesize_options(*c, o->synthesize);
  c->add_option("--theme", o->theme, "only rules of this theme: algebra, movement, merge ...");
  return {c, [o, &globals] {
            if (o->action == "show") return show(*o, globals);
            if (o->action == "check") return check(*o, globals);
            if (o->action == "synthesize") return synthesize_rules(o->name, o->synthesize, globals);
            return list(*o, globals);
          }};
}

}  // namespace emend
