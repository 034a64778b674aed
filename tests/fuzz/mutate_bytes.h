// Damaging well-formed files, reproducibly. Half of the damage is blind (bits, runs, ends), and
// most of that dies in the outermost length; so the other half takes protobuf messages apart,
// changes something deep inside and puts correct lengths around it again. Knows nothing of any
// schema.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"

namespace emend {

class ByteMutator {
 public:
  explicit ByteMutator(uint64_t seed, uint64_t stream = 0) : rng_(seed, stream) {}

  uint64_t below(uint64_t end) { return rng_.bits() % end; }

  // A change or a few to a member of the corpus, which also donates parts.
  std::string mutate(const std::vector<std::string>& corpus) {
    std::string text = corpus[below(corpus.size())];
    for (uint64_t changes = 1 + (below(3) == 0 ? below(4) : 0); changes > 0; --changes) {
      const std::string& donor = corpus[below(corpus.size())];
      if (below(4) == 0) {
        change_bytes(text, donor);
      } else if (auto changed = change_message(text, donor, 0)) {
        text = *std::move(changed);
      }
    }
    return text;
  }

  // Numbers at which things tend to break.
  uint64_t telling_number() {
    switch (below(6)) {
      case 0:
        return below(4);
      case 1:
        return uint64_t{1} << below(64);
      case 2:
        return (uint64_t{1} << below(64)) - 1;
      case 3:
        return ~(uint64_t{1} << below(64));
      case 4:
        return below(300);
      default:
        return rng_.bits();
    }
  }

 private:
  struct WireField {
    uint64_t number = 0;
    unsigned type = 0;
    uint64_t value = 0;  // of a varint
    std::string bytes;   // of everything else
  };

  static void put_varint(std::string& out, uint64_t v) {
    for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
    out += static_cast<char>(v);
  }

  static std::optional<uint64_t> take_varint(const std::string& text, size_t& at) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && at < text.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(text[at++]);
      v |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return v;
    }
    return std::nullopt;
  }

  // The fields of a message, or nothing where the text is none.
  static std::optional<std::vector<WireField>> take_apart(const std::string& text) {
    std::vector<WireField> fields;
    for (size_t at = 0; at < text.size();) {
      const auto key = take_varint(text, at);
      if (!key || *key >> 3 == 0) return std::nullopt;
      WireField f{*key >> 3, static_cast<unsigned>(*key & 7), 0, ""};
      uint64_t size = f.type == 1 ? 8 : 4;
      if (f.type == 0 || f.type == 2) {
        const auto v = take_varint(text, at);
        if (!v) return std::nullopt;
        (f.type == 0 ? f.value : size) = *v;
      } else if (f.type != 1 && f.type != 5) {
        return std::nullopt;
      }
      if (f.type != 0) {
        if (size > text.size() - at) return std::nullopt;
        f.bytes = text.substr(at, size);
        at += size;
      }
      fields.push_back(std::move(f));
    }
    return fields;
  }

  static std::string put_together(const std::vector<WireField>& fields) {
    std::string out;
    for (const WireField& f : fields) {
      put_varint(out, f.number << 3 | f.type);
      if (f.type == 0) put_varint(out, f.value);
      if (f.type == 2) put_varint(out, f.bytes.size());
      if (f.type != 0) out += f.bytes;
    }
    return out;
  }

  std::optional<std::string> change_message(const std::string& text, const std::string& donor,
                                            int depth) {
    auto fields = take_apart(text);
    if (!fields || fields->empty()) return std::nullopt;
    const auto at = static_cast<std::ptrdiff_t>(below(fields->size()));
    WireField& f = (*fields)[static_cast<size_t>(at)];
    if (f.type == 2 && depth < 50 && below(16) != 0) {
      if (auto inner = change_message(f.bytes, donor, depth + 1)) {
        f.bytes = *std::move(inner);
        return put_together(*fields);
      }
    }
    // Most changes keep number and encoding of a field, so that they get past the reader.
    switch (below(16)) {
      case 0:
      case 1:
        fields->erase(fields->begin() + at);
        break;
      case 2:
      case 3: {
        const std::vector<WireField> copies(1 + below(below(20) == 0 ? 2000 : 3), f);
        fields->insert(fields->begin() + at, copies.begin(), copies.end());
        break;
      }
      case 4:
      case 5:
        std::swap(f, (*fields)[below(fields->size())]);
        break;
      case 6:
        f.number = 1 + below(30);
        break;
      case 7:
        f.type = static_cast<unsigned>(below(8));
        break;
      case 8:
      case 9:  // the content of a field of another file, at any depth of it
        if (auto part = any_field(donor); part && part->type == f.type) {
          part->number = f.number;
          f = *std::move(part);
        }
        break;
      case 10: {  // the message inside itself, again and again
        const uint64_t number = f.number;
        for (uint64_t k = 1 + below(below(10) == 0 ? 200 : 3); k > 0; --k) {
          f = {number, 2, 0, put_together({f})};
        }
        break;
      }
      default:
        f.value = telling_number();
        if (f.type != 0) change_bytes(f.bytes, donor);
        if (f.type == 1) f.bytes.resize(8);
        if (f.type == 5) f.bytes.resize(4);
    }
    return put_together(*fields);
  }

  std::optional<WireField> any_field(const std::string& text) {
    auto fields = take_apart(text);
    if (!fields || fields->empty()) return std::nullopt;
    const WireField& f = (*fields)[below(fields->size())];
    if (f.type == 2 && below(4) != 0) {
      if (auto inner = any_field(f.bytes)) return inner;
    }
    return f;
  }

  void change_bytes(std::string& text, const std::string& donor) {
    const size_t at = text.empty() ? 0 : below(text.size());
    const size_t run = text.empty() ? 0 : below(std::min<size_t>(text.size() - at, 64) + 1);
    switch (below(8)) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!text.empty()) text[at] = static_cast<char>(rng_.bits());
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.erase(at, run);
        break;
      case 4:
        text.insert(at, text.substr(at, run));
        break;
      case 5:
        text.replace(at, run, donor, donor.empty() ? 0 : below(donor.size()), run);
        break;
      case 6: {
        std::string number;
        put_varint(number, telling_number());
        text.replace(at, std::min(run, number.size()), number);
        break;
      }
      default:
        text = std::to_string(static_cast<int64_t>(telling_number()));
    }
  }

  Rng rng_;
};

}  // namespace emend
