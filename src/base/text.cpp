#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace emend {
namespace {

template <class T>
std::string shortest(T v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v).ptr;
  std::string text(buffer.data(), end);
  // Reads as a real number, not as an integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string scaled(double v, double step, std::span<const char* const> units) {
  size_t u = 0;
  while (std::abs(v) >= step && u + 1 < units.size()) {
    v /= step;
    ++u;
  }
  std::array<char, 64> buffer;
  int digits = std::abs(v) >= 100 || v == std::floor(v) ? 0 : std::abs(v) >= 10 ? 1 : 2;
  std::snprintf(buffer.data(), buffer.size(), "%.*f%s", digits, v, units[u]);
  return buffer.data();
}

template <class Items>
std::string joined(const Items& items, std::string_view between) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += between;
    append_text(out, items[i]);
  }
  return out;
}

}  // namespace

std::string number_text(double v) {
  return shortest(v);
}
std::string number_text(float v) {
  return shortest(v);
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20 || u >= 0x7f) {
      std::array<char, 8> buffer;
      std::snprintf(buffer.data(), buffer.size(), "\\x%02x", u);
      out += buffer.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string join(std::span<const int64_t> items, std::string_view between) {
  return joined(items, between);
}
std::string join(std::span<const std::string> items, std::string_view between) {
  return joined(items, between);
}

std::vector<std::string> split(std::string_view s, char at) {
  std::vector<std::string> parts(1);
  for (char c : s) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool glob_match(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    for (size_t i = 0; i <= name.size(); ++i) {
      if (glob_match(pattern.substr(1), name.substr(i))) return true;
    }
    return false;
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         glob_match(pattern.substr(1), name.substr(1));
}

bool is_enabled(std::string_view name, std::span<const std::string> enable,
                std::span<const std::string> disable) {
  auto named = [&](std::span<const std::string> globs) {
    return std::any_of(globs.begin(), globs.end(),
                       [&](const std::string& g) { return glob_match(g, name); });
  };
  return !named(disable) || named(enable);
}

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  return scaled(bytes, 1024, kUnits);
}

std::string count_text(double count) {
  static constexpr const char* kUnits[] = {"", " K", " M", " G", " T", " P"};
  return scaled(count, 1000, kUnits);
}

}  // namespace emend
