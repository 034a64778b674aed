// While a TensorBudget lives, the tensors that its thread makes may take so many bytes together,
// counted when they are made whether they are kept or not: that bounds memory, and the work of
// filling it. What asks for more throws Error; views are free. A stranger's file is read under one,
// since a few bytes can name a tensor of any size.
#pragma once

#include <cstdint>

namespace emend {

class TensorBudget {
 public:
  explicit TensorBudget(uint64_t bytes);
  ~TensorBudget();
  TensorBudget(const TensorBudget&) = delete;
  TensorBudget& operator=(const TensorBudget&) = delete;

 private:
  uint64_t outer_left_, bytes_;
};

}  // namespace emend
