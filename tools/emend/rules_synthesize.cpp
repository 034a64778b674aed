#include "rules_synthesize.h"

#include <algorithm>
#include <iostream>

#include "base/text.h"
#include "synthesize/axioms.h"
#include "synthesize/synthesize.h"

namespace emend {
namespace {

std::vector<Menu> menus_named(const std::string& glob, int operators) {
  std::vector<Menu> out;
  std::string names;
  for (const Menu& m : default_menus()) {
    names += " " + m.name;
    if (!glob_match(glob, m.name)) continue;
    out.push_back(m);
    if (operators > 0) out.back().operators = operators;
  }
  if (out.empty()) throw UsageError{str("no menu is called ", glob, "; there are", names)};
  return out;
}

std::vector<OpId> operators_of(const std::vector<Menu>& menus) {
  std::vector<OpId> out;
  for (const Menu& m : menus) {
    for (const std::string& text : m.operations) {
      Variables variables;
      OpId op = parse_pattern(text, variables).op;
      if (std::find(out.begin(), out.end(), op) == out.end()) out.push_back(op);
    }
  }
  return out;
}

Json facts_of(const Found& f) {
  Json j = Json::object();
  j["name"] = f.name;
  j["menu"] = f.menu;
  j["left"] = to_text(f.equation.left, f.equation.variables);
  j["right"] = to_text(f.equation.right, f.equation.variables);
  j["operands"] = Json::array();
  for (const Input& in : f.equation.operands) j["operands"].push(to_text(in));
  j["where"] = Json::array();
  for (const AttrExpr& w : f.equation.where) j["where"].push(to_text(w, f.equation.variables));
  j["passed"] = f.passed;
  j["failed_without_condition"] = f.failed;
  return j;
}

Json facts_of(const MenuReport& m) {
  Json j = Json::object();
  j["name"] = m.name;
  j["terms"] = m.terms;
  j["kept"] = m.kept;
  j["candidates"] = m.candidates;
  j["derivable"] = m.derivable;
  j["refuted"] = m.refuted;
  j["accepted"] = m.accepted;
  j["complete"] = m.complete;
  return j;
}

Json facts_of(const AxiomReport& a) {
  Json j = Json::object();
  j["name"] = a.name;
  j["standing"] = to_text(a.standing);
  j["axiom"] = a.text;
  j["missing"] = Json::array();
  for (const std::string& m : a.missing) j["missing"].push(m);
  return j;
}

void print(const SynthesizeReport& r, bool refuted) {
  for (const Found& f : r.found) {
    std::string name = f.name;
    name.resize(std::max<size_t>(20, name.size() + 1), ' ');
    std::cout << name << to_text(f.equation) << '\n';
  }
  if (!refuted) return;
  for (const std::string& text : r.refuted) std::cout << "refuted             " << text << '\n';
}

// Which of TASO's axioms there are, as text (unless only JSON is wanted) and as facts.
void report_axioms(const SynthesizeReport& r, uint64_t seed, bool text, Json& facts) {
  std::vector<Equation> equations;
  for (const Found& f : r.found) equations.push_back(f.equation);
  auto axioms = compare_axioms(taso_axioms(), equations, rules_of(r.found),
                               {.nodes = 20000, .iterations = 10}, seed);
  int there = 0, trivial = 0;
  facts["axioms"] = Json::array();
  for (const AxiomReport& a : axioms) {
    facts["axioms"].push(facts_of(a));
    there += a.standing == Standing::same || a.standing == Standing::follows;
    trivial += a.standing == Standing::trivial;
    if (!text) continue;
    std::string standing(to_text(a.standing));
    standing.resize(10, ' ');
    std::cout << standing << a.name << "  " << a.text << '\n';
    for (const std::string& m : a.missing) std::cout << "            not " << m << '\n';
  }
  facts["axioms_found"] = there;
  facts["axioms_trivial"] = trivial;
  if (!text) return;
  auto percent = 100 * there / static_cast<int>(axioms.size());
  std::cout << str(there, " of ", axioms.size(), " axioms found (", percent, " %), ", trivial,
                   " more says nothing in these operators\n");
}

}  // namespace

void add_synthesize_options(CLI::App& command, SynthesizeVerbOptions& options) {
  command.add_option("--operators", options.operators, "synthesize: of a term, at most")
      ->check(CLI::Range(1, 4));
  command.add_option("--report", options.against, "synthesize: which axioms of this were found")
      ->check(CLI::IsMember({"taso"}));
  command.add_flag("--new", options.only_new, "synthesize: only what the table does not imply");
  command.add_flag("--refuted", options.refuted, "synthesize: also what was refuted, and why");
}

int synthesize_rules(const std::string& menus, const SynthesizeVerbOptions& options,
                     const Globals& globals) {
  SynthesizeOptions o{.menus = menus_named(menus, options.operators),
                      .seed = globals.seed + 1,
                      .monitor = globals.monitor};
  if (options.only_new) o.known = directed(all_rules(), operators_of(o.menus));
  SynthesizeReport r = synthesize(o);
  globals.finish_progress();
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["found"] = Json::array();
  for (const Found& f : r.found) facts["found"].push(facts_of(f));
  facts["menus"] = Json::array();
  int64_t terms = 0, candidates = 0;
  for (const MenuReport& m : r.menus) {
    facts["menus"].push(facts_of(m));
    terms += m.terms;
    candidates += m.candidates;
  }
  facts["refuted"] = Json::array();
  for (const std::string& text : r.refuted) facts["refuted"].push(text);
  facts["evaluations"] = r.evaluations;
  bool text = globals.json != "-";
  if (text) print(r, options.refuted);
  if (options.against == "taso") report_axioms(r, o.seed, text, facts);
  globals.report(facts);
  globals.say(str(r.found.size(), " equations from ", terms, " terms and ", candidates,
                  " agreements among them"));
  return r.interrupted ? kInterrupted : kOk;
}

}  // namespace emend
