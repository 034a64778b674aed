// TENSAT's comparison, run again: its own configuration, the sequential search that it was measured
// against, and ours, on its seven networks, by one price function and with pricing counted apart.
//   make bench-tensat [ARGS="--variants --check --k-multi 2 --alpha 1.05 MODEL ..."]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

struct Options {
  size_t multi_rounds = 1;
  SequentialOptions sequential;
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

// Ours, as `-O2` calls it, but at prices that are all known beforehand, so that one round of
// extraction will do.
struct Ours : Timed {
  double saturate_s = 0, extract_s = 0;
  size_t nodes = 0;
};
Ours ours(const Graph& g, Prices& prices, const Options& options, size_t nodes, bool exact) {
  ImproveOptions defaults;
  defaults.saturate.nodes = nodes;
  Ours out;
  for (int i = 0; i < options.repeats; ++i) {
    SaturateReport report;
    auto egraph = saturate(g, defaults.saturate, &report);
    PricedEGraph problem = problem_of(*egraph, prices, exact);
    validate(problem.problem);
    Stopwatch watch;
    SearchOptions how{.seed = defaults.seed,
                      .starts = 1,
                      .moves = defaults.moves,
                      .patience = 5,
                      .keep = defaults.kept,
                      .tell_apart_by = problem.nuclei};
    auto found = search(problem.problem, how);
    how.start = problem.given(*egraph);
    auto others = search(problem.problem, how);
    if (others[0].cost < found[0].cost) found = std::move(others);
    double extracted = watch.seconds();
    if (i == 0 || report.seconds + extracted < out.seconds) {
      out.saturate_s = report.seconds;
      out.extract_s = extracted;
      out.seconds = report.seconds + extracted;
    }
    out.nodes = report.nodes;
    if (exact && i == 0) {
      out.best = problem.graph_of(*egraph, found[0].choice);
      out.cost = cost_of(out.best, prices);
    }
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

Timed sequential(const Graph& g, Prices& prices, const Options& options, Sequential* facts) {
  Timed out;
  for (int i = 0; i < options.repeats && out.seconds < 2; ++i) {
    *facts = search_sequentially(g, prices, options.sequential);
    out.best = facts->best;
    out.cost = cost_of(out.best, prices);
    out.cut_short = facts->out_of_time;
    if (i == 0 || facts->seconds < out.seconds) out.seconds = facts->seconds;
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

int run(const Options& options) {
  std::printf(
      "cost: sum of the operators' prices, ms; s: without pricing; *: cut short by the limit "
      "of time\n");
  std::printf("%-16s %9s | %9s %8s %8s | %9s %8s %4s %8s | %9s %8s %8s %8s | %8s %8s | %8s\n", "",
              "before", "TENSAT", "explore", "extract", "TASO", "s", "out", "tried", "ours",
              "saturate", "extract", "ms", "TENSAT/", "TASO/", "tenfold s");
  double logs = 0;
  int wins_cost = 0, wins_time = 0, wins_tenfold = 0;
  for (const std::string& name : options.models) {
    Graph g = simplify(build_zoo(name).graph, {.finish = false});
    Prices prices;
    double before = cost_of(g, prices);
    std::printf("%-16s %9.3f |", name.c_str(), 1e3 * before);
    std::fflush(stdout);
    Tensat t = tensat(g, prices, options);
    std::printf(" %9.3f%s %7.3f %8.3f |", 1e3 * t.cost, t.cut_short ? "*" : " ", t.explore_s,
                t.extract_s);
    std::fflush(stdout);
    Sequential facts;
    Timed s = sequential(g, prices, options, &facts);
    std::printf(" %9.3f%s %7.3f %4d %8zu |", 1e3 * s.cost, s.cut_short ? "*" : " ", s.seconds,
                facts.taken, facts.tried);
    std::fflush(stdout);
    size_t nodes = SaturateOptions().nodes;
    Ours o = ours(g, prices, options, nodes, true);
    Ours tenfold = ours(g, prices, options, 10 * nodes, false);
    std::printf(" %9.3f %8.1f %8.1f %8.1f | %8.1f %8.1f | %8.3f\n", 1e3 * o.cost,
                1e3 * o.saturate_s, 1e3 * o.extract_s, 1e3 * o.seconds, t.seconds / o.seconds,
                s.seconds / o.seconds, tenfold.seconds);
    if (options.check) {
      std::printf("    equal to the model: TENSAT's %s, TASO's %s, ours %s\n",
                  std::string(to_text(compare(g, t.best).kind)).c_str(),
                  std::string(to_text(compare(g, s.best).kind)).c_str(),
                  std::string(to_text(compare(g, o.best).kind)).c_str());
    }
    std::fflush(stdout);
    logs += std::log(s.seconds / o.seconds);
    wins_cost += o.cost <= kEqual * std::min(t.cost, s.cost);
    wins_time += o.seconds < kMostSeconds;
    wins_tenfold += tenfold.seconds < kMostSecondsTenfold;
  }
  int all = static_cast<int>(options.models.size());
  double ratio = std::exp(logs / all);
  std::printf(
      "at or below both costs: %d of %d; under %.0f ms: %d of %d; ten times the nodes under "
      "%.0f s: %d of %d; sequential over ours, geometric mean: %.1f (wanted %.0f)\n",
      wins_cost, all, 1e3 * kMostSeconds, wins_time, all, kMostSecondsTenfold, wins_tenfold, all,
      ratio, kLeastRatio);
  return wins_cost == all && wins_time == all && wins_tenfold == all && ratio >= kLeastRatio ? 0
                                                                                             : 1;
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
      o.sequential.alpha = value();
    } else if (arg == "--budget") {
      o.sequential.budget = static_cast<int>(value());
    } else if (arg == "--seconds") {
      o.sequential.seconds = value();
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
