// Attributes: everything about a node that is not an operand. An Attrs is a handle to an immutable,
// sorted, interned key-value record, so that comparing two is comparing two pointers (decision
// 0002). Operators read them as plain structs (`attrs.as<Conv>()`), rules and text by name.
//
//   Attrs a = to_attrs(Softmax{.axis = 1});
//   a.get<int64_t>("axis") == 1;   a.with("axis", int64_t{2}).as<Softmax>().axis == 2
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/fields.h"
#include "ir/tensor.h"

namespace emend {

struct Graph;
class AttrValue;

class Attrs {
 public:
  using Entry = std::pair<std::string, AttrValue>;

  Attrs();  // the empty record
  explicit Attrs(std::vector<Entry> entries);

  std::span<const Entry> entries() const;
  bool empty() const { return entries().empty(); }
  const AttrValue* find(std::string_view name) const;
  // The value of that name and type; trips an assertion if there is none. `get_or` for optional
  // ones.
  template <class T>
  const T& get(std::string_view name) const;
  template <class T>
  T get_or(std::string_view name, T otherwise) const;
  Attrs with(std::string_view name, AttrValue value) const;
  Attrs without(std::string_view name) const;
  // As a plain struct that lists EMEND_FIELDS; missing entries keep their defaults.
  template <class Struct>
  Struct as() const;

  uint64_t hash() const;
  friend bool operator==(Attrs a, Attrs b) { return a.record_ == b.record_; }

 private:
  struct Record;
  const Record* record_;
};

// A subgraph held by value; equal when its graph is.
class GraphRef {
 public:
  GraphRef() = default;
  explicit GraphRef(Graph g);
  const Graph& operator*() const { return *graph_; }
  const Graph* operator->() const { return graph_.get(); }
  explicit operator bool() const { return graph_ != nullptr; }
  friend bool operator==(const GraphRef& a, const GraphRef& b);

 private:
  std::shared_ptr<const Graph> graph_;
};

class AttrValue {
 public:
  using Storage = std::variant<bool, int64_t, double, std::string, DType, Dims, std::vector<double>,
                               std::vector<std::string>, Tensor, GraphRef, Attrs, Type>;
  template <class T>
  requires std::is_constructible_v<Storage, T> AttrValue(T value) : storage_(std::move(value)) {}
  AttrValue(int value) : storage_(int64_t{value}) {}
  AttrValue(const char* value) : storage_(std::string(value)) {}

  const Storage& storage() const { return storage_; }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&storage_);
  }
  uint64_t hash() const;
  friend bool operator==(const AttrValue&, const AttrValue&) = default;

 private:
  Storage storage_;
};

std::string to_text(const AttrValue& v);
std::string to_text(Attrs attrs);  // [axis=1, keepdims=true]; empty for none

template <class T>
const T& Attrs::get(std::string_view name) const {
  const AttrValue* v = find(name);
  EMEND_ASSERT(v && v->as<T>(), "attribute ", name, " in ", to_text(*this));
  return *v->as<T>();
}

template <class T>
T Attrs::get_or(std::string_view name, T otherwise) const {
  const AttrValue* v = find(name);
  return v && v->as<T>() ? *v->as<T>() : std::move(otherwise);
}

template <class Struct>
Struct Attrs::as() const {
  Struct s{};
  for_each_field(s, [&](std::string_view name, auto& member) {
    using T = std::remove_reference_t<decltype(member)>;
    if (find(name)) member = get<T>(name);
  });
  return s;
}

template <class Struct>
Attrs to_attrs(const Struct& s) {
  std::vector<Attrs::Entry> entries;
  for_each_field(s, [&](std::string_view name, const auto& member) {
    entries.emplace_back(std::string(name), member);
  });
  return Attrs(std::move(entries));
}

}  // namespace emend
