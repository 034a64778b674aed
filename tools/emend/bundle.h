// What is needed to see an internal error again: a folder with the command, copies of the files it
// named (a model's weights beside it included), the version and the message, and a script that runs
// the command on the copies.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace emend {

// `arguments` are the command line without its first word. Made in the current folder or, where
// that cannot be written to, among temporary files; throws Error if neither works.
std::filesystem::path write_bundle(const std::vector<std::string>& arguments,
                                   const std::string& message);

}  // namespace emend
