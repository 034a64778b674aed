// Writing so that an interruption at any point (exception, full disk, kill -9, power) leaves either
// the old file or the new one: the bytes go to a file beside the target, are forced to the disk,
// and one rename makes them visible. A failure that we live to see also removes the file beside.
//   AtomicFile file("out.onnx");  file.write(bytes);  file.commit();
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace emend {

// Every function throws Error when the system refuses. A symbolic link is replaced, not followed,
// so that a pair of files stays in one folder; a device or a pipe has nothing to protect, and bytes
// go straight into it.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Looks at the file, all of it on the disk under a passing name, before it takes the place of
  // another; what throws leaves the other. Not asked about devices.
  using Look = std::function<void(const std::filesystem::path& written)>;
  void commit(const Look& look = nullptr);

  // Replaces two files of one folder as one: this (fully written) and `main`, whose content names
  // this one's file and is written by `write_main(file, name)`.
  //
  // Two renames cannot be one step, so no moment may need them to be: as long as `main` is the old
  // one, the file that it names stays untouched. Where our name is taken, the new main is first
  // committed naming us under our passing name (old pair to new pair in one rename), then we get
  // the proper name as a second hard link, then a main naming that is committed, and last the
  // passing name goes. Every state in between is a complete pair. Where the file system has no
  // hard links, we take the first free numbered name instead.
  using WriteMain = std::function<void(AtomicFile& file, const std::string& companion_name)>;
  void commit_as_companion_of(const std::filesystem::path& main, const WriteMain& write_main,
                              const Look& look = nullptr);

 private:
  void seal();  // all bytes are on the disk, under the name of `beside_`
  void commit_under(const std::filesystem::path& name);

  std::filesystem::path target_, beside_;  // beside_ is empty for a device and after commit
  int fd_ = -1;
};

}  // namespace emend
