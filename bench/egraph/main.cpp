// build/bench_egraph FILE.egg --iterations N [--json FILE]: saturates without a scheduler and says
// how long it took. The file is in egglog's syntax (egraph/egg_text.h). Exit code 3: it was not
// understood.
#include <sys/resource.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/parallel.h"
#include "egraph/egg_text.h"
#include "egraph/run.h"

namespace {

using namespace emend;

struct Arguments {
  std::string file, json;
  size_t iterations = 8;
  bool provenance = true;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  const auto value = [&](int& i) -> std::string {
    if (i + 1 >= argc) throw Error(str(argv[i], " needs a value"));
    return argv[++i];
  };
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--iterations") {
      const std::string text = value(i);
      const auto [end, failed] =
          std::from_chars(text.data(), text.data() + text.size(), a.iterations);
      if (failed != std::errc() || end != text.data() + text.size()) {
        throw Error(str("--iterations wants a number, not ", emend::quoted(text)));
      }
    } else if (word == "--json") {
      a.json = value(i);
    } else if (word == "--no-provenance") {
      a.provenance = false;
    } else if (a.file.empty() && word[0] != '-') {
      a.file = word;
    } else {
      throw Error(
          str("unknown argument ", emend::quoted(word),
              "; usage: bench_egraph FILE.egg --iterations N [--json FILE] [--no-provenance]"));
    }
  }
  if (a.file.empty()) {
    throw Error("usage: bench_egraph FILE.egg --iterations N [--json FILE] [--no-provenance]");
  }
  return a;
}

int run(const Arguments& a) {
  const std::string text =
      with_note([&] { return a.file; },
                [&] { return std::string(map_file(a.file).value_or_throw().text()); });
  const EggProgram program = read_egg(text, a.file);
  std::vector<Rewrite> rewrites;
  for (const TermRule& r : program.rules) rewrites.push_back(to_rewrite(r));
  RunnerOptions options;
  options.limits = {.iterations = a.iterations, .nodes = SIZE_MAX, .seconds = 1e9};
  options.back_off.on = false;
  EGraph g({}, a.provenance);
  add_lets(g, program);
  g.rebuild();
  Runner runner(std::move(rewrites));
  const RunnerReport report = runner.run(g, options);

  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto nodes = static_cast<double>(report.nodes);
  double search = 0, apply = 0, rebuild = 0;
  for (const IterationReport& i : report.iterations) {
    search += i.search_seconds;
    apply += i.apply_seconds;
    rebuild += i.rebuild_seconds;
  }
  if (!a.json.empty()) {
    Json j = Json::object();
    j["schema"] = 1;
    j["seconds"] = report.seconds;
    j["enodes"] = report.nodes;
    j["eclasses"] = report.classes;
    j["iterations"] = report.iterations.size();
    j["stopped"] = to_text(report.stopped);
    j["search_seconds"] = search;
    j["apply_seconds"] = apply;
    j["rebuild_seconds"] = rebuild;
    j["egraph_bytes"] = g.bytes();
    j["peak_memory_bytes"] = static_cast<int64_t>(usage.ru_maxrss) * 1024;
    if (a.json == "-") {
      std::cout << j.text() << "\n";
    } else {
      std::ofstream out(a.json);
      out << j.text() << "\n";
      if (!out.flush()) throw Error(str("cannot write ", a.json));
    }
    return 0;
  }
  std::printf("%s: %zu iterations, stopped by: %s\n", a.file.c_str(), report.iterations.size(),
              std::string(to_text(report.stopped)).c_str());
  std::printf("  %zu e-nodes in %zu e-classes\n", report.nodes, report.classes);
  std::printf("  %.3f ms: search %.3f, apply %.3f, rebuild %.3f; %.2f million e-nodes/s\n",
              report.seconds * 1e3, search * 1e3, apply * 1e3, rebuild * 1e3,
              nodes / report.seconds / 1e6);
  std::printf("  %s in the e-graph, %.0f bytes per e-node; the process held %s at most\n",
              bytes_text(static_cast<double>(g.bytes())).c_str(),
              static_cast<double>(g.bytes()) / nodes,
              bytes_text(static_cast<double>(usage.ru_maxrss) * 1024).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    set_thread_count(1);
    return run(parse(argc, argv));
  } catch (const emend::Error& e) {
    std::fprintf(stderr, "bench_egraph: %s\n", e.what());
    return 3;
  }
}
