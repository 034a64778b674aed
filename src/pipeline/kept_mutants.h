// What is known of mutants (mutate/manager.h), kept between starts: one file beside the kept
// searches, for one build of Emend.
#pragma once

#include <filesystem>

#include "mutate/manager.h"
#include "run/kernel_cache.h"

namespace emend {

class KeptMutants {
 public:
  explicit KeptMutants(const std::filesystem::path& folder) : file_(folder / "mutants") {}

  // Nothing where nothing was kept, or what is there cannot be read.
  MutationManager read() const;
  // Where nothing can be written, nothing is kept.
  void keep(const MutationManager& m) const;

  FileUse use() const;
  FileUse clear() const;

 private:
  std::filesystem::path file_;
};

}  // namespace emend
