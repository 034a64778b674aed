// While a MemoryBudget lives, what its thread makes may take so many bytes together: every tensor
// is charged when it is made, kept or not, and so is every node that ONNX is lowered to. Arithmetic
// is charged as if every operation took a byte, so that a budget bounds time as well. What asks for
// more throws Error; views are free. A stranger's file is read under one: a few bytes can name a
// tensor of any size, functions that call functions or loops inside loops unfold without end, and
// folding shape operands computes whatever the file says.
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
// The product of both many operations.
void spend_work(uint64_t elements, uint64_t operations_each);
// A node of a file that is inlined or lowered: about what its operators and names take.
inline void spend_node(uint64_t name_bytes) {
  spend_memory(2048 + 4 * name_bytes, "another node");
}

}  // namespace emend
