// emend extract EGRAPH.json: extraction alone, on an e-graph in extraction-gym's JSON.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

#include "base/atomic_file.h"
#include "extract/certify.h"
#include "extract/check.h"
#include "extract/greedy.h"
#include "extract/gym.h"
#include "extract/search.h"
#include "interruption.h"
#include "solve/highs.h"
#include "verb.h"

namespace emend {
namespace {

// Of a proof, unless --seconds says otherwise: an integer program may come to no end.
constexpr double kProofSeconds = 300;

struct Options {
  std::string file, out, method = "search";
  double seconds = std::numeric_limits<double>::infinity();
  int64_t moves = SearchOptions().moves;
  int starts = SearchOptions().starts;
  bool certify = false;
};

struct Answer {
  Extraction extraction;
  SearchReport search;
  CertifyReport certify;
  double seconds = 0, certify_seconds = 0;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<uint32_t> choose(const ExtractionProblem& p, const Options& o, const Globals& globals,
                             const Monitor& monitor, SearchReport& report) {
  if (o.method == "greedy-tree") return greedy_tree(p);
  if (o.method == "greedy-dag") return greedy_dag(p);
  const SearchOptions how = {.seed = globals.seed,
                             .starts = o.starts,
                             .moves = o.moves,
                             .seconds = o.seconds,
                             .monitor = monitor};
  return search(p, how, &report)[0].choice;
}

Answer answer(const ExtractionProblem& p, const Options& o, const Globals& globals,
              const Monitor& monitor) {
  Answer a;
  auto begin = std::chrono::steady_clock::now();
  a.extraction.choice = choose(p, o, globals, monitor, a.search);
  a.seconds = seconds_since(begin);
  a.extraction.cost = checked_cost(p, a.extraction.choice).value_or_throw();
  if (!o.certify) return a;
  begin = std::chrono::steady_clock::now();
  const CertifyOptions how = {.seed = globals.seed,
                              .seconds = std::isfinite(o.seconds) ? o.seconds : kProofSeconds,
                              .solver = highs_solver(),
                              .monitor = monitor};
  a.extraction = certify(p, std::move(a.extraction), how, &a.certify);
  a.certify_seconds = seconds_since(begin);
  a.extraction.cost = checked_cost(p, a.extraction.choice).value_or_throw();
  return a;
}

Json facts_of(const ExtractionProblem& p, const Options& o, const Globals& globals,
              const Answer& a) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["path"] = o.file;
  facts["classes"] = p.class_count();
  facts["nodes"] = p.node_count();
  facts["method"] = o.method;
  facts["seed"] = globals.seed;
  facts["cost"] = a.extraction.cost;
  facts["optimal"] = a.extraction.optimal;
  facts["lower_bound"] = o.certify ? Json(a.extraction.lower_bound) : Json();
  facts["seconds"] = a.seconds;
  facts["moves"] = a.search.moves;
  facts["interrupted"] = a.search.interrupted || a.certify.interrupted;
  if (o.certify) {
    facts["certify_seconds"] = a.certify_seconds;
    facts["certified_by"] = a.certify.method;
    facts["branches"] = a.certify.branches;
  }
  return facts;
}

std::string fixed(double v, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

void print(const ExtractionProblem& p, const Options& o, const Answer& a) {
  const Extraction& e = a.extraction;
  size_t picked = 0;
  for (uint32_t n : e.choice) picked += n != kNoNode;
  std::cout << "classes      " << p.class_count() << "\nnodes        " << p.node_count()
            << "\nmethod       " << o.method << "\npicked       " << picked << " nodes"
            << "\ncost         " << number_text(e.cost) << '\n';
  if (o.certify) {
    const double gap = e.cost > 0 ? 100 * (1 - e.lower_bound / e.cost) : 0;
    std::cout << "lower bound  " << number_text(e.lower_bound) << "  "
              << (e.optimal ? "optimal, proven" : str("a gap of ", fixed(gap, 2), " %")) << " by "
              << a.certify.method << " in " << fixed(a.certify_seconds, 3) << " s\n";
  }
  std::cout << "seconds      " << fixed(a.seconds, 4) << '\n';
}

int run(const Options& o, const Globals& globals) {
  require_apart({{"--out", o.out}, {"--json", globals.json}}, o.file);
  const ExtractionProblem p = read_gym(o.file);
  Interruption interruption;
  const Answer a = answer(p, o, globals, globals.monitor.stopped_by(interruption.flag()));
  globals.finish_progress();
  if (!o.out.empty()) {
    AtomicFile file(o.out);
    file.write(choices_json(p, a.extraction.choice).text());
    file.commit();
  }
  if (o.certify && !a.extraction.optimal && !highs_solver()) {
    globals.say(
        "this emend was built without HiGHS, which often closes the gap: run `make certify`");
  }
  if (globals.json != "-") print(p, o, a);
  globals.report(facts_of(p, o, globals, a));
  if (!interruption.requested()) return kOk;
  globals.say("interrupted: this is the best result so far");
  return kInterrupted;
}

}  // namespace

Verb extract_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("extract", "the cheapest terms of an e-graph, sharing counted");
  c->add_option("EGRAPH", o->file, "in extraction-gym's JSON")->required();
  c->add_option("--method", o->method, "search, or one of the baselines greedy-tree and greedy-dag")
      ->check(CLI::IsMember({"search", "greedy-tree", "greedy-dag"}));
  c->add_option("--moves", o->moves, "of each start of the search, at most")
      ->check(CLI::NonNegativeNumber);
  c->add_option("--starts", o->starts, "of the search, spread over threads")
      ->check(CLI::PositiveNumber);
  c->add_option(
       "--seconds", o->seconds,
       "after which the best so far is taken; the same again for the proof (300 if not given)")
      ->check(CLI::NonNegativeNumber);
  c->add_flag("--certify", o->certify, "prove that nothing is cheaper, or print the gap");
  c->add_option("--out", o->out, "write the picked nodes as JSON")->type_name("FILE");
  return {c, [o, &globals] { return run(*o, globals); }};
}

}  // namespace emend
