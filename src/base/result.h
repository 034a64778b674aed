// Result<T>: a value or the reason why there is none. For outcomes that are ordinary: a rule that
// does not apply, a type that cannot be inferred. Same names as std::expected, which GCC 12 lacks.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/error.h"

namespace emend {

struct Failure {
  std::string reason;
};

template <class... Parts>
Failure fail(const Parts&... parts) {
  return Failure{str(parts...)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  const std::string& error() const { return std::get<1>(state_).reason; }

  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }

  // For callers to whom failure is the user's mistake.
  T value_or_throw() && {
    if (!has_value()) throw Error(error());
    return std::get<0>(std::move(state_));
  }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace emend
