// A folder with what references of a model's external data may find: a file, an empty one, a
// folder, a pipe, links that lead out and in circles. Gone when the program ends.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace emend::fuzz {

inline const std::filesystem::path& scratch_folder() {
  namespace fs = std::filesystem;
  static const struct Folder {
    Folder() {
      std::string pattern = (fs::temp_directory_path() / "emend_fuzz_XXXXXX").string();
      if (!::mkdtemp(pattern.data())) throw Error("no scratch folder");
      path = pattern;
      fs::create_directory(path / "sub");
      std::ofstream(path / "w.bin") << std::string(8192, 'w');
      std::ofstream(path / "empty.bin") << "";
      fs::create_symlink("/etc/passwd", path / "out");
      fs::create_symlink("loop", path / "loop");
      if (::mkfifo((path / "pipe").c_str(), 0600) != 0)
        throw Error("no pipe in the scratch folder");
    }
    ~Folder() { fs::remove_all(path); }
    fs::path path;
  } folder;
  return folder.path;
}

}  // namespace emend::fuzz
