// A regular file mapped read-only, of any size. Only pages that are looked at become resident, and
// the system may drop them again, so a large model costs no memory of ours. The mapping stays valid
// when the file is renamed or replaced (which is how we write, see atomic_file.h); somebody who
// truncates it in place while we read breaks that promise, as for every mapped reader.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "base/shared_bytes.h"

namespace emend {

// The reason of a failure does not repeat the path: "no such file", "is a folder" ...
Result<SharedBytes> map_file(const std::filesystem::path& path);

// Bytes that `owner` keeps alive are not needed for now: where they are those of a mapped file,
// their memory is given back, and they are read again when somebody looks. Else nothing happens.
void drop_pages(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes);

}  // namespace emend
