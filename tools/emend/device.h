// --target and --memory: what runs a model, and how much of the machine it may take for that.
#pragma once

#include "pipeline/compile.h"
#include "verb.h"

namespace emend {

inline Device device_of(const std::string& target) {
  if (auto device = device_named(target)) return *device;
  throw UsageError{str("--target ", target, ": there are interp and cpu")};
}

inline void add_memory_option(CLI::App& command, std::optional<double>& factor) {
  command
      .add_option(
          "--memory", factor,
          str("weights as kernels want them stored may take this times those of the model (",
              kUsualMemory, ", or ", kSmallMemory >> 20, " MiB if that is more)"))
      ->check(CLI::Range(1.0, 1e6))
      ->type_name("FACTOR");
}

}  // namespace emend
