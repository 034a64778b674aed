// PET's optimizer, run again on our prices, beside our own search: its five models and its operator
// cases, its ablations (equivalent mutants only, others only, both; depth and rounds; the manager).
//   make bench-pet [ARGS="--depth 4 --rounds 4 --ablation --check --json FILE --update-docs MODEL
//   .."]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>

#include "base/atomic_file.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/text.h"
#include "equiv/compare.h"
#include "ops/contraction.h"
#include "pet/search.h"
#include "pipeline/compile.h"
#include "pipeline/improve.h"
#include "simplify/simplify.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

struct Options {
  PetOptions pet;
  bool ablation = false, check = false, update_docs = false;
  std::string json;
  std::vector<std::string> models;
};

// --- What is compared ---

Graph parallel(const Dims& x, const std::string& op, const std::vector<Dims>& weights,
               Attrs attrs) {
  GraphBuilder b;
  NodeId in = b.input("x", Type::tensor(DType::f32, x));
  Rng rng(1);
  for (size_t i = 0; i < weights.size(); ++i) {
    std::vector<double> values(static_cast<size_t>(count(weights[i])));
    for (double& v : values) v = static_cast<double>(rng.between(-8, 8));
    NodeId w = b.constant(Tensor::of_reals(DType::f32, weights[i], values));
    b.output(str("y", i), b.op(op, std::vector{in, w}, attrs));
  }
  return std::move(b).build();
}

// The operator cases of the paper's tables 3 and 4. No two have the same weights, or they would be
// one operator.
const std::vector<std::pair<std::string, std::function<Graph()>>>& operator_cases() {
  static const std::vector<std::pair<std::string, std::function<Graph()>>> kCases = {
      {"conv 5x5, 48 to 64, 38x38",
       [] {
         return parallel({1, 48, 38, 38}, "conv", {{64, 48, 5, 5}},
                         to_attrs(Conv{{1, 1}, {1, 1}, {2, 2, 2, 2}, 1}));
       }},
      {"conv 3x3, dilation 2, 512 to 256, 14x14",
       [] {
         return parallel({1, 512, 14, 14}, "conv", {{256, 512, 3, 3}},
                         to_attrs(Conv{{1, 1}, {2, 2}, {2, 2, 2, 2}, 1}));
       }},
      {"2 + 2 convs 1x1, 768 to 192 and 160, 18x18",
       [] {
         return parallel({1, 768, 18, 18}, "conv",
                         {{192, 768, 1, 1}, {192, 768, 1, 1}, {160, 768, 1, 1}, {160, 768, 1, 1}},
                         to_attrs(Conv{{1, 1}, {1, 1}, {0, 0, 0, 0}, 1}));
       }},
      {"3 products 512x768x768",
       [] {
         return parallel({512, 768}, "matmul", {{768, 768}, {768, 768}, {768, 768}}, {});
       }},
  };
  return kCases;
}

Graph program_named(const std::string& name) {
  for (const auto& [known, make] : operator_cases())
    if (known == name) return make();
  return simplify(build_zoo(name).graph, {.finish = false});
}

// --- One program, by everybody ---

struct Found {
  double nodes_s = 0;     // the sum of its operators' prices
  double compiled_s = 0;  // as fuse and select would compile it
  double search_s = 0;    // without pricing
  std::vector<std::string> mutants;
};

struct Row {
  std::string name;
  std::vector<Found> found;  // as kColumns
};
const std::vector<std::string> kColumns = {"original", "PET, equivalent",    "PET, others",
                                           "PET",      "Emend, no mutation", "Emend"};

class Comparison {
 public:
  explicit Comparison(const Options& options)
      : options_(options), prices_(cpu_seconds), whole_(back_end_prices(target_here())) {}

  Row row(const std::string& name) {
    const Graph g = program_named(name);
    Row r{name, {}};
    r.found.push_back(priced(g));
    Mutator mutator(options_.pet, prices_);  // mutants of both kinds serve all three
    for (auto [equivalent, others] : {std::pair{true, false}, {false, true}, {true, true}}) {
      PetOptions how = options_.pet;
      how.equivalent = equivalent;
      how.others = others;
      PetResult pet = pet_search(g, how, mutator, prices_);
      Found f = priced(pet.best);
      f.nodes_s = pet.cost;
      f.search_s = pet.seconds + mutator.seconds();
      f.mutants = pet.mutants;
      r.found.push_back(std::move(f));
      check(g, pet.best, name);
    }
    for (double from : {2.0, ImproveOptions().mutate_from}) {
      double pricing = 0;
      Stopwatch watch(cpu_seconds);
      Graph best = improve(g, {.mutate_from = from, .prices = timed(whole_, pricing)});
      double search = watch.seconds() - pricing;
      Found f = priced(best);
      f.search_s = search;
      r.found.push_back(std::move(f));
      check(g, best, name);
    }
    return r;
  }

