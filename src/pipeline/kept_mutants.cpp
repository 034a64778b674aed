#include "pipeline/kept_mutants.h"

#include <fstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "pipeline/kept_files.h"

namespace emend {

namespace fs = std::filesystem;

MutationManager KeptMutants::read() const {
  MutationManager m;
  std::error_code none;
  if (!is_private_folder(file_.parent_path()) || !fs::is_regular_file(file_, none)) return m;
  std::ifstream file(file_, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  m.read(text, build_text());
  return m;
}

void KeptMutants::keep(const MutationManager& m) const {
  const std::string build = build_text();
  if (build.empty() || !made_private(file_.parent_path())) return;
  try {
    AtomicFile file(file_);
    file.write(m.text(build));
    file.commit();
  } catch (const Error&) {
    return;
  }
}

FileUse KeptMutants::use() const {
  std::error_code none;
  auto bytes = fs::file_size(file_, none);
  return none ? FileUse{} : FileUse{1, bytes};
}

FileUse KeptMutants::clear() const {
  FileUse before = use();
  std::error_code ignored;
  fs::remove(file_, ignored);
  return before;
}

}  // namespace emend
