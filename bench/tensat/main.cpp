// TENSAT's comparison, run again: its own configuration, the sequential search that it was measured
// against, and ours, on its seven networks, by one price function and with pricing counted apart.
//   make bench-tensat [ARGS="--variants --check --k-multi 2 --alpha 1.1 MODEL ..."]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "equiv/compare.h"
#include "explore.h"
#include "extract/greedy.h"
#include "extract/search.h"
#include "ilp.h"
#include "pipeline/improve.h"
#include "sequential.h"
#include "simplify/simplify.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

// TASO's search, once for each: programs that cost more than the best one enter the queue or not.
// 1.0 is what TENSAT ran it with, 1.05 what TASO's code has where nobody says otherwise.
struct Sequence {
  std::string name;
  SequentialOptions how;
};

struct Options {
  size_t multi_rounds = 1;
  std::vector<Sequence> sequences = {{"alpha 1.0", {.alpha = 1.0}},
                                     {"alpha 1.05", {.alpha = 1.05}}};
  double ilp_seconds = 20;
  int repeats = 3;  // the least time counts
  bool variants = false, check = false;
  std::vector<std::string> models;
};

struct Timed {
  double cost = 0, seconds = 0;
  bool cut_short = false;  // by a limit of time
  Graph best;
};

// A program above this share of the price is no gain, and no reason to go on.
constexpr double kNothing = 0.9995;

// Ours, as `-O2` calls it, but at prices that are all known beforehand, so that one round of
// extraction will do, and without pricing whole programs.
struct Ours : Timed {
  double saturate_s = 0, extract_s = 0;
  size_t nodes = 0;
};
Ours ours(const Graph& g, Prices& prices, const Options& options, size_t nodes, bool exact) {
  ImproveOptions defaults;
  defaults.saturate.nodes = nodes;
  defaults.saturate.seconds_of = [&](const PricedNode& n) { return prices.quick(n); };
  Ours out;
  for (int i = 0; i < options.repeats; ++i) {
    Ours once;
    once.cost = std::numeric_limits<double>::infinity();
    once.best = g;
    for (int pass = 0; pass < defaults.passes; ++pass) {
      SaturateReport report;
      auto egraph = saturate(once.best, defaults.saturate, &report);
      PricedEGraph problem = problem_of(*egraph, prices, exact);
      validate(problem.problem);
      Stopwatch watch;
      SearchOptions how{.seed = defaults.seed,
                        .starts = 1,
                        .moves = defaults.moves,
                        .patience = 5,
                        .start = problem.given(*egraph),
                        .keep = defaults.kept,
                        .tell_apart_by = problem.nuclei};
      auto found = search_from_both(problem.problem, how);
      const FoundSolution& best = *std::ranges::min_element(found, {}, &FoundSolution::cost);
      once.extract_s += watch.seconds();
      once.saturate_s += report.seconds;
      once.nodes = std::max(once.nodes, report.nodes);
      if (best.cost >= kNothing * once.cost) break;
      once.cost = best.cost;
      once.best = problem.graph_of(*egraph, best.choice);
      if (report.stopped == StopReason::saturated) break;
    }
    once.seconds = once.saturate_s + once.extract_s;
    if (exact) once.cost = cost_of(once.best, prices);
    if (i == 0 || once.seconds < out.seconds) out = std::move(once);
    if (out.seconds > 2) break;
  }
  return out;
}

const char* name_of(CycleFilter f) {
  return f == CycleFilter::none ? "none" : f == CycleFilter::vanilla ? "vanilla" : "efficient";
}

// TENSAT's exploration and its integer program without order variables; by our search where there
// is no solver.
struct Tensat : Timed {
  size_t nodes = 0;
  double explore_s = 0, extract_s = 0;
};
Tensat tensat(const Graph& g, Prices& prices, const Options& options) {
  Tensat out;
  for (int i = 0; i < options.repeats && out.seconds < 2; ++i) {
    Explored e = explore(g, {.multi_rounds = options.multi_rounds});
    PricedEGraph p = problem_of(*e.egraph, prices, true, e.blacklist);
    validate(p.problem);
    std::vector<uint32_t> choice;
    Stopwatch watch;
    bool optimal = false;
    if (ilp_available()) {
      IlpAnswer answer = extract_by_ilp(p.problem, false, options.ilp_seconds);
      choice = answer.choice;
      optimal = answer.optimal;
    }
    // What the solver has when its time is up may be nothing, or worse than what anybody finds.
    if (!optimal) {
      auto found = search(p.problem, {});
      if (choice.empty() || found[0].cost < cost_of(p.graph_of(*e.egraph, choice), prices))
        choice = found[0].choice;
    }
    double extracted = watch.seconds();
    out.cut_short = ilp_available() && !optimal;
    out.best = p.graph_of(*e.egraph, choice);
    out.cost = cost_of(out.best, prices);
    out.nodes = e.egraph->engine().node_count();
    if (i == 0 || e.seconds + extracted < out.seconds) {
      out.seconds = e.seconds + extracted;
      out.explore_s = e.seconds;
      out.extract_s = extracted;
    }
  }
  return out;
}

