// emend rules: what Emend believes to be equal, and whether it is.
#include <iostream>
#include <memory>

#include "rules/check.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string action = "list", name = "*";
};

std::vector<const Rule*> rules_named(const std::string& glob) {
  std::vector<const Rule*> out;
  for (const Rule& r : all_rules()) {
    if (glob_match(glob, r.name)) out.push_back(&r);
  }
  if (out.empty())
    throw UsageError{str("no rule is called ", glob, "; 'emend rules list' prints them")};
  return out;
}

std::string padded(std::string s, size_t width) {
  s.resize(std::max(width, s.size() + 1), ' ');
  return s;
}

Json facts_of(const Rule& r) {
  Json j = Json::object();
  j["name"] = r.name;
  j["lhs"] = to_text(r.lhs, r.variables);
  j["rhs"] = to_text(r.rhs, r.variables);
  j["where"] = Json::array();
  for (const AttrExpr& w : r.where) j["where"].push(to_text(w, r.variables));
  j["use"] = to_text(r.use);
  j["both"] = r.both;
  j["numerics"] = to_text(r.numerics);
  return j;
}

// One line of text.
void list(const Rule& r) {
  std::cout << padded(r.name, 28) << padded(std::string(to_text(r.use)), 8)
            << (r.numerics == Numerics::exact ? "" : "~ ") << to_text(r) << '\n';
}

// All there is to say.
void show(const Rule& r) {
  std::cout << r.name << "\n  " << to_text(r.lhs, r.variables) << (r.both ? "\n  = " : "\n  -> ")
            << to_text(r.rhs, r.variables) << '\n';
  for (const AttrExpr& w : r.where) std::cout << "  where " << to_text(w, r.variables) << '\n';
  std::cout << "  use: " << to_text(r.use) << "; numerics: " << to_text(r.numerics) << '\n';
  if (!r.draw.empty()) std::cout << "  checked at " << r.draw << '\n';
}

int tell(const Options& o, const Globals& globals, void (*print)(const Rule&)) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["rules"] = Json::array();
  for (const Rule* r : rules_named(o.name)) {
    facts["rules"].push(facts_of(*r));
    if (globals.json != "-") print(*r);
  }
  globals.report(facts);
  return kOk;
}

int check(const Options& o, const Globals& globals) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["rules"] = Json::array();
  int bad = 0;
  auto rules = rules_named(o.name);
  int64_t done = 0;
  for (const Rule* r : rules) {
    globals.monitor.tell({"check", done++, static_cast<int64_t>(rules.size())});
    RuleCheck c = check_rule(*r, {.seed = globals.seed + 1});
    bad += !c.holds;
    std::string methods;
    for (const std::string& m : c.methods) methods += (methods.empty() ? "" : ",") + m;
    Json j = Json::object();
    j["name"] = c.name;
    j["holds"] = c.holds;
    j["assignments"] = c.assignments;
    j["method"] = methods;
    j["twins"] = c.twins;
    j["twins_refuted"] = c.refuted;
    j["reason"] = c.reason;
    facts["rules"].push(std::move(j));
    if (globals.json == "-") continue;
    globals.finish_progress();
    std::cout << padded(c.name, 28) << padded(c.holds ? "holds" : "FAILS", 7) << padded(methods, 16)
              << str(c.assignments, " shapes, ", c.refuted, " of ", c.twins, " twins refuted");
    if (!c.holds) std::cout << ": " << c.reason;
    std::cout << '\n';
  }
  facts["checked"] = rules.size();
  facts["failed"] = bad;
  globals.report(facts);
  globals.say(
      bad ? str("FAILED: ", bad, " of ", rules.size(), " rules do not hold")
          : str("PASSED: ", rules.size(), " rules hold, and the check tells them from wrong ones"));
  return bad ? kDifferent : kOk;
}

}  // namespace

Verb rules_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("rules", "the table of rewrite rules: list, show, check");
  c->add_option("ACTION", o->action, "list, show or check")
      ->check(CLI::IsMember({"list", "show", "check"}));
  c->add_option("NAME", o->name, "of rules; * and ? stand for anything");
  return {c, [o, &globals] {
            if (o->action == "show") return tell(*o, globals, show);
            if (o->action == "check") return check(*o, globals);
            return tell(*o, globals, list);
          }};
}

}  // namespace emend
