// emend verify A B: are two models equal? Equal, different or unknown, with the method and the
// worst difference. Exit code 0, 4 or 7.
#include "pipeline/verify.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string a, b;
  std::vector<std::string> shapes;
  double rtol = -1, atol = -1;  // negative: not given
  double seconds = 30;
  bool where = false;
};

CompareOptions compare_options(const Options& o, const Globals& globals) {
  CompareOptions c{
      .seed = globals.seed + 1, .seconds = o.seconds, .where = o.where, .monitor = globals.monitor};
  if (o.rtol >= 0 || o.atol >= 0) c.tolerance = {std::max(o.rtol, 0.0), std::max(o.atol, 0.0)};
  return c;
}

int exit_code(Verdict::Kind k) {
  return k == Verdict::Kind::equal ? kOk : k == Verdict::Kind::different ? kDifferent : kUnknown;
}

Json facts_of(const Options& o, const Verdict& v) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["a"] = o.a;
  facts["b"] = o.b;
  facts["verdict"] = std::string(to_text(v.kind));
  facts["method"] = v.method;
  facts["reason"] = v.reason;
  facts["finite_only"] = v.finite_only;
  Json worst = Json::object();
  worst["output"] = v.worst.output;
  Json position = Json::array();
  for (int64_t p : v.worst.position) position.push(p);
  worst["position"] = position;
  worst["abs"] = v.worst.abs;
  worst["rel"] = v.worst.rel;
  facts["worst"] = worst;
  Json regions = Json::object();
  for (const auto& [method, n] : v.regions) regions[method] = n;
  facts["regions"] = regions;
  if (v.where) {
    Json where = Json::object();
    where["node"] = v.where->node;
    where["operator"] = v.where->op;
    where["matched_by"] = v.where->how;
    facts["where"] = where;
  }
  return facts;
}

void print(const Options& o, const Verdict& v) {
  std::cout << to_text(v.kind) << ": " << printable(v.reason) << "\n";
  if (!v.worst.output.empty()) {
    bool different = v.kind == Verdict::Kind::different;
    std::cout << "worst: output " << printable(v.worst.output) << " at "
              << shape_text(v.worst.position) << ", " << number_text(v.worst.a) << " and "
              << number_text(v.worst.b) << ", relative to the largest value "
              << (different ? "beside it " : "of the output ") << number_text(v.worst.rel) << "\n";
  }
  if (v.where) {
    std::cout << "where: the first node of " << printable(o.a) << " whose value "
              << (v.where->how == "name" ? "differs in the other model" : "the other model has not")
              << " is " << printable(v.where->node) << " (" << v.where->op << "), matched by "
              << v.where->how << "\n";
  } else if (o.where && v.kind != Verdict::Kind::equal) {
    std::cout << "where: no node was found\n";
  }
}

int verify_models(const Options& o, const Globals& globals) {
  ImportOptions import;
  apply_shapes(o.shapes, import);
  Verdict v = verify_files(o.a, o.b, import, compare_options(o, globals));
  globals.finish_progress();
  globals.report(facts_of(o, v));
  if (globals.json != "-") print(o, v);
  return exit_code(v.kind);
}

}  // namespace

Verb verify_verb(CLI::App& app, const Globals& globals) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("verify", "are two models equal?");
  c->add_option("A", options->a, "an ONNX file")->required();
  c->add_option("B", options->b, "another one")->required();
  add_shape_option(*c, options->shapes);
  c->add_option("--rtol", options->rtol,
                "equal is also what differs by at most ATOL + RTOL |b| on random inputs")
      ->check(CLI::NonNegativeNumber);
  c->add_option("--atol", options->atol, "see --rtol")->check(CLI::NonNegativeNumber);
  c->add_option("--seconds", options->seconds, "how long a proof may take; 0: as long as it takes")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  c->add_flag("--where", options->where, "name the first node whose value differs");
  return {c, [options, &globals] { return verify_models(*options, globals); }};
}

}  // namespace emend
