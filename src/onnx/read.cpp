#include "onnx/read.h"

#include <algorithm>
#include <cstring>
#include <protozero/exception.hpp>
#include <protozero/types.hpp>
#include <protozero/varint.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "onnx/external.h"
#include "onnx/fields.h"

namespace emend::onnx {
namespace {

using protozero::pbf_wire_type;

[[noreturn]] void malformed(std::string reason) {
  throw FieldError{.path = {}, .reason = std::move(reason)};
}

std::string_view wire_type_name(pbf_wire_type type) {
  switch (type) {
    case pbf_wire_type::varint:
      return "a variable-length integer";
    case pbf_wire_type::fixed64:
      return "8 fixed bytes";
    case pbf_wire_type::length_delimited:
      return "a counted run of bytes";
    case pbf_wire_type::fixed32:
      return "4 fixed bytes";
    default:
      return "an unknown encoding";
  }
}

// A place in the bytes of one message. Built on protozero's varints and not on its pbf_reader,
// which cuts lengths to 32 bits and meets wrong wire types with assert().
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Moves to the next field; false at the end.
  bool next() {
    if (at_ == end_) return false;
    const uint64_t key = varint();
    constexpr uint64_t kLargestNumber = (uint64_t{1} << 29) - 1;
    if (key >> 3 == 0 || key >> 3 > kLargestNumber) {
      malformed(str("field number ", key >> 3, " is not possible"));
    }
    number_ = static_cast<uint32_t>(key >> 3);
    wire_type_ = static_cast<pbf_wire_type>(key & 7);
    return true;
  }
  uint32_t number() const { return number_; }
  pbf_wire_type wire_type() const { return wire_type_; }

  void expect(pbf_wire_type wanted) const {
    if (wire_type_ == wanted) return;
    malformed(
        str("is encoded as ", wire_type_name(wire_type_), ", not as ", wire_type_name(wanted)));
  }

  uint64_t varint() {
    try {
      return protozero::decode_varint(&at_, end_);
    } catch (const protozero::exception&) {
      malformed(end_ - at_ < protozero::max_varint_length ? "ends in the middle of a number"
                                                          : "a number is longer than 64 bits");
    }
  }
  std::string_view fixed_bytes(size_t size) { return take(size); }
  std::string_view counted() { return take(varint()); }
  void skip() {
    switch (wire_type_) {
      case pbf_wire_type::varint:
        varint();
        break;
      case pbf_wire_type::fixed64:
        take(8);
        break;
      case pbf_wire_type::length_delimited:
        counted();
        break;
      case pbf_wire_type::fixed32:
        take(4);
        break;
      default:
        malformed(str("field ", number_, " has ", wire_type_name(wire_type_)));
    }
  }
  bool at_end() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

 private:
  std::string_view take(uint64_t size) {
    if (size > left()) malformed(str("claims ", size, " bytes where ", left(), " are left"));
    const char* const start = at_;
    at_ += size;
    return {start, static_cast<size_t>(size)};
  }

  const char* at_;
  const char* end_;
  uint32_t number_ = 0;
  pbf_wire_type wire_type_ = pbf_wire_type::unknown;
};

template <class T>
constexpr pbf_wire_type wire_type_of() {
  if constexpr (std::is_same_v<T, float>) return pbf_wire_type::fixed32;
  if constexpr (std::is_same_v<T, double>) return pbf_wire_type::fixed64;
  return pbf_wire_type::varint;
}

class Reader {
 public:
  explicit Reader(const SharedBytes& bytes)
      : owner_(bytes.owner()), memory_left_(kFreeBytes + kBytesPerByte * bytes.size()) {}

  // Adds to what `message` holds already: the wire lets a message come in several parts.
  template <class Message>
  void message(std::string_view bytes, Message& message) {
    if (++depth_ > kMaxDepth) malformed(str("nested deeper than ", kMaxDepth, " messages"));
    for (Cursor in(bytes); in.next();) {
      const bool known =
          std::apply([&](const auto&... fields) { return (field(in, message, fields) || ...); },
                     kFields<Message>);
      if (!known) in.skip();
    }
    --depth_;
  }

 private:
  template <class Message, class Member>
  bool field(Cursor& in, Message& message, const Field<Message, Member>& field) {
    if (in.number() != field.number) return false;
    Member& member = message.*field.member;
    try {
      value(in, member);
    } catch (FieldError& error) {
      size_t index = 0;
      if constexpr (kIsList<Member>) index = member.empty() ? 0 : member.size() - 1;
      error.under(path_step(field.name, member, index));
      throw;
    }
    if constexpr (!kIsList<Member> && !kIsOptional<Member>) set_seen(message, field.number);
    return true;
  }

  template <class Alternative, class Message, class Member>
  bool field(Cursor& in, Message& message, const Choice<Alternative, Message, Member>& choice) {
    if (in.number() != choice.number) return false;
    Member& member = message.*choice.member;
    if (!std::holds_alternative<Alternative>(member)) member.template emplace<Alternative>();
    try {
      value(in, std::get<Alternative>(member));
    } catch (FieldError& error) {
      error.under(choice.name);
      throw;
    }
    return true;
  }

