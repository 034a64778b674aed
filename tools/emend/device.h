// --target: what runs a model.
#pragma once

#include "pipeline/compile.h"
#include "verb.h"

namespace emend {

inline Device device_of(const std::string& target) {
  if (auto device = device_named(target)) return *device;
  throw UsageError{str("--target ", target, ": there are interp and cpu")};
}

}  // namespace emend
