// Immutable bytes together with whatever keeps them alive: a mapped file, a vector, a string.
// Copying shares; slicing shares. So a constant of 400 MB can be read, carried through every stage
// and written again without being copied once. Equality compares contents.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emend {

class SharedBytes {
 public:
  SharedBytes() = default;
  // `owner` keeps `view` alive.
  SharedBytes(std::shared_ptr<const void> owner, std::span<const std::byte> view)
      : owner_(std::move(owner)), view_(view) {}

  // Takes the elements over, as they lie in memory.
  template <class T>
  static SharedBytes adopt(std::vector<T> elements) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(elements));
    const auto view = std::as_bytes(std::span<const T>(*owner));
    return {std::move(owner), view};
  }
  static SharedBytes adopt(std::string text) {
    auto owner = std::make_shared<const std::string>(std::move(text));
    const auto view = std::as_bytes(std::span<const char>(*owner));
    return {std::move(owner), view};
  }

  std::span<const std::byte> view() const { return view_; }
  const std::byte* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  std::string_view text() const { return {reinterpret_cast<const char*>(data()), size()}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The caller has checked that the range lies inside.
  SharedBytes slice(size_t offset, size_t size) const {
    return {owner_, view_.subspan(offset, size)};
  }

  bool operator==(const SharedBytes& other) const {
    return size() == other.size() && (empty() || std::memcmp(data(), other.data(), size()) == 0);
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> view_;
};

}  // namespace emend
