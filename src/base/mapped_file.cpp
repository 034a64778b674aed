#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace emend {
namespace {

// Readable bytes before and behind the file, one page each: vector code compiled by some compilers
// reads a whole register where only some of its lanes lie inside.
size_t page_bytes() {
  static const auto kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return kPage;
}
size_t room_for(size_t size) {
  return (size + page_bytes() - 1) / page_bytes() * page_bytes() + 2 * page_bytes();
}

struct Unmap {
  size_t size;
  void operator()(const void* start) const {
    auto* room = static_cast<std::byte*>(const_cast<void*>(start)) - page_bytes();
    ::munmap(room, room_for(size));
  }
};

void* map_with_margins(int fd, size_t size) {
  void* const room = ::mmap(nullptr, room_for(size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  void* const start = ::mmap(static_cast<std::byte*>(room) + page_bytes(), size, PROT_READ,
                             MAP_PRIVATE | MAP_FIXED, fd, 0);
  if (start == MAP_FAILED) {
    const int reason = errno;
    ::munmap(room, room_for(size));
    errno = reason;
  }
  return start;
}

}  // namespace

Result<SharedBytes> map_file(const std::filesystem::path& path) {
  // Opening a pipe without O_NONBLOCK would wait for a writer, perhaps for ever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail("cannot open: ", std::strerror(errno));
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return fail(known && S_ISDIR(info.st_mode) ? "is a folder" : "is not a regular file");
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) {
    ::close(fd);
    return SharedBytes();
  }
  void* const start = map_with_margins(fd, size);
  const int reason = errno;
  ::close(fd);
  if (start == MAP_FAILED) return fail("cannot map into memory: ", std::strerror(reason));
  std::shared_ptr<const void> owner(static_cast<const void*>(start), Unmap{size});
  return SharedBytes(std::move(owner), {static_cast<const std::byte*>(start), size});
}

void drop_pages(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes) {
  if (!std::get_deleter<Unmap>(owner)) return;
  const uintptr_t page = page_bytes();
  const auto start = reinterpret_cast<uintptr_t>(bytes.data());
  // Only whole pages: the ends hold bytes of neighbours.
  const uintptr_t first = (start + page - 1) / page * page,
                  last = (start + bytes.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace emend
