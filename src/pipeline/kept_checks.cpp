#include "pipeline/kept_checks.h"

#include <bit>
#include <cmath>

#include "base/json.h"
#include "base/text.h"
#include "pipeline/program_text.h"

namespace emend {
namespace {

std::string key_of(const Graph& before, const Graph& after, const ResultCheckOptions& options) {
  ConstantPool pool(before);
  std::string text = str(pool.text_of(before), "\n", pool.text_of(after), "\n");
  for (const Tensor& t : pool.constants()) {
    text += str(hash(t), "\n");
    t.drop_pages();
  }
  for (double number : {options.accuracy, options.max_operations})
    text += str(std::bit_cast<uint64_t>(number), " ");
  return text + str(options.seed, "\n", build_text());
}

std::string text_of(const Checked& checked) {
  Json j = Json::object();
  j["kind"] = static_cast<int64_t>(checked.kind);
  j["max_rel_err"] = checked.max_rel_err;
  j["output"] = checked.output;
  j["reason"] = checked.reason;
  return j.line();
}

std::optional<Checked> checked_of(const std::string& text) {
  auto j = Json::parse(text);
  if (!j) return std::nullopt;
  auto word = [&](const char* name) {
    const auto* found = j->at(name).as<std::string>();
    return found ? *found : std::string();
  };
  const double kind = j->at("kind").number_or(-1);
  for (auto known : {Checked::Kind::passed, Checked::Kind::failed, Checked::Kind::not_run}) {
    if (kind != static_cast<double>(known)) continue;
    return Checked{.kind = known,
                   .max_rel_err = j->at("max_rel_err").number_or(INFINITY),
                   .output = word("output"),
                   .reason = word("reason")};
  }
  return std::nullopt;
}

}  // namespace

KeptFiles kept_checks(const std::filesystem::path& folder) {
  constexpr size_t kMost = 1024;
  return {folder, "check-", kMost};
}

Checked compare_results(const Graph& before, const Graph& after, const ResultCheckOptions& options,
                        const Keeping& keeping) {
  if (!keeping.folder || build_text().empty() || !can_be_compared(before, options))
    return compare_results(before, after, options);
  const KeptFiles kept = kept_checks(*keeping.folder);
  const std::string key = key_of(before, after, options);
  if (!keeping.search_again) {
    if (auto content = kept.find(key)) {
      if (auto checked = checked_of(*content)) return *checked;
    }
  }
  Checked checked = compare_results(before, after, options);
  if (!options.monitor.stop_requested()) kept.keep(key, text_of(checked));
  return checked;
}

}  // namespace emend
