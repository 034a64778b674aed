// Small files of one kind that are kept between starts in a private folder. Each is named by a hash
// of everything that its content depends on, the very build of Emend among it, and begins with a
// sum of the rest: what a full disk or a stray hand left is as if it were not there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "run/kernel_cache.h"

namespace emend {

// This very build of Emend: another one may have other rules, operators and kernels. Empty where it
// cannot be told.
std::string build_text();
// Makes the folder where there is none. False if others may enter it.
bool made_private(const std::filesystem::path& folder);

// Whether what takes long is kept.
struct Keeping {
  std::optional<std::filesystem::path> folder;  // none: nothing is kept
  bool search_again = false;                    // what is kept is made anew
};

class KeptFiles {
 public:
  // Names begin with the prefix. At most so many stay, the latest.
  KeptFiles(std::filesystem::path folder, std::string prefix, size_t most)
      : folder_(std::move(folder)), prefix_(std::move(prefix)), most_(most) {}

  std::optional<std::string> find(const std::string& key) const;
  // Where nothing can be written, nothing is kept.
  void keep(const std::string& key, const std::string& content) const;

  FileUse use() const;
  FileUse clear() const;

 private:
  std::filesystem::path path_of(const std::string& key) const;
  std::vector<std::filesystem::path> files() const;  // latest first

  std::filesystem::path folder_;
  std::string prefix_;
  size_t most_;
};

}  // namespace emend
