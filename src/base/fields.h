// The one reflection device. A plain struct lists its members once,
//   struct Softmax { int64_t axis = -1; EMEND_FIELDS(axis) };
// and gets a visitor over (name, member) pairs, from which attributes, JSON, command line flags and
// documentation follow. Default member initializers are the default values everywhere.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>

namespace emend {

// Splits "a, b, c" as written by the macro's stringification.
template <size_t N>
constexpr std::array<std::string_view, N> field_names(std::string_view list) {
  std::array<std::string_view, N> names{};
  size_t start = 0;
  for (size_t i = 0; i < N; ++i) {
    while (start < list.size() && list[start] == ' ') ++start;
    size_t end = start;
    while (end < list.size() && list[end] != ',') ++end;
    names[i] = list.substr(start, end - start);
    start = end + 1;
  }
  return names;
}

// Calls visit(name, member) for each listed member, in order.
template <class Struct, class Visit>
void for_each_field(Struct& s, Visit&& visit) {
  auto members = s.field_members();
  constexpr size_t n = std::tuple_size_v<decltype(members)>;
  constexpr auto names = field_names<n>(std::remove_const_t<Struct>::kFieldNames);
  [&]<size_t... I>(std::index_sequence<I...>) {
    (visit(names[I], std::get<I>(members)), ...);
  }
  (std::make_index_sequence<n>());
}

}  // namespace emend

#define EMEND_FIELDS(...)         \
  auto field_members() {          \
    return std::tie(__VA_ARGS__); \
  }                               \
  auto field_members() const {    \
    return std::tie(__VA_ARGS__); \
  }                               \
  static constexpr std::string_view kFieldNames = #__VA_ARGS__;
