#include "pipeline/kept_files.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

namespace emend {

namespace fs = std::filesystem;

// The file that holds this code, and when it was written.
std::string build_text() {
  Dl_info here{};
  struct stat file {};
  if (!::dladdr(reinterpret_cast<const void*>(&build_text), &here) || !here.dli_fname) return "";
  // A program that was found in PATH is known by the name that was typed.
  bool path = std::string_view(here.dli_fname).find('/') != std::string_view::npos;
  if (::stat(path ? here.dli_fname : "/proc/self/exe", &file) != 0) return "";
  return str(file.st_size, " ", file.st_mtim.tv_sec, " ", file.st_mtim.tv_nsec);
}

bool made_private(const fs::path& folder) {
  std::error_code ignored;
  fs::create_directories(folder.parent_path(), ignored);
  ::mkdir(folder.c_str(), 0700);
  return is_private_folder(folder);
}

fs::path KeptFiles::path_of(const std::string& key) const {
  return folder_ / str(prefix_, hash_text(key), "-", hash_text(key, 1));
}

std::optional<std::string> KeptFiles::find(const std::string& key) const {
  if (!is_private_folder(folder_)) return std::nullopt;
  std::ifstream file(path_of(key), std::ios::binary);
  std::string sum;
  if (!std::getline(file, sum)) return std::nullopt;
  std::string content(std::istreambuf_iterator<char>(file), {});
  if (sum != str(hash_text(content))) return std::nullopt;
  return content;
}

void KeptFiles::keep(const std::string& key, const std::string& content) const {
  if (!made_private(folder_)) return;
  try {
    AtomicFile file(path_of(key));
    file.write(str(hash_text(content), "\n", content));
    file.commit();
  } catch (const Error&) {
    return;
  }
  std::error_code ignored;
  std::vector<fs::path> all = files();
  for (size_t i = most_; i < all.size(); ++i) fs::remove(all[i], ignored);
}

std::vector<fs::path> KeptFiles::files() const {
  std::vector<std::pair<fs::file_time_type, fs::path>> all;
  std::error_code none;
  for (fs::directory_iterator it(folder_, none), end; !none && it != end; it.increment(none)) {
    std::string name = it->path().filename().string();
    if (name.starts_with(prefix_)) all.emplace_back(it->last_write_time(none), it->path());
  }
  std::ranges::sort(all, std::greater<>());
  std::vector<fs::path> files;
  for (auto& [time, path] : all) files.push_back(std::move(path));
  return files;
}

FileUse KeptFiles::use() const {
  FileUse use;
  std::error_code none;
  for (const fs::path& file : files()) {
    auto bytes = fs::file_size(file, none);
    if (none) continue;
    ++use.count;
    use.bytes += bytes;
  }
  return use;
}

FileUse KeptFiles::clear() const {
  FileUse before = use();
  std::error_code ignored;
  for (const fs::path& file : files()) fs::remove(file, ignored);
  return before;
}

}  // namespace emend
