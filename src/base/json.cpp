#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace emend {
namespace {

// Builds values while the library reads, so that objects of many members take linear time.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put({}); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(int64_t v) override { return put(v); }
  bool number_unsigned(uint64_t v) override {
    return v > INT64_MAX ? put(static_cast<double>(v)) : put(static_cast<int64_t>(v));
  }
  bool number_float(double v, const std::string&) override { return put(v); }
  bool string(std::string& v) override { return put(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(std::string& name) override {
    open_.back().members.emplace_back(std::move(name), Json());
    return true;
  }
  bool end_object() override {
    Json::Object members = std::move(open_.back().members);
    open_.pop_back();
    keep_last(members);
    return put(Json(std::move(members)));
  }
  bool end_array() override {
    Json::Array items = std::move(open_.back().items);
    open_.pop_back();
    return put(Json(std::move(items)));
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    failed_at = position;
    return false;
  }

  Json value;
  size_t failed_at = 0;
  bool too_deep = false;

 private:
  struct Level {
    bool object;
    Json::Object members = {};
    Json::Array items = {};
  };

  bool open(bool object) {
    // What recurses over values (printing, destruction) must not run out of stack.
    too_deep = open_.size() >= 1000;
    if (!too_deep) open_.push_back({object});
    return !too_deep;
  }
  bool put(Json v) {
    if (open_.empty()) {
      value = std::move(v);
    } else if (open_.back().object) {
      open_.back().members.back().second = std::move(v);
    } else {
      open_.back().items.push_back(std::move(v));
    }
    return true;
  }
  // A name that stands twice means its last value, at its first place.
  static void keep_last(Json::Object& members) {
    std::vector<size_t> order(members.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {},
                             [&](size_t i) -> const std::string& { return members[i].first; });
    std::vector<bool> gone(members.size());
    for (size_t i = 1, first = 0; i < order.size(); ++i) {
      if (members[order[i]].first != members[order[first]].first) {
        first = i;
        continue;
      }
      members[order[first]].second = std::move(members[order[i]].second);
      gone[order[i]] = true;
    }
    size_t at = 0;
    std::erase_if(members, [&](const auto&) { return gone[at++]; });
  }

  std::vector<Level> open_;
};

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
  Builder builder;
  if (nlohmann::json::sax_parse(text, &builder)) return std::move(builder.value);
  if (builder.too_deep) return fail("this JSON is nested too deeply");
  if (builder.failed_at > text.size()) return fail("this is not JSON: it ends too early");
  return fail("this is not JSON: it cannot be read at byte ", builder.failed_at);
}

}  // namespace emend