struct Taso : Timed {
  int taken = 0;
  size_t tried = 0;
};
Taso sequential(const Graph& g, Prices& prices, const SequentialOptions& how, int repeats) {
  Taso out;
  for (int i = 0; i < repeats && out.seconds < 2; ++i) {
    Sequential facts = search_sequentially(g, prices, how);
    if (i == 0 || facts.seconds < out.seconds) out.seconds = facts.seconds;
    out.best = std::move(facts.best);
    out.cost = cost_of(out.best, prices);
    out.cut_short = facts.out_of_time;
    out.taken = facts.taken;
    out.tried = facts.tried;
  }
  return out;
}

// Every way to explore and to extract.
void print_variants(const std::string& name, const Graph& g, Prices& prices,
                    const Options& options) {
  for (size_t k : {size_t{1}, size_t{2}}) {
    for (CycleFilter f : {CycleFilter::vanilla, CycleFilter::efficient, CycleFilter::none}) {
      Explored e = explore(g, {.multi_rounds = k, .filter = f});
      std::printf(
          "%-16s k=%zu %-9s | %6zu e-nodes %2zu rounds %-10s %5zu pairs %5zu refused "
          "%4zu cut %8.3f s |",
          name.c_str(), k, name_of(f), e.egraph->engine().node_count(), e.rounds,
          std::string(to_text(e.stopped)).c_str(), e.pairs, e.refused, e.blacklist.size(),
          e.seconds);
      std::fflush(stdout);
      if (f == CycleFilter::vanilla) {  // extracted as what the efficient filter leaves
        std::printf("\n");
        continue;
      }
      PricedEGraph p = problem_of(*e.egraph, prices, true, e.blacklist);
      validate(p.problem);
      auto print = [&](const char* how, const std::vector<uint32_t>& choice, double seconds,
                       bool optimal) {
        if (choice.empty()) {
          std::printf(" %s - in %.3f s", how, seconds);
        } else {
          std::printf(" %s %.3f%s in %.3f s", how,
                      1e3 * cost_of(p.graph_of(*e.egraph, choice), prices), optimal ? "" : "*",
                      seconds);
        }
        std::fflush(stdout);
      };
      Stopwatch greedy;
      auto choice = greedy_tree(p.problem);
      print("greedy", choice, greedy.seconds(), true);
      Stopwatch searching;
      auto found = search(p.problem, {});
      print("| search", found[0].choice, searching.seconds(), true);
      if (ilp_available()) {
        bool ordered = f == CycleFilter::none;
        IlpAnswer answer = extract_by_ilp(p.problem, ordered, options.ilp_seconds);
        print(ordered ? "| ILP with order" : "| ILP", answer.choice, answer.seconds,
              answer.optimal);
      }
      std::printf("\n");
    }
  }
}

constexpr double kMostSeconds = 0.050, kMostSecondsTenfold = 1.0, kLeastRatio = 48;
// Costs this close are equal: sums of doubles in another order.
constexpr double kEqual = 1 + 1e-9;

// What all were found to do on one network.
struct Row {
  std::string name;
  double before = 0;
  Tensat tensat;
  std::vector<Taso> tasos;  // as Options::sequences
  Ours ours, tenfold;
  double ratio(size_t sequence) const { return tasos[sequence].seconds / ours.seconds; }
};

Row raced(const std::string& name, const Options& options) {
  Graph g = simplify(build_zoo(name).graph, {.finish = false});
  Prices prices;
  Row row{.name = name, .before = cost_of(g, prices)};
  row.tensat = tensat(g, prices, options);
  for (const Sequence& s : options.sequences)
    row.tasos.push_back(sequential(g, prices, s.how, options.repeats));
  size_t nodes = SaturateOptions().nodes;
  row.ours = ours(g, prices, options, nodes, true);
  row.tenfold = ours(g, prices, options, 10 * nodes, false);
  if (!options.check) return row;
  auto verdict = [&](const Graph& best) { return std::string(to_text(compare(g, best).kind)); };
  std::printf("%s equals the model: TENSAT's %s, ours %s", name.c_str(),
              verdict(row.tensat.best).c_str(), verdict(row.ours.best).c_str());
  for (size_t i = 0; i < row.tasos.size(); ++i)
    std::printf(", TASO's (%s) %s", options.sequences[i].name.c_str(),
                verdict(row.tasos[i].best).c_str());
  std::printf("\n");
  return row;
}

void print_head(const Options& options) {
  std::printf(
      "cost: sum of the operators' prices, ms; s: without pricing; *: cut short by the limit "
      "of time\n%-16s %9s | %9s %8s %8s | %9s %8s %8s %8s %9s",
      "", "before", "TENSAT", "explore", "extract", "ours", "saturate", "extract", "ms",
      "tenfold s");
  for (const Sequence& s : options.sequences)
    std::printf(" | %-11s %8s %4s %8s %6s", ("TASO " + s.name).c_str(), "s", "out", "tried",
                "/ours");
  std::printf("\n");
}

