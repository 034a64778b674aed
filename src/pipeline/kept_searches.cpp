#include "pipeline/kept_searches.h"

#include <algorithm>
#include <chrono>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "pipeline/kept_mutants.h"
#include "pipeline/program_text.h"
#include "rules/functions.h"
#include "run/compile.h"
#include "text/text.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

std::string text_of(const ImproveOptions& o) {
  std::ostringstream out;
  const SaturateOptions& s = o.saturate;
  for (const auto* globs : {&s.enable, &s.disable}) {
    out << globs->size();
    for (const std::string& glob : *globs) out << ' ' << glob.size() << ' ' << glob;
    out << '\n';
  }
  out << s.exact << ' ' << s.nodes << ' ' << s.rounds << ' ' << s.bytes << ' ' << s.seconds << ' '
      << s.step << ' ' << s.back_off.on << ' ' << s.back_off.matches << ' ' << s.back_off.rounds
      << '\n';
  out << o.passes << ' ' << o.combined << ' ' << o.combined_nodes << ' ' << o.kept << ' '
      << o.rounds << ' ' << o.corrections << ' ' << o.moves << ' ' << o.seed << ' ' << o.mutate_from
      << '\n';
  if (const auto& m = o.mutate.generate) {
    out << m->depth << ' ' << m->rounds << ' ' << m->samples << ' ' << m->least_share << ' '
        << m->programs << ' ' << m->candidates;
    for (int64_t radix : m->radices) out << ' ' << radix;
  }
  out << '\n' << o.prices->key;
  return out.str();
}

Json json_of(const std::vector<double>& numbers) {
  Json j = Json::array();
  for (double n : numbers) j.push(n);
  return j;
}

Json json_of(const MutateReport& r) {
  Json j = Json::object();
  j["seconds"] = r.seconds;
  j["pricing_seconds"] = r.pricing_seconds;
  j["proofs"] = r.proofs;
  j["known"] = r.known;
  j["all"] = Json::array();
  for (const auto& m : r.mutants) {
    Json& one = j["all"].push(Json::object());
    one["mutation"] = m.mutation;
    one["site"] = m.site;
    one["parameters"] = m.parameters;
    one["outcome"] = static_cast<int64_t>(m.outcome);
    one["share"] = m.share;
    one["patches"] = m.patches;
    one["repaired"] = m.repaired;
    one["seconds"] = m.seconds;
    one["method"] = m.method;
    one["reason"] = m.reason;
  }
  return j;
}

Json json_of(const ImproveReport& r) {
  Json j = Json::object();
  j["rounds"] = r.saturated.rounds;
  j["nodes"] = r.saturated.nodes;
  j["classes"] = r.saturated.classes;
  j["seconds"] = r.saturated.seconds;
  j["stopped"] = static_cast<int64_t>(r.saturated.stopped);
  j["fired"] = Json::array();
  for (const auto& f : r.saturated.fired) {
    Json& entry = j["fired"].push(Json::object());
    entry["rule"] = f.rule;
    entry["matches"] = f.matches;
    entry["times"] = f.times;
    entry["seconds"] = f.seconds;
    entry["waiting"] = f.waiting;
    entry["nearest"] = f.nearest;
    entry["too_many"] = f.too_many;
  }
  j["mutants"] = json_of(r.mutated);
  j["before_s"] = r.before_s;
  j["after_s"] = r.after_s;
  j["priced_s"] = json_of(r.priced_s);
  j["trail"] = Json::array();
  for (const std::string& rule : r.trail) j["trail"].push(rule);
  j["phases_ms"] = Json::object();
  for (const auto& [name, ms] : r.phases_ms) j["phases_ms"][name] = ms;
  return j;
}

size_t size_in(const Json& j, std::string_view name) {
  return static_cast<size_t>(j.at(name).number_or(0));
}
std::string text_in(const Json& j) {
  const auto* text = j.as<std::string>();
  return text ? *text : "";
}
const Json::Array& list_in(const Json& j, std::string_view name) {
  static const Json::Array kNone;
  const auto* list = j.at(name).as<Json::Array>();
  return list ? *list : kNone;
}

MutateReport mutants_of(const Json& j) {
  using Mutant = MutateReport::Mutant;
  MutateReport r{.seconds = j.at("seconds").number_or(0),
                 .pricing_seconds = j.at("pricing_seconds").number_or(0),
                 .proofs = size_in(j, "proofs"),
                 .known = size_in(j, "known")};
  for (const Json& m : list_in(j, "all")) {
    r.mutants.push_back({.mutation = text_in(m.at("mutation")),
                         .site = text_in(m.at("site")),
                         .parameters = text_in(m.at("parameters")),
                         .outcome = static_cast<Mutant::Outcome>(std::min(
                             size_in(m, "outcome"), static_cast<size_t>(Mutant::Outcome::refused))),
                         .share = m.at("share").number_or(0),
                         .patches = size_in(m, "patches"),
                         .repaired = m.at("repaired").number_or(0),
                         .seconds = m.at("seconds").number_or(0),
                         .method = text_in(m.at("method")),
                         .reason = text_in(m.at("reason"))});
  }
  return r;
}

