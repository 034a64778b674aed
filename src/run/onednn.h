// oneDNN, loaded when it is there: $EMEND_ONEDNN, else libdnnl.so.3 where the loader finds it.
// Programs that do not call it run without it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/library_call.h"

namespace emend {

// The version that was loaded, or why none was.
struct OnednnState {
  bool loaded = false;
  std::string text;
};
const OnednnState& onednn_state();

// The library computes it, and not only by its slow reference.
bool onednn_takes(const LibraryCall& call);

// The calls of one step, ready: the library's objects, and constant weights stored as it likes
// them. Nothing of it is written to by runs; what they write to is in Bound.
class OnednnStep {
 public:
  // `buffers` has the memory of constants in their places, which is only read here.
  OnednnStep(std::span<const LibraryCall> calls, std::span<const void* const> buffers);
  ~OnednnStep();

  struct Bound;
  std::shared_ptr<Bound> bind() const;
  // False if the library could not (it may be out of memory).
  bool run(Bound& bound, void* const* buffers, int64_t first, int64_t last) const;
  size_t weight_bytes() const;
  bool packs(int64_t buffer) const;  // a constant that is not read again

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace emend
