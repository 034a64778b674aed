#include "fallbacks.h"

#include <algorithm>

namespace emend {
namespace {

std::string sentence(const Fallback& f) {
  return str(f.what, ": ", f.reason);
}

}  // namespace

void tell_fallbacks(const CompileReport& report, const Globals& globals,
                    const std::string& prefix) {
  constexpr size_t kShown = 3;
  for (const std::string& f : report.faults) globals.say(prefix + f);
  const auto& list = report.on_reference;
  if (list.empty()) return;
  std::string line = str(list.size(), " of ", report.groups, " steps run on the reference: ");
  for (size_t i = 0; i < std::min(list.size(), kShown); ++i)
    line += (i ? "; " : "") + sentence(list[i]);
  if (list.size() > kShown) line += str("; and ", list.size() - kShown, " more (--json has all)");
  globals.say(prefix + line);
}

void add_fallbacks(Json& facts, const CompileReport& report,
                   const std::vector<std::string>& before) {
  facts["on_host"] = Json::array();
  for (const Fallback& f : report.on_reference) facts["on_host"].push(sentence(f));
  facts["faults"] = Json::array();
  for (const auto* faults : {&before, &report.faults}) {
    for (const std::string& f : *faults) facts["faults"].push(f);
  }
}

}  // namespace emend
