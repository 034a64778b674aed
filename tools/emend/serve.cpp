#include "serve.h"

#include <iostream>
#include <sstream>

#include "run/measure.h"
#include "values.h"
#include "verb.h"

namespace emend {
namespace {

void answer(const Json& j) {
  std::cout << j.line() << std::endl;  // flushed: the other side waits for it
}

Json obey(const std::string& line, const Graph& g, const ServedRuns& served) {
  std::istringstream words(line);
  std::string command, folder;
  int runs = 0;
  words >> command;
  Json j = Json::object();
  if (command == "run" && words >> runs && runs > 0) {
    j["ms"] = Json::array();
    for (int i = 0; i < runs; ++i) j["ms"].push(milliseconds_of(served.timed));
  } else if (command == "steps" && words >> runs && runs > 0) {
    j["steps"] = served.steps(runs);
  } else if (command == "outputs" && std::getline(words >> std::ws, folder)) {
    save_outputs(g, served.outputs(), folder);
    j["outputs"] = Json::array();
    for (const auto& o : g.outputs) j["outputs"].push(o.name);
  } else {
    j["error"] =
        str("expected `run COUNT`, `outputs DIR` or `steps COUNT`, got ", emend::quoted(line));
  }
  return j;
}

}  // namespace

int serve(const Graph& g, const ServedRuns& runs, double compile_s) {
  Json ready = Json::object();
  ready["ready"] = true;
  ready["compile_s"] = compile_s;
  ready["first_ms"] = milliseconds_of(runs.timed);
  answer(ready);
  for (std::string line; std::getline(std::cin, line);) answer(obey(line, g, runs));
  return kOk;
}

}  // namespace emend
