#include "base/error.h"

namespace emend {

void assertion_failed(const char* condition, const char* file, int line,
                      const std::string& values) {
  // The build directory's prefix says nothing to a reader; the path from src/ on does.
  std::string where = file;
  if (auto at = where.rfind("/src/"); at != std::string::npos) where = where.substr(at + 1);
  throw InternalError(str(where, ":", line, ": assertion '", condition, "' failed",
                          values.empty() ? "" : ": ", values));
}

}  // namespace emend
