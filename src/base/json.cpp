#include "base/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace emend {
namespace {

Json from_library(const nlohmann::ordered_json& j) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_number()) return j.get<double>();
  if (j.is_string()) return j.get<std::string>();
  if (j.is_array()) {
    Json out = Json::array();
    for (const auto& item : j) out.push(from_library(item));
    return out;
  }
  if (j.is_object()) {
    Json out = Json::object();
    for (const auto& [name, item] : j.items()) out[name] = from_library(item);
    return out;
  }
  return {};
}

std::string string_text(const std::string& s) {
  // Bytes that are no UTF-8 are replaced: a report must not fail because a name is odd.
  return nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

double Json::number_or(double otherwise) const {
  if (auto* i = as<int64_t>()) return static_cast<double>(*i);
  if (auto* d = as<double>()) return *d;
  return otherwise;
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) value_ = Object{};
  auto* members = std::get_if<Object>(&value_);
  EMEND_ASSERT(members, "member ", name, " of what is no object");
  for (auto& [key, value] : *members) {
    if (key == name) return value;
  }
  return members->emplace_back(std::string(name), Json()).second;
}

const Json& Json::at(std::string_view name) const {
  static const Json kNull;
  if (auto* members = as<Object>()) {
    for (const auto& [key, value] : *members) {
      if (key == name) return value;
    }
  }
  return kNull;
}

Json& Json::push(Json item) {
  if (is_null()) value_ = Array{};
  auto* items = std::get_if<Array>(&value_);
  EMEND_ASSERT(items, "an item of what is no array");
  return items->emplace_back(std::move(item));
}

void Json::print(std::string& out, int indent) const {
  const int inner = indent < 0 ? indent : indent + 1;
  const auto line = [&](int depth) {
    if (depth >= 0) out += "\n" + std::string(2 * static_cast<size_t>(depth), ' ');
  };
  const std::string_view comma = indent < 0 ? ", " : ",";
  if (is_null()) out += "null";
  if (auto* b = as<bool>()) out += *b ? "true" : "false";
  if (auto* i = as<int64_t>()) out += std::to_string(*i);
  if (auto* d = as<double>()) out += std::isfinite(*d) ? number_text(*d) : "null";
  if (auto* s = as<std::string>()) out += string_text(*s);
  if (auto* items = as<Array>()) {
    out += '[';
    for (size_t i = 0; i < items->size(); ++i) {
      if (i) out += comma;
      line(inner);
      (*items)[i].print(out, inner);
    }
    if (!items->empty()) line(indent);
    out += ']';
  }
  if (auto* members = as<Object>()) {
    out += '{';
    for (size_t i = 0; i < members->size(); ++i) {
      if (i) out += comma;
      line(inner);
      out += string_text((*members)[i].first) + ": ";
      (*members)[i].second.print(out, inner);
    }
    if (!members->empty()) line(indent);
    out += '}';
  }
}

std::string Json::text() const {
  std::string out;
  print(out, 0);
  return out + "\n";
}

std::string Json::line() const {
  std::string out;
  print(out, -1);
  return out;
}

Result<Json> Json::parse(std::string_view text) {
  auto parsed = nlohmann::ordered_json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return fail("this is not JSON");
  return from_library(parsed);
}

}  // namespace emend
