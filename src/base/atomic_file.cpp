#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, std::string_view what, int reason) {
  throw Error(str("cannot ", what, " ", path.string(), ": ", std::strerror(reason)));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Unique among the living by process and counter; what a killed process of the same number left
// behind is stepped over by O_EXCL.
fs::path passing_name(const fs::path& target) {
  static std::atomic<unsigned> counter = 0;
  return folder_of(target) /
         str(target.filename().string(), ".", ::getpid(), "-", counter++, ".part");
}

// Makes renames inside `folder` survive a power cut. Some file systems cannot; that is no failure
// of the write itself.
void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) refuse(to, "replace", errno);
  sync_folder(folder_of(to));
}

fs::path first_free_name(const fs::path& taken) {
  for (int i = 1;; ++i) {
    fs::path name =
        folder_of(taken) / str(taken.stem().string(), ".", i, taken.extension().string());
    if (!fs::exists(name)) return name;
  }
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& target) : target_(target) {
  struct stat old {};
  const bool exists = ::stat(target_.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) refuse(target_, "write", EISDIR);
  if (exists && !S_ISREG(old.st_mode)) {
    fd_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) refuse(target_, "write", errno);
    return;
  }
  do {
    beside_ = passing_name(target_);
    fd_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) {
    const int reason = errno;
    beside_.clear();
    refuse(target_, "write", reason);
  }
  // The replaced file's permissions are kept where we may; where not, the usual ones serve too.
  if (exists) (void)!::fchmod(fd_, old.st_mode & 07777);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  EMEND_ASSERT(fd_ >= 0, "write after commit");
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), std::min(bytes.size(), size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) refuse(target_, "write", errno);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::seal() {
  EMEND_ASSERT(fd_ >= 0, "commit twice");
  // Pipes and some devices know no fsync.
  if (::fsync(fd_) != 0 && !beside_.empty()) refuse(target_, "write", errno);
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) refuse(target_, "write", errno);
}

void AtomicFile::commit_under(const fs::path& name) {
  if (beside_.empty()) return;
  rename_durably(beside_, name);
  beside_.clear();
}

void AtomicFile::commit(const Look& look) {
  seal();
  if (look && !beside_.empty()) look(beside_);
  commit_under(target_);
}

void AtomicFile::commit_as_companion_of(const fs::path& main, const WriteMain& write_main,
                                        const Look& look) {
  const auto commit_main = [&](const fs::path& companion) {
    AtomicFile file(main);
    write_main(file, companion.filename().string());
    file.commit(look);
  };
  EMEND_ASSERT(!beside_.empty(), "a companion must be an ordinary file");
  seal();

  const fs::path passing = beside_;
  const fs::path second_link = passing_name(target_);
  const bool taken = fs::exists(fs::symlink_status(target_));
  if (taken && ::link(passing.c_str(), second_link.c_str()) == 0) {
    try {
      sync_folder(folder_of(passing));
      commit_main(passing);
    } catch (...) {
      ::unlink(second_link.c_str());
      throw;
    }
    beside_.clear();  // the committed main needs it now, whatever happens below
    rename_durably(second_link, target_);
    commit_main(target_);
    ::unlink(passing.c_str());
    return;
  }
  const fs::path name = taken ? first_free_name(target_) : target_;
  commit_under(name);
  try {
    commit_main(name);
  } catch (...) {
    ::unlink(name.c_str());  // nobody names it
    throw;
  }
}

}  // namespace emend
