// From a partition with a kernel chosen for every group to a program: kernel texts, buffers with
// their places in one arena, and steps.
#pragma once

#include <exception>
#include <string>

#include "kernels/plan.h"

namespace emend {

// A kernel that could not be written down: a bug in it, which costs it alone.
class NotWritten : public std::exception {
 public:
  NotWritten(std::string kernel_, const std::string& reason)
      : kernel(std::move(kernel_)), text_(reason) {}
  const char* what() const noexcept override { return text_.c_str(); }
  std::string kernel;
  size_t group = 0;       // of the plan
  bool converts = false;  // it changes the layout of what the group reads or of an output

 private:
  std::string text_;
};

// Throws NotWritten.
Program generate(const Graph& g, const Plan& plan, const Catalogue& catalogue,
                 const Target& target);

}  // namespace emend
