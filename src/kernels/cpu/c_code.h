// Writing C: element types, conversions, and the functions that printed scalar bodies call. One
// text for every CPU: GCC's vectoriser and the vector width of the target do the rest. Nothing of
// a model's own words gets into it.
#pragma once

#include <string>

#include "ir/dtype.h"
#include "ir/program.h"
#include "ops/meaning.h"

namespace emend {

std::string c_storage(DType t);  // of an element in memory: float, int8_t, _Float16 ...
std::string c_work(DType t);     // of a working type: float, double, int64_t, uint64_t
// An element of memory as a value of a working type, and back.
std::string c_load(DType stored, DType work, const std::string& element);
std::string c_store(DType stored, DType work, const std::string& value);
// A value rounded to an element type, as a working type.
std::string c_rounded(DType to, DType work, const std::string& value);
// A value of one working type as one of another.
std::string c_converted(DType from, DType to, const std::string& value);
// The value of a reduction over nothing.
std::string c_neutral(Reduce how, DType result, DType work);
// Two values of a working type, reduced.
std::string c_combined(Reduce how, DType work, const std::string& a, const std::string& b);

// Everything a kernel's text refers to.
const std::string& c_prelude();
// Names the function by its content: `text` has the word ENTRY in place of the name.
KernelCode named_kernel(std::string text, int64_t tasks);

}  // namespace emend
