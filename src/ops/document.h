// The operator table as a document: docs/operators.md is this text, and a test holds it to that.
#pragma once

#include <string>

namespace emend {

std::string operators_markdown();

}  // namespace emend
