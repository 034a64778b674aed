#include "pipeline/kept_checks.h"

#include <algorithm>
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

// A verdict as text, of a result that is right: a refusal names nodes, and no string of a model may
// be kept. The output is kept by its place for the same reason.
std::string text_of(const Checked& checked, const Graph& g) {
  auto is = [&](const GraphOutput& o) { return o.name == checked.output; };
  Json j = Json::object();
  j["max_rel_err"] = checked.max_rel_err;
  j["output"] = static_cast<int64_t>(std::ranges::find_if(g.outputs, is) - g.outputs.begin());
  j["reason"] = checked.reason;
  return j.line();
}

std::optional<Checked> checked_of(const std::string& text, const Graph& g) {
  auto j = Json::parse(text);
  const auto* reason = j ? j->at("reason").as<std::string>() : nullptr;
  if (!reason) return std::nullopt;
  const double output = j->at("output").number_or(-1);
  const bool named = output >= 0 && output < static_cast<double>(g.outputs.size());
  return Checked{.kind = Checked::Kind::passed,
                 .max_rel_err = j->at("max_rel_err").number_or(INFINITY),
                 .output = named ? g.outputs[static_cast<size_t>(output)].name : "",
                 .reason = *reason};
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
      if (auto checked = checked_of(*content, before)) return *checked;
    }
  }
  Checked checked = compare_results(before, after, options);
  if (checked.kind == Checked::Kind::passed && !options.monitor.stop_requested())
    kept.keep(key, text_of(checked, before));
  return checked;
}

}  // namespace emend
