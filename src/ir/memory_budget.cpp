#include "ir/memory_budget.h"

#include <algorithm>

#include "base/error.h"

namespace emend {
namespace {

constexpr uint64_t kNoLimit = UINT64_MAX;

thread_local uint64_t left = kNoLimit;

}  // namespace

MemoryBudget::MemoryBudget(uint64_t bytes) : outer_left_(left), bytes_(std::min(bytes, left)) {
  left = bytes_;
}

MemoryBudget::~MemoryBudget() {
  const uint64_t spent = bytes_ - left;
  left = outer_left_ == kNoLimit ? kNoLimit : outer_left_ - spent;
}

void spend_memory(uint64_t bytes, const char* what) {
  if (left == kNoLimit) return;
  if (bytes > left) {
    throw Error(str("unfolds to too much: ", what, " takes ",
                    bytes_text(static_cast<double>(bytes)), ", and for a file of this size ",
                    bytes_text(static_cast<double>(left)), " are left"));
  }
  left -= bytes;
}

void spend_work(uint64_t elements, uint64_t operations_each) {
  if (left == kNoLimit || elements == 0) return;
  if (operations_each > left / elements) {
    throw Error(str("unfolds to too much: ", elements, " elements of ", operations_each,
                    " operations each are to be computed before it runs"));
  }
  left -= elements * operations_each;
}

}  // namespace emend