  // PET with both kinds of mutants, at some depth and with some rounds.
  Found pet(const Graph& g, const PetOptions& how) {
    Mutator mutator(how, prices_);
    PetResult r = pet_search(g, how, mutator, prices_);
    Found f = priced(r.best);
    f.nodes_s = r.cost;
    f.search_s = r.seconds + mutator.seconds();
    return f;
  }

 private:
  // The same prices, and how long it took to ask for them.
  static SearchPrices timed(const SearchPrices& from, double& seconds) {
    auto timed = [&seconds](auto ask) {
      return [ask, &seconds](const auto&... what) {
        Stopwatch watch(cpu_seconds);
        auto answer = ask(what...);
        seconds += watch.seconds();
        return answer;
      };
    };
    SearchPrices to = from;
    to.quick = timed(from.quick);
    to.exact = timed(from.exact);
    to.programs = timed(from.programs);
    return to;
  }
  Found priced(const Graph& g) {
    return {cost_of(g, prices_), whole_.programs(std::span(&g, 1), {})[0]};
  }
  void check(const Graph& g, const Graph& better, const std::string& name) const {
    if (!options_.check) return;
    auto answer = compare(g, better);
    if (to_text(answer.kind) == "different") throw Error(str(name, ": another program was found"));
  }

  const Options& options_;
  Prices prices_;
  SearchPrices whole_;
};

// --- Tables ---

std::string ms(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", 1e3 * seconds);
  return text;
}