ImproveReport report_of(const Json& j) {
  ImproveReport r{.before_s = j.at("before_s").number_or(0),
                  .after_s = j.at("after_s").number_or(0)};
  r.saturated.rounds = size_in(j, "rounds");
  r.saturated.nodes = size_in(j, "nodes");
  r.saturated.classes = size_in(j, "classes");
  r.saturated.seconds = j.at("seconds").number_or(0);
  r.saturated.stopped = static_cast<StopReason>(
      std::min(size_in(j, "stopped"), static_cast<size_t>(StopReason::interrupted)));
  for (const Json& f : list_in(j, "fired")) {
    r.saturated.fired.push_back({.rule = text_in(f.at("rule")),
                                 .matches = size_in(f, "matches"),
                                 .times = size_in(f, "times"),
                                 .seconds = f.at("seconds").number_or(0),
                                 .waiting = size_in(f, "waiting"),
                                 .nearest = static_cast<uint32_t>(size_in(f, "nearest")),
                                 .too_many = f.at("too_many") == Json(true)});
  }
  r.mutated = mutants_of(j.at("mutants"));
  for (const Json& s : list_in(j, "priced_s")) r.priced_s.push_back(s.number_or(0));
  for (const Json& rule : list_in(j, "trail")) r.trail.push_back(text_in(rule));
  if (const auto* phases = j.at("phases_ms").as<Json::Object>()) {
    for (const auto& [name, ms] : *phases) r.phases_ms.emplace_back(name, ms.number_or(0));
  }
  return r;
}

// Custom rules have no key, nor do some prices.
bool can_be_kept(const ImproveOptions& o) {
  return o.saturate.rules.empty() && !o.saturate.seconds_of && o.mutate.mutations.empty() &&
         !build_text().empty() && o.prices && !o.prices->key.empty();
}

// What a program has beside the weights of the one that was given, as the results of a program; a
// line between that and the program itself. Many or large ones are not kept.
constexpr std::string_view kBetween = "----\n";
constexpr int64_t kMostElements = 1 << 18;

std::optional<std::string> text_of(std::span<const Tensor> constants) {
  int64_t elements = 0;
  GraphBuilder b;
  for (const Tensor& t : constants) {
    elements += t.count();
    if (elements > kMostElements) return std::nullopt;
    b.output(str("c", b.graph().outputs.size()), b.constant(t));
  }
  return print(std::move(b).build(), {.all_constants = true});
}

Graph program_of(const std::string& text, std::vector<Tensor> pool) {
  size_t between = text.find(kBetween);
  if (between == std::string::npos) return parse_graph(text, pool);
  Graph more = parse_graph(text.substr(0, between));
  for (const auto& output : more.outputs) pool.push_back(more.constant(output.node));
  return parse_graph(text.substr(between + kBetween.size()), pool);
}

std::string key_of(const Graph& given, ConstantPool& pool, const ImproveOptions& options) {
  std::string text = pool.text_of(given);
  for (const Tensor& t : pool.constants()) text += str(seen_by_rules(t), "\n");
  return text + text_of(options) + build_text();
}

}  // namespace

fs::path default_search_folder() {
  return cache_folder() / "searches";
}

std::optional<KeptSearches::Found> KeptSearches::find(const Graph& given,
                                                      const ImproveOptions& options) const {
  if (!can_be_kept(options)) return std::nullopt;
  ConstantPool pool(given);
  auto content = files_.find(key_of(given, pool, options));
  if (!content) return std::nullopt;
  const size_t line = content->find('\n');
  if (line == std::string::npos) return std::nullopt;
  auto report = Json::parse(content->substr(0, line));
  if (!report) return std::nullopt;
  const std::string text = content->substr(line + 1);
  try {
    Graph graph = text.empty() ? given : program_of(text, pool.constants());
    return Found{std::move(graph), report_of(*report)};
  } catch (const Error&) {
    return std::nullopt;
  }
}

void KeptSearches::keep(const Graph& given, const ImproveOptions& options,
                        const Found& found) const {
  if (!can_be_kept(options)) return;
  ConstantPool pool(given);
  const std::string key = key_of(given, pool, options);
  std::string text;
  if (!(found.graph == given)) {
    const size_t weights = pool.constants().size();
    text = pool.text_of(found.graph);
    if (pool.constants().size() > weights) {
      auto more = text_of(std::span(pool.constants()).subspan(weights));
      if (!more) return;
      text = *more + std::string(kBetween) + text;
    }
  }
  files_.keep(key, json_of(found.report).line() + "\n" + text);
}

Graph improved(const Graph& g, const ImproveOptions& options, const Keeping& keeping,
               ImproveReport* report) {
  ImproveReport facts;
  std::optional<KeptSearches> kept;
  if (keeping.folder) kept.emplace(*keeping.folder);
  if (kept && !keeping.search_again) {
    auto start = std::chrono::steady_clock::now();
    if (auto found = kept->find(g, options)) {
      std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      found->report.recalled = true;
      found->report.phases_ms = {{"recall", took.count()}};
      if (report) *report = std::move(found->report);
      return std::move(found->graph);
    }
  }
  ImproveOptions how = options;
  MutationManager mutants;
  if (keeping.folder && !how.mutate.manager) {
    mutants = KeptMutants(*keeping.folder).read();
    how.mutate.manager = &mutants;
  }
  Graph better = improve(g, how, &facts);
  if (mutants.grown()) KeptMutants(*keeping.folder).keep(mutants);
  // What a busy machine cut short may be better at another start.
  bool whole = !options.monitor.stop_requested() &&
               facts.saturated.stopped != StopReason::seconds && facts.faults.empty();
  if (kept && whole) kept->keep(g, options, {better, facts});
  if (report) *report = std::move(facts);
  return better;
}

}  // namespace emend