void print(const Row& r) {
  auto star = [](const Timed& t) { return t.cut_short ? '*' : ' '; };
  std::printf("%-16s %9.3f | %9.3f%c %7.3f %8.3f | %9.3f %8.1f %8.1f %8.1f %9.3f", r.name.c_str(),
              1e3 * r.before, 1e3 * r.tensat.cost, star(r.tensat), r.tensat.explore_s,
              r.tensat.extract_s, 1e3 * r.ours.cost, 1e3 * r.ours.saturate_s,
              1e3 * r.ours.extract_s, 1e3 * r.ours.seconds, r.tenfold.seconds);
  for (size_t i = 0; i < r.tasos.size(); ++i) {
    const Taso& t = r.tasos[i];
    std::printf(" | %15.3f%c %8.3f %4d %8zu %6.1f", 1e3 * t.cost, star(t), t.seconds, t.taken,
                t.tried, r.ratio(i));
  }
  std::printf("\n");
  std::fflush(stdout);
}

double mean_ratio(const std::vector<Row>& rows, size_t sequence) {
  double logs = 0;
  for (const Row& r : rows) logs += std::log(r.ratio(sequence));
  return std::exp(logs / static_cast<double>(rows.size()));
}

int run(const Options& options) {
  print_head(options);
  std::vector<Row> rows;
  for (const std::string& name : options.models) print(rows.emplace_back(raced(name, options)));
  auto count = [&](auto&& holds) { return std::ranges::count_if(rows, holds); };
  auto all = static_cast<ptrdiff_t>(rows.size());
  auto cheapest = count([](const Row& r) {
    auto beaten = [&](const Timed& t) { return r.ours.cost > kEqual * t.cost; };
    return !beaten(r.tensat) && std::ranges::none_of(r.tasos, beaten);
  });
  auto fast = count([](const Row& r) { return r.ours.seconds < kMostSeconds; });
  auto tenfold = count([](const Row& r) { return r.tenfold.seconds < kMostSecondsTenfold; });
  std::printf(
      "at or below all costs: %td of %td; under %.0f ms: %td of %td; ten times the nodes under "
      "%.0f s: %td of %td\nsequential over ours, geometric mean (the paper: %.0f):",
      cheapest, all, 1e3 * kMostSeconds, fast, all, kMostSecondsTenfold, tenfold, all, kLeastRatio);
  bool ratios = true;
  for (size_t i = 0; i < options.sequences.size(); ++i) {
    double ratio = mean_ratio(rows, i);
    std::printf(" %s %.1f", options.sequences[i].name.c_str(), ratio);
    ratios = ratios && ratio >= kLeastRatio;
  }
  std::printf("\n");
  return cheapest == all && fast == all && tenfold == all && ratios ? 0 : 1;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto value = [&] {
      if (++i == argc) throw Error(str(arg, " needs a value"));
      return std::strtod(argv[i], nullptr);
    };
    if (arg == "--variants") {
      o.variants = true;
    } else if (arg == "--check") {
      o.check = true;
    } else if (arg == "--k-multi") {
      o.multi_rounds = static_cast<size_t>(value());
    } else if (arg == "--alpha") {
      double alpha = value();
      o.sequences = {{str("alpha ", alpha), {.alpha = alpha}}};
    } else if (arg == "--budget") {
      auto budget = static_cast<int>(value());
      for (Sequence& s : o.sequences) s.how.budget = budget;
    } else if (arg == "--seconds") {
      double seconds = value();
      for (Sequence& s : o.sequences) s.how.seconds = seconds;
    } else if (arg == "--ilp-seconds") {
      o.ilp_seconds = value();
    } else if (arg == "--repeats") {
      o.repeats = std::max(1, static_cast<int>(value()));
    } else if (arg.starts_with("--")) {
      throw Error(str("unknown option ", arg,
                      "; there are --variants, --check, --k-multi, --alpha, --budget, --seconds, "
                      "--ilp-seconds and --repeats"));
    } else {
      o.models.push_back(arg);
    }
  }
  if (o.models.empty())
    o.models = {"bert_tensat",  "nasrnn",     "resnext50", "nasnet_a_tensat",
                "inception_v3", "squeezenet", "vgg19"};
  return o;
}

}  // namespace
}  // namespace emend

int main(int argc, char** argv) {
  using namespace emend;
  try {
    Options options = parse(argc, argv);
    if (!ilp_available())
      std::printf(
          "no solver in this build (make certify brings it in): TENSAT's extraction is done "
          "by our search\n");
    if (!options.variants) return run(options);
    for (const std::string& name : options.models) {
      Prices prices;
      print_variants(name, simplify(build_zoo(name).graph, {.finish = false}), prices, options);
    }
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 3;
  }
}
