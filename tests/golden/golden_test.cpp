// Text in, text out. A file of tests/golden/<stage>/ holds cases, separated by lines of ====:
//   # what it is about
//   run simplify [name=value ...]      the stages, separated by semicolons; fuse is the last one
//   graph(x: f32[2]) { ... }
//   ----                               then the exact text of the result; or instead
//   same LABEL                         all cases of that label in the file have one result
//   error "part of the message"        an internal error never counts
// EMEND_UPDATE_GOLDEN=1 (or --update) rewrites what stands behind ----.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "fuse/fuse.h"
#include "simplify/simplify.h"
#include "support/extracted.h"
#include "support/mutants.h"
#include "text/text.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = "tests/golden";
bool g_update = std::getenv("EMEND_UPDATE_GOLDEN") != nullptr;

using Options = std::map<std::string, std::string>;

std::vector<std::string> list_of(const Options& o, const std::string& name) {
  auto it = o.find(name);
  return it == o.end() ? std::vector<std::string>() : split(it->second, ',');
}

Graph run_simplify(const Graph& g, const Options& o) {
  SimplifyOptions s;
  s.enable = list_of(o, "enable");
  s.disable = list_of(o, "disable");
  if (auto it = o.find("fold_bytes"); it != o.end()) s.fold_bytes = std::stoll(it->second);
  if (auto it = o.find("finish"); it != o.end()) s.finish = it->second == "true";
  SimplifyReport report;
  Graph out = simplify(g, s, &report);
  EXPECT_EQ(report.stop_reason, "fixed point");
  return out;
}

// All rules (but what `disable` names), then the program with the fewest operators.
Graph run_saturate(const Graph& g, const Options& o) {
  SaturateReport report;
  auto egraph =
      saturate(g, {.enable = list_of(o, "enable"), .disable = list_of(o, "disable")}, &report);
  auto price = [](const ENode& n) {
    return OpId(n.op) == kInputOp || OpId(n.op) == kConstantOp ? 0.0 : 1.0;
  };
  return extracted(*egraph, price, greedy_dag);
}

// The first mutant of the only operator that was repaired.
Graph run_correct(const Graph& g, const Options& o) {
  const PricedNode site = site_of(g);
  MutateReport report;
  std::vector<Rule> rules =
      mutate({site}, {.enable = {o.at("mutation"), "correct"}, .disable = {"*"}}, &report);
  size_t next = 0;
  for (const auto& m : report.mutants) {
    if (m.outcome == MutateReport::Mutant::Outcome::corrected)
      return program_of(site, &rules[next]);
    next += m.outcome == MutateReport::Mutant::Outcome::equal;
  }
  throw Error("no mutant was corrected");
}

const std::map<std::string, Graph (*)(const Graph&, const Options&)> kStages = {
    {"parse", [](const Graph& g, const Options&) { return g; }},
    {"simplify", run_simplify},
    {"saturate", run_saturate},
    {"correct", run_correct},
};

struct Case {
  std::string head;  // everything up to and including the graph, with its line ends
  std::string stages, graph, label, error, expected;
};

std::string trimmed(std::string s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.pop_back();
  return s;
}

Case parse_case(const std::string& text) {
  Case c;
  std::istringstream lines(text);
  bool behind = false;
  for (std::string line; std::getline(lines, line);) {
    if (behind) {
      c.expected += line + "\n";
    } else if (line == "----") {
      behind = true;
    } else {
      c.head += line + "\n";
      if (line.starts_with("run ")) {
        c.stages = line.substr(4);
      } else if (line.starts_with("same ")) {
        c.label = line.substr(5);
      } else if (line.starts_with("error ")) {
        c.error = line.substr(7, line.rfind('"') - 7);
      } else {
        c.graph += line + "\n";
      }
    }
  }
  c.expected = trimmed(c.expected);
  return c;
}

std::vector<Case> read_cases(const fs::path& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  std::string text;
  for (std::string line; std::getline(file, line);) {
    if (line == "====") {
      cases.push_back(parse_case(text));
      text.clear();
    } else {
      text += line + "\n";
    }
  }
  cases.push_back(parse_case(text));
  return cases;
}

std::string run_stages(const Case& c) {
  Graph g = parse_graph(c.graph);
  for (const std::string& stage : split(c.stages, ';')) {
    std::istringstream words(stage);
    std::string name, word;
    words >> name;
    Options options;
    while (words >> word) options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    if (name == "fuse") {
      Graph plain = decomposed(g);
      Partition p = fuse(plain, {.catalogue = &cpu_catalogue()});
      std::string text = trimmed(print(plain, p, {.all_constants = true}));
      ParsedPartition back = parse_partition(text);
      EXPECT_EQ(back.graph, plain);
      EXPECT_EQ(back.partition, p);
      return text;
    }
    auto it = kStages.find(name);
    if (it == kStages.end()) throw std::runtime_error("no stage is called " + name);
    g = it->second(g, options);
  }
  return trimmed(print(g, {.all_constants = true}));
}

// What the case gives; an error's message if it expects one.
std::string outcome(const Case& c) {
  if (c.error.empty()) return run_stages(c);
  try {
    run_stages(c);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::vector<fs::path> files() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(kFolder)) {
    if (entry.path().extension() == ".emend") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class Golden : public testing::TestWithParam<fs::path> {};

TEST_P(Golden, IsAsExpected) {
  std::map<std::string, std::string> by_label;
  std::string rewritten;
  auto cases = read_cases(GetParam());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    SCOPED_TRACE(GetParam().string() + ", case " + std::to_string(i + 1));
    std::string got = outcome(c);
    if (i) rewritten += "====\n";
    rewritten += c.head;
    if (!c.error.empty()) {
      EXPECT_NE(got.find(c.error), std::string::npos) << got;
    } else if (!c.label.empty()) {
      EXPECT_EQ(by_label.try_emplace(c.label, got).first->second, got);
    } else {
      rewritten += "----\n" + got + "\n";
      if (!g_update) {
        EXPECT_EQ(got, c.expected);
      }
    }
  }
  if (g_update) std::ofstream(GetParam()) << rewritten;
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, testing::ValuesIn(files()), [](const auto& info) {
  std::string name =
      info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
});

}  // namespace
}  // namespace emend

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--update") emend::g_update = true;
  }
  return RUN_ALL_TESTS();
}
