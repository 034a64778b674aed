// emend verify A B: are two models equal? Equal, different or unknown, with the method and the
// worst difference. Exit code 4 when they are different.
#include "pipeline/verify.h"

#include <iostream>
#include <memory>

#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string a, b;
  std::vector<std::string> shapes;
};

int verify_models(const Options& o, const Globals& globals) {
  ImportOptions import;
  apply_shapes(o.shapes, import);
  Model a = import_onnx(o.a, import), b = import_onnx(o.b, import);
  Verdict v = verify(a, b, {.seed = globals.seed + 1, .monitor = globals.monitor});
  globals.finish_progress();
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["a"] = o.a;
  facts["b"] = o.b;
  facts["verdict"] = std::string(to_text(v.kind));
  facts["method"] = v.method;
  facts["reason"] = v.reason;
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
  globals.report(facts);
  if (globals.json != "-") {
    std::cout << to_text(v.kind) << ": " << printable(v.reason) << "\n";
    if (!v.worst.output.empty()) {
      std::cout << "worst: output " << printable(v.worst.output) << " at "
                << shape_text(v.worst.position) << ", " << number_text(v.worst.a) << " and "
                << number_text(v.worst.b) << ", relative to its largest value "
                << number_text(v.worst.rel) << "\n";
    }
  }
  return v.kind == Verdict::Kind::different ? kDifferent : kOk;
}

}  // namespace

Verb verify_verb(CLI::App& app, const Globals& globals) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("verify", "are two models equal?");
  c->add_option("A", options->a, "an ONNX file")->required();
  c->add_option("B", options->b, "another one")->required();
  add_shape_option(*c, options->shapes);
  return {c, [options, &globals] { return verify_models(*options, globals); }};
}

}  // namespace emend