  template <class T>
  void value(Cursor& in, T& value) {
    if constexpr (kIsNumber<T>) {
      in.expect(wire_type_of<T>());
      value = number<T>(in);
    } else {
      in.expect(pbf_wire_type::length_delimited);
      const std::string_view bytes = in.counted();
      if constexpr (kIsMessage<T>) {
        message(bytes, value);
      } else {
        assign(value, bytes);
      }
    }
  }
  template <class T>
  void value(Cursor& in, std::optional<T>& held) {
    value(in, held ? *held : held.emplace());
  }
  template <class T>
  void value(Cursor& in, Indirect<T>& held) {
    if (!held) charge(sizeof(T));
    value(in, held ? *held : held.emplace());
  }
  template <class T>
  void value(Cursor& in, std::vector<T>& list) {
    if constexpr (kIsNumber<T>) {
      if (in.wire_type() == pbf_wire_type::length_delimited) return packed(in.counted(), list);
    }
    charge(sizeof(T));
    value(in, list.emplace_back());
  }

  template <class T>
  void value(Cursor& in, PackedList<T>& list) {
    if (in.wire_type() == pbf_wire_type::length_delimited) {
      const std::string_view bytes = in.counted();
      if (bytes.size() % sizeof(T) != 0) malformed("list ends in the middle of a number");
      list.append(shared(bytes));
    } else {
      in.expect(wire_type_of<T>());
      list.append(shared(in.fixed_bytes(sizeof(T))));
    }
  }

  void assign(std::string& value, std::string_view bytes) { value = bytes; }
  void assign(SharedBytes& value, std::string_view bytes) { value = shared(bytes); }
  SharedBytes shared(std::string_view bytes) const {
    return {owner_, std::as_bytes(std::span(bytes))};
  }

  template <class T>
  static T number(Cursor& in) {
    if constexpr (std::is_floating_point_v<T>) {
      T value;
      // The wire is little-endian, as we are.
      std::memcpy(&value, in.fixed_bytes(sizeof(T)).data(), sizeof(T));
      return value;
    } else {
      return static_cast<T>(in.varint());
    }
  }

  template <class T>
  void packed(std::string_view bytes, std::vector<T>& list) {
    // A number ends at a byte without the continuation bit. An exact reservation only for the
    // first part: repeated for many small ones it would copy without end.
    const auto ends = [](char c) { return (c & 0x80) == 0; };
    const size_t count = std::is_floating_point_v<T>
                             ? bytes.size() / sizeof(T)
                             : static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), ends));
    charge(count * sizeof(T));
    if (list.empty()) list.reserve(count);
    for (Cursor in(bytes); !in.at_end();) list.push_back(number<T>(in));
  }

  void charge(uint64_t bytes) {
    if (bytes > memory_left_) {
      malformed(str("unfolds to more than ", kBytesPerByte, " times the file's size in memory"));
    }
    memory_left_ -= bytes;
  }

  std::shared_ptr<const void> owner_;
  uint64_t memory_left_;
  int depth_ = 0;
};

template <class Message>
Message read_bytes(const SharedBytes& bytes, const std::string& name) {
  Message message;
  try {
    Reader(bytes).message(bytes.text(), message);
  } catch (const FieldError& e) {
    Error error(e.reason);
    if (!e.path.empty()) error.note(e.path);
    throw error.note(name);
  }
  return message;
}

SharedBytes mapped(const std::filesystem::path& path) {
  return with_note([&] { return path.string(); }, [&] { return map_file(path).value_or_throw(); });
}

// What people hand us by mistake deserves a better word than "field number 0 is not possible".
void check_plausible(const SharedBytes& bytes, const std::string& name) {
  const auto complain = [&](std::string_view what) { throw Error(std::string(what)).note(name); };
  if (bytes.empty()) complain("the file is empty");
  if (bytes.text().starts_with("version https://git-lfs")) {
    complain("this is a Git LFS pointer, not the model itself; fetch it with 'git lfs pull'");
  }
}

}  // namespace

Model read_model(const SharedBytes& bytes, const std::string& name) {
  check_plausible(bytes, name);
  Model model = read_bytes<Model>(bytes, name);
  constexpr uint32_t kGraph = 7;
  if (!was_seen(model, kGraph)) throw Error("holds no graph; is it an ONNX model?").note(name);
  return model;
}

Model read_model(const std::filesystem::path& path, External external) {
  Model model = read_model(mapped(path), path.string());
  if (external == External::kAttach) {
    with_note([&] { return path.string(); }, [&] { attach_external(model, path.parent_path()); });
  }
  return model;
}

Tensor read_tensor(const SharedBytes& bytes, const std::string& name) {
  return read_bytes<Tensor>(bytes, name);
}
Sequence read_sequence(const SharedBytes& bytes, const std::string& name) {
  return read_bytes<Sequence>(bytes, name);
}
Optional read_optional(const SharedBytes& bytes, const std::string& name) {
  return read_bytes<Optional>(bytes, name);
}

Tensor read_tensor(const std::filesystem::path& path) {
  return read_tensor(mapped(path), path.string());
}
Sequence read_sequence(const std::filesystem::path& path) {
  return read_sequence(mapped(path), path.string());
}
Optional read_optional(const std::filesystem::path& path) {
  return read_optional(mapped(path), path.string());
}

}  // namespace emend::onnx
