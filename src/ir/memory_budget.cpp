#include "ir/memory_budget.h"

#include <algorithm>

#include "base/error.h"

namespace emend {
namespace {

thread_local uint64_t left = UINT64_MAX;

}  // namespace

MemoryBudget::MemoryBudget(uint64_t bytes) : outer_left_(left), bytes_(std::min(bytes, left)) {
  left = bytes_;
}

MemoryBudget::~MemoryBudget() {
  const uint64_t spent = bytes_ - left;
  left = outer_left_ - spent;
}

void spend_memory(uint64_t bytes, const char* what) {
  if (bytes > left) {
    throw Error(str("unfolds to too much: ", what, " takes ",
                    bytes_text(static_cast<double>(bytes)), ", and for a file of this size ",
                    bytes_text(static_cast<double>(left)), " are left"));
  }
  left -= bytes;
}

}  // namespace emend
