// While a MemoryBudget lives, what its thread makes may take so many bytes together: every tensor
// is charged when it is made, kept or not, and so is every node that ONNX is lowered to. That
// bounds memory, and the work of filling it. What asks for more throws Error; views are free. A
// stranger's file is read under one: a few bytes can name a tensor of any size, and functions that
// call functions or loops inside loops unfold without end.
#pragma once

#include <cstdint>

namespace emend {

class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t bytes);
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

 private:
  uint64_t outer_left_, bytes_;
};

// Charges the thread's budget, if it has one. `what` is named in the message.
void spend_memory(uint64_t bytes, const char* what);
// A node of a file that is inlined or lowered: about what its operators and names take.
inline void spend_node(uint64_t name_bytes) {
  spend_memory(2048 + 4 * name_bytes, "another node");
}

}  // namespace emend
