// emend rules synthesize: equations from the operators alone.
#pragma once

#include <string>

#include "verb.h"

namespace emend {

struct SynthesizeVerbOptions {
  int operators = 0;      // 0: as the menus say
  std::string against;    // "taso": which of its axioms were found
  bool only_new = false;  // only what the table does not imply
  bool refuted = false;   // also print what was refuted, and why
};

void add_synthesize_options(CLI::App& command, SynthesizeVerbOptions& options);
int synthesize_rules(const std::string& menus, const SynthesizeVerbOptions& options,
                     const Globals& globals);

}  // namespace emend
