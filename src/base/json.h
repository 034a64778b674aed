// JSON values, for reports to machines and for small configuration files. Objects keep the order in
// which they were filled, so that the same facts give the same bytes.
//   Json j = Json::object();  j["schema"] = 1;  j["models"].push("a.onnx");  j.text();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace emend {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;  // null
  Json(bool v) : value_(v) {}
  Json(double v) : value_(v) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(const char* v) : value_(std::string(v)) {}
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool>) Json(I v)
      : value_(static_cast<int64_t>(v)) {}
  explicit Json(Array a) : value_(std::move(a)) {}
  explicit Json(Object o) : value_(std::move(o)) {}  // of different names
  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }

  template <class T>
  const T* as() const {  // bool, int64_t, double, std::string, Array or Object
    return std::get_if<T>(&value_);
  }
  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  // A number of either kind.
  double number_or(double otherwise) const;

  // The member of that name; null makes itself an object.
  Json& operator[](std::string_view name);
  // Null where there is none.
  const Json& at(std::string_view name) const;
  // Appends; null makes itself an array.
  Json& push(Json item);

  // Indented; numbers that JSON has no word for (nan, inf) become null.
  std::string text() const;
  // The same on one line, without a line end.
  std::string line() const;
  // A name that stands twice in an object keeps its last value.
  static Result<Json> parse(std::string_view text);

  bool operator==(const Json&) const = default;

 private:
  // `indent` counts levels; negative: all on one line.
  void print(std::string& out, int indent) const;

  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace emend
