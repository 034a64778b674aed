// Small text helpers. `str(a, b, ...)` joins printable things; GCC 12 has no std::format, and fmt
// in a header costs more build time than it is worth here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace emend {

// The shortest text that reads back as the same number; nan, inf and -inf spelled so.
std::string number_text(double v);
std::string number_text(float v);
// "text" with quotes, escapes for control characters, quotes and backslashes; always ASCII-safe.
std::string quoted(std::string_view s);
std::string join(std::span<const int64_t> items, std::string_view between);
std::string join(std::span<const std::string> items, std::string_view between);
std::vector<std::string> split(std::string_view s, char at);
// Does `name` match a shell-like pattern with * and ?
bool glob_match(std::string_view pattern, std::string_view name);
// What a glob of `disable` names is off, unless one of `enable` names it too.
bool is_enabled(std::string_view name, std::span<const std::string> enable,
                std::span<const std::string> disable);
// "4.2 MB" and "1.3 G" style figures, always with three significant digits.
std::string bytes_text(double bytes);
std::string count_text(double count);

inline void append_text(std::string& out, std::string_view s) {
  out += s;
}
inline void append_text(std::string& out, const char* s) {
  out += s;
}
inline void append_text(std::string& out, const std::string& s) {
  out += s;
}
inline void append_text(std::string& out, char c) {
  out += c;
}
inline void append_text(std::string& out, bool b) {
  out += b ? "true" : "false";
}
inline void append_text(std::string& out, double v) {
  out += number_text(v);
}
inline void append_text(std::string& out, float v) {
  out += number_text(v);
}
template <class I>
requires(std::is_integral_v<I> && !std::is_same_v<I, bool> &&
         !std::is_same_v<I, char>) void append_text(std::string& out, I v) {
  out += std::to_string(v);
}
// Anything with a free or member function that says how it prints: to_text(x).
template <class T>
requires requires(const T& t) {
  { to_text(t) } -> std::convertible_to<std::string>;
}
void append_text(std::string& out, const T& t) {
  out += to_text(t);
}

template <class... Parts>
std::string str(const Parts&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

}  // namespace emend
