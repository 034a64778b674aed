#include "run/kernel_cache.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/text.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

enum class Kind : uint8_t { library, sum, verdict, leftover, busy, foreign };

bool all_of(std::string_view text, std::string_view alphabet) {
  return !text.empty() && text.find_first_not_of(alphabet) == std::string_view::npos;
}

bool is_alive(const std::string& pid) {
  return ::kill(static_cast<pid_t>(std::atol(pid.c_str())), 0) == 0 || errno == EPERM;
}

// The process in new-PID-N.c, probe-PID and NAME.PID-N.part; "" if it is none of these.
std::string maker_of(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  std::string rest;
  if (name.starts_with("new-")) rest = name.substr(4);
  if (name.starts_with("probe-")) rest = name.substr(6);
  if (name.ends_with(".part")) {
    auto dot = name.rfind('.', name.size() - 6);
    rest = dot == std::string::npos ? "" : name.substr(dot + 1);
  }
  std::string pid = rest.substr(0, rest.find_first_not_of(kDigits));
  return all_of(pid, kDigits) ? pid : "";
}

Kind kind_of(const fs::directory_entry& entry) {
  std::string name = entry.path().filename().string();
  if (!entry.is_regular_file() && !entry.is_symlink()) return Kind::foreign;
  if (name.starts_with("checked-") && all_of(name.substr(8), "0123456789")) return Kind::verdict;
  constexpr size_t kHash = 16;
  bool hashed = name.size() > kHash && all_of(name.substr(0, kHash), "0123456789abcdef");
  if (hashed && name.substr(kHash) == ".so") return Kind::library;
  if (hashed && name.substr(kHash) == ".so.sum") return Kind::sum;
  std::string maker = maker_of(name);
  if (maker.empty()) return Kind::foreign;
  return is_alive(maker) ? Kind::busy : Kind::leftover;
}

// Every entry of ours, seen once; those that `done` refuses are not counted.
template <class Done>
KernelCacheUse visit(const fs::path& folder, const Done& done) {
  KernelCacheUse use;
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(*it);
  for (const fs::directory_entry& entry : entries) {
    Kind kind = kind_of(entry);
    std::error_code gone;
    uint64_t bytes = entry.is_symlink() || !entry.is_regular_file() ? 0 : entry.file_size(gone);
    if (gone || kind == Kind::busy || !done(entry, kind)) continue;
    FileUse& of = kind == Kind::foreign    ? use.foreign
                  : kind == Kind::verdict  ? use.verdicts
                  : kind == Kind::leftover ? use.leftovers
                                           : use.kernels;
    of.count += kind != Kind::sum;
    of.bytes += bytes;
  }
  return use;
}

}  // namespace

bool is_private_folder(const fs::path& folder) {
  struct stat facts {};
  return ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0 &&
         ::access(folder.c_str(), W_OK | X_OK) == 0;
}

KernelCacheUse kernel_cache_use(const fs::path& folder) {
  return visit(folder, [](const fs::directory_entry&, Kind) { return true; });
}

KernelCacheUse clear_kernel_cache(const fs::path& folder) {
  return visit(folder, [](const fs::directory_entry& entry, Kind kind) {
    std::error_code ignored;
    return kind != Kind::foreign && fs::remove(entry.path(), ignored);
  });
}

}  // namespace emend
