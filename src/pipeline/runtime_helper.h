// The text of runtime_helper.py, carried inside so that a command that is copied somewhere finds
// it.
#pragma once

namespace emend {

extern const char* const kRuntimeHelper;

}  // namespace emend