std::string rounded(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

std::string line(const std::vector<std::string>& cells) {
  return "| " + join(cells, " | ") + " |\n";
}

std::string head(const std::string& first, const std::vector<std::string>& columns) {
  std::vector<std::string> names = {first}, under = {"---"};
  for (const std::string& c : columns) {
    names.push_back(c);
    under.push_back("---:");
  }
  return line(names) + line(under);
}

std::string model_tables(const std::vector<Row>& rows) {
  auto table = [&](const char* what, auto value, size_t from) {
    std::string out = head(what, {kColumns.begin() + static_cast<ptrdiff_t>(from), kColumns.end()});
    for (const Row& r : rows) {
      std::vector<std::string> cells = {r.name};
      for (size_t i = from; i < r.found.size(); ++i) cells.push_back(value(r.found[i]));
      out += line(cells);
    }
    return out + "\n";
  };
  return table(
             "as compiled, ms", [](const Found& f) { return ms(f.compiled_s); }, 0) +
         table(
             "sum of operators, ms", [](const Found& f) { return ms(f.nodes_s); }, 0) +
         table(
             "search without pricing, s of a core",
             [](const Found& f) { return rounded(f.search_s); }, 1);
}

const char* const kAblated = "csrnet_pet";

std::string ablation_tables(Comparison& comparison, const PetOptions& given, Json& json) {
  const Graph g = program_named(kAblated);
  std::vector<std::string> columns;
  for (size_t rounds = 1; rounds <= 4; ++rounds)
    columns.push_back(str(rounds, rounds == 1 ? " round" : " rounds"));
  std::string out = head(str(kAblated, ", sum of operators, ms (search, s)"), columns);
  PetOptions how = given;
  auto cell = [&](const char* what) {
    Found f = comparison.pet(g, how);
    Json& j = json["ablation"].push(Json::object());
    j["what"] = what;
    j["depth"] = how.depth;
    j["rounds"] = how.rounds;
    j["manager"] = how.manager;
    j["nodes_s"] = f.nodes_s;
    j["compiled_s"] = f.compiled_s;
    j["search_s"] = f.search_s;
    return str(ms(f.nodes_s), " (", rounded(f.search_s), ")");
  };
  for (how.depth = 2; how.depth <= 4; ++how.depth) {
    std::vector<std::string> cells = {str("depth ", how.depth)};
    for (how.rounds = 1; how.rounds <= 4; ++how.rounds) {
      cells.push_back(cell("depth and rounds"));
      std::fprintf(stderr, "depth %zu, rounds %zu: %s\n", how.depth, how.rounds,
                   cells.back().c_str());
    }
    out += line(cells);
  }
  out += "\n" + head(str(kAblated, ", sum of operators, ms (search, s)"), {"price and search"});
  how = given;
  for (bool manager : {true, false}) {
    how.manager = manager;
    out += line({manager ? "manager on" : "manager off", cell("manager")});
  }
  return out + "\n";
}

// What stands between the two marks of that name becomes `text`.
void update(std::string& document, const std::string& mark, const std::string& text) {
  const std::string begin = str("<!-- ", mark, " -->\n"), end = str("<!-- end of ", mark, " -->");
  size_t from = document.find(begin), to = document.find(end);
  if (from == std::string::npos || to == std::string::npos)
    throw Error(str("docs/pet.md has no place for ", mark));
  document.replace(from + begin.size(), to - from - begin.size(), text);
}

int run(const Options& options) {
  Comparison comparison(options);
  std::vector<Row> rows;
  Json json = Json::object();
  json["depth"] = options.pet.depth;
  json["rounds"] = options.pet.rounds;
  for (const std::string& name : options.models) {
    rows.push_back(comparison.row(name));
    std::fprintf(stderr, "%s\n", name.c_str());
    Json& j = json["programs"].push(Json::object());
    j["name"] = name;
    for (size_t i = 0; i < kColumns.size(); ++i) {
      const Found& f = rows.back().found[i];
      std::fprintf(stderr, "  %-20s %s ms, compiled %s ms, search %s s\n", kColumns[i].c_str(),
                   ms(f.nodes_s).c_str(), ms(f.compiled_s).c_str(), rounded(f.search_s).c_str());
      for (const std::string& m : f.mutants) std::fprintf(stderr, "    %s\n", m.c_str());
      Json& one = j["found"].push(Json::object());
      one["by"] = kColumns[i];
      one["nodes_s"] = f.nodes_s;
      one["compiled_s"] = f.compiled_s;
      one["search_s"] = f.search_s;
      for (const std::string& m : f.mutants) one["mutants"].push(m);
    }
  }
  const std::string tables = model_tables(rows);
  std::cout << tables;
  std::string ablations;
  if (options.ablation) {
    ablations = ablation_tables(comparison, options.pet, json);
    std::cout << ablations;
  }
  if (!options.json.empty()) {
    AtomicFile file(options.json);
    file.write(json.text());
    file.commit();
  }
  if (options.update_docs) {
    std::stringstream text;
    text << std::ifstream("docs/pet.md").rdbuf();
    std::string document = text.str();
    update(document, "bench-pet: models", tables);
    if (options.ablation) update(document, "bench-pet: ablation", ablations);
    AtomicFile file("docs/pet.md");
    file.write(document);
    file.commit();
  }
  return 0;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto value = [&] {
      if (++i == argc) throw Error(str(arg, " needs a value"));
      return std::string(argv[i]);
    };
    auto count = [&] { return static_cast<size_t>(std::max(1, std::atoi(value().c_str()))); };
    if (arg == "--depth") {
      o.pet.depth = count();
    } else if (arg == "--rounds") {
      o.pet.rounds = count();
    } else if (arg == "--beam") {
      o.pet.beam = count();
    } else if (arg == "--fastest") {
      o.pet.fastest = count();
    } else if (arg == "--no-manager") {
      o.pet.manager = false;
    } else if (arg == "--ablation") {
      o.ablation = true;
    } else if (arg == "--check") {
      o.check = true;
    } else if (arg == "--json") {
      o.json = value();
    } else if (arg == "--update-docs") {
      o.update_docs = true;
    } else if (arg.starts_with("--")) {
      throw Error(str("unknown option ", arg,
                      "; there are --depth, --rounds, --beam, --fastest, --no-manager, --ablation, "
                      "--check, --json and --update-docs"));
    } else {
      o.models.push_back(arg);
    }
  }
  if (o.models.empty()) {
    o.models = {"resnet18", "csrnet_pet", "inception_v3", "bert_pet", "resnet3d18"};
    for (const auto& [name, make] : operator_cases()) o.models.push_back(name);
  }
  return o;
}

}  // namespace
}  // namespace emend

int main(int argc, char** argv) {
  try {
    return emend::run(emend::parse(argc, argv));
  } catch (const emend::Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 3;
  }
}
