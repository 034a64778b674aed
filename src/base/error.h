// The three kinds of failure (decision 0006). Expected outcomes are values (result.h). A user's
// mistake that ends the request throws Error, which collects notes on its way out ("importing
// conv1.onnx", "node /layer3/Conv"). Our own bugs trip EMEND_ASSERT and throw InternalError.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "base/text.h"

namespace emend {

class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) { render(); }
  // Adds where it happened; the outermost note prints first.
  Error& note(std::string where) {
    notes_.push_back(std::move(where));
    render();
    return *this;
  }
  const char* what() const noexcept override { return text_.c_str(); }
  const std::string& message() const { return message_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void render() {
    text_.clear();
    for (auto it = notes_.rbegin(); it != notes_.rend(); ++it) text_ += *it + ": ";
    text_ += message_;
  }
  std::string message_, text_;
  std::vector<std::string> notes_;
};

class InternalError : public std::exception {
 public:
  explicit InternalError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// Runs `body`; an Error passing through gets the note `where()`.
template <class Where, class Body>
decltype(auto) with_note(const Where& where, const Body& body) {
  try {
    return body();
  } catch (Error& e) {
    e.note(where());
    throw;
  }
}

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const std::string& values);

}  // namespace emend

#define EMEND_ASSERT(condition, ...)                                                        \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::emend::assertion_failed(#condition, __FILE__, __LINE__, ::emend::str(__VA_ARGS__)); \
  } while (false)
