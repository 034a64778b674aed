// Work that can be done without: a bug of ours in it costs what it was for and nothing else, and
// whoever called it says so.
#pragma once

#include <exception>
#include <new>
#include <optional>
#include <string>

namespace emend {

// What the work ended in, if it failed. Lack of memory is no bug, and goes on.
template <class Work>
std::optional<std::string> fault_of(const Work& work) {
  try {
    work();
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace emend
