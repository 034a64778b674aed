#include "ir/attrs.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "base/hash.h"
#include "ir/graph.h"

namespace emend {

struct Attrs::Record {
  std::vector<Entry> entries;
  uint64_t hash = 0;
};

namespace {

// By content, unlike numbers: a NaN is the attribute that it is.
bool same(const AttrValue& a, const AttrValue& b) {
  auto number = [](double x, double y) { return x == y || (x != x && y != y); };
  if (const auto* x = a.as<double>(), *y = b.as<double>(); x && y) return number(*x, *y);
  const auto *x = a.as<std::vector<double>>(), *y = b.as<std::vector<double>>();
  if (x && y) return std::equal(x->begin(), x->end(), y->begin(), y->end(), number);
  return a == b;
}

bool same_entry(const Attrs::Entry& a, const Attrs::Entry& b) {
  return a.first == b.first && same(a.second, b.second);
}

template <class T>
std::string list_text(const std::vector<T>& items) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    if constexpr (std::is_same_v<T, std::string>) {
      out += quoted(items[i]);
    } else {
      append_text(out, items[i]);
    }
  }
  return out + "]";
}

}  // namespace

Attrs::Attrs() : Attrs(std::vector<Entry>{}) {}

Attrs::Attrs(std::vector<Entry> entries) {
  // Sorted, the last of equal names wins.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.first < b.first; });
  auto last = std::unique(entries.rbegin(), entries.rend(),
                          [](const Entry& a, const Entry& b) { return a.first == b.first; });
  entries.erase(entries.begin(), last.base());

  struct ByContent {
    size_t operator()(const Record* r) const { return r->hash; }
    bool operator()(const Record* a, const Record* b) const {
      return a->hash == b->hash && std::equal(a->entries.begin(), a->entries.end(),
                                              b->entries.begin(), b->entries.end(), same_entry);
    }
  };
  // The pool lives as long as the process: handles are compared by address and never dangle.
  static std::mutex lock;
  static auto& pool = *new std::unordered_set<const Record*, ByContent, ByContent>();
  auto record = std::make_unique<Record>();
  record->entries = std::move(entries);
  for (const auto& [name, value] : record->entries) {
    record->hash = hash_mix(hash_mix(record->hash, hash_text(name)), value.hash());
  }
  std::lock_guard guard(lock);
  auto [it, inserted] = pool.insert(record.get());
  if (inserted) record.release();
  record_ = *it;
}

std::span<const Attrs::Entry> Attrs::entries() const {
  return record_->entries;
}
uint64_t Attrs::hash() const {
  return record_->hash;
}

const AttrValue* Attrs::find(std::string_view name) const {
  for (const auto& entry : record_->entries) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

Attrs Attrs::with(std::string_view name, AttrValue value) const {
  auto entries = record_->entries;
  entries.emplace_back(std::string(name), std::move(value));
  return Attrs(std::move(entries));
}

Attrs Attrs::without(std::string_view name) const {
  auto entries = record_->entries;
  std::erase_if(entries, [&](const Entry& e) { return e.first == name; });
  return Attrs(std::move(entries));
}

GraphRef::GraphRef(Graph g) : graph_(std::make_shared<const Graph>(std::move(g))) {}

bool operator==(const GraphRef& a, const GraphRef& b) {
  return a.graph_ == b.graph_ || (a.graph_ && b.graph_ && *a.graph_ == *b.graph_);
}

uint64_t AttrValue::hash() const {
  uint64_t kind = storage_.index();
  return std::visit(
      [&]<class T>(const T& v) -> uint64_t {
        if constexpr (std::is_same_v<T, std::string>) {
          return hash_text(v, kind);
        } else if constexpr (std::is_same_v<T, Dims> || std::is_same_v<T, std::vector<double>>) {
          return hash_bytes(v.data(), v.size() * 8, kind);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          uint64_t h = kind;
          for (const auto& s : v) h = hash_mix(h, hash_text(s));
          return h;
        } else if constexpr (std::is_same_v<T, Tensor>) {
          return hash_mix(kind, emend::hash(v));
        } else if constexpr (std::is_same_v<T, GraphRef>) {
          return hash_mix(kind, v ? emend::hash(*v) : 0);
        } else if constexpr (std::is_same_v<T, Attrs>) {
          return hash_mix(kind, v.hash());
        } else if constexpr (std::is_same_v<T, Type>) {
          return hash_text(to_text(v), kind);
        } else {
          return hash_bytes(&v, sizeof v, kind);
        }
      },
      storage_);
}

std::string to_text(const AttrValue& value) {
  return std::visit(
      []<class T>(const T& v) -> std::string {
        if constexpr (std::is_same_v<T, std::string>) {
          return quoted(v);
        } else if constexpr (std::is_same_v<T, Dims>) {
          return str("[", join(v, ","), "]");
        } else if constexpr (std::is_same_v<T, std::vector<double>> ||
                             std::is_same_v<T, std::vector<std::string>>) {
          return list_text(v);
        } else if constexpr (std::is_same_v<T, Tensor>) {
          return str("tensor ", to_text(v.type()));
        } else if constexpr (std::is_same_v<T, GraphRef>) {
          return str("graph of ", v ? v->nodes.size() : 0, " nodes");
        } else if constexpr (std::is_same_v<T, Attrs>) {
          return str("{", to_text(v), "}");
        } else if constexpr (std::is_same_v<T, DType> || std::is_same_v<T, Type>) {
          return std::string(to_text(v));
        } else {
          return str(v);
        }
      },
      value.storage());
}

std::string to_text(Attrs attrs) {
  std::string out;
  for (const auto& [name, value] : attrs.entries()) {
    out += str(out.empty() ? "[" : ", ", name, "=", to_text(value));
  }
  return out.empty() ? out : out + "]";
}

}  // namespace emend
