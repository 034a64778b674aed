// Files for a test: a folder of its own, and whole files in and out.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace emend {

namespace fs = std::filesystem;

// A folder that is gone when the test is over.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "emend_test_XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw Error("no scratch folder");
    folder_ = pattern;
  }
  ~Scratch() { fs::remove_all(folder_); }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  const fs::path& folder() const { return folder_; }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

 private:
  fs::path folder_;
};

inline std::string file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void put_file(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace emend
