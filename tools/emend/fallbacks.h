// What did not run as compiled kernels: for people on stderr, for programs in the report.
#pragma once

#include <string>

#include "base/json.h"
#include "pipeline/compile.h"
#include "verb.h"

namespace emend {

// A line for each kernel that was refused, and one for what the reference computes. `prefix` stands
// before each, where several models are at work.
void tell_fallbacks(const CompileReport& report, const Globals& globals,
                    const std::string& prefix = "");
// Adds `on_host` and `faults`, both lists of sentences; what went wrong before compiling is among
// the faults.
void add_fallbacks(Json& facts, const CompileReport& report,
                   const std::vector<std::string>& before = {});

}  // namespace emend
