#include "onnx/write.h"

#include <algorithm>
#include <functional>
#include <map>
#include <protozero/buffer_string.hpp>
#include <protozero/types.hpp>
#include <protozero/varint.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "onnx/external.h"
#include "onnx/read.h"
#include "onnx/walk.h"

namespace emend::onnx {
namespace {

using protozero::pbf_wire_type;

// Tensors that are written as something else than what they hold.
using Stubs = std::map<const Tensor*, Tensor>;

// The length of every counted run, in the order of writing. A message states its length before its
// content; measuring once and remembering keeps writing linear however deep messages nest.
using Lengths = std::vector<uint64_t>;

// The first of two passes over the same encoding: only counts.
class Measure {
 public:
  void varint(uint64_t value) {
    size_ += static_cast<uint64_t>(protozero::length_of_varint(value));
  }
  void bytes(std::span<const std::byte> bytes) { size_ += bytes.size(); }
  template <class Content>
  void counted(const Content& content) {
    const size_t slot = lengths_.size();
    lengths_.push_back(0);
    const uint64_t before = size_;
    content();
    lengths_[slot] = size_ - before;
    varint(lengths_[slot]);
  }
  uint64_t size() const { return size_; }
  Lengths take_lengths() { return std::move(lengths_); }

 private:
  uint64_t size_ = 0;
  Lengths lengths_;
};

using Target = std::function<void(std::span<const std::byte>)>;

// The second pass: small things are gathered, large ones handed to the target as they lie.
class Emit {
 public:
  Emit(Lengths lengths, const Target& target) : lengths_(std::move(lengths)), target_(target) {}

  void varint(uint64_t value) { protozero::add_varint_to_buffer(&buffer_, value); }
  void bytes(std::span<const std::byte> bytes) {
    constexpr size_t kLarge = 1 << 16;
    if (bytes.size() < kLarge) {
      buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    if (buffer_.size() + bytes.size() >= kLarge) flush();
    if (bytes.size() >= kLarge) target_(bytes);
  }
  template <class Content>
  void counted(const Content& content) {
    varint(lengths_[next_++]);
    content();
  }
  void flush() {
    target_(std::as_bytes(std::span(buffer_)));
    buffer_.clear();
  }

 private:
  Lengths lengths_;
  size_t next_ = 0;
  std::string buffer_;
  const Target& target_;
};

template <class Out>
class Encoder {
 public:
  Encoder(Out& out, const Stubs& stubs) : out_(out), stubs_(stubs) {}

  template <class Message>
  void message(const Message& message) {
    std::apply([&](const auto&... fields) { (field(message, fields), ...); }, kFields<Message>);
  }

 private:
  template <class Message, class Member>
  void field(const Message& message, const Field<Message, Member>& field) {
    const Member& member = message.*field.member;
    if constexpr (kIsList<Member>) {
      if (field.packed) {
        packed(field.number, member);
      } else {
        for (const auto& element : member) value(field.number, element);
      }
    } else if constexpr (kIsPackedList<Member>) {
      if (!member.empty()) value(field.number, member);
    } else if constexpr (kIsOptional<Member>) {
      if (member) value(field.number, *member);
    } else if constexpr (kIsMessage<Member>) {
      value(field.number, member);
    } else {
      if (member != Member{} || was_seen(message, field.number)) value(field.number, member);
    }
  }

  template <class Alternative, class Message, class Member>
  void field(const Message& message, const Choice<Alternative, Message, Member>& choice) {
    const auto* held = std::get_if<Alternative>(&(message.*choice.member));
    if (held) value(choice.number, *held);
  }

  template <class T>
  void value(uint32_t number, const T& value) {
    if constexpr (kIsNumber<T>) {
      key(number, std::is_same_v<T, float>    ? pbf_wire_type::fixed32
                  : std::is_same_v<T, double> ? pbf_wire_type::fixed64
                                              : pbf_wire_type::varint);
      bare(value);
    } else {
      key(number, pbf_wire_type::length_delimited);
      out_.counted([&] { content(value); });
    }
  }

  void content(const std::string& text) { out_.bytes(std::as_bytes(std::span(text))); }
  void content(const SharedBytes& bytes) { out_.bytes(bytes.view()); }
  template <class T>
  void content(const PackedList<T>& list) {
    out_.bytes(list.raw());
  }
  void content(const Tensor& tensor) {
    const auto stub = stubs_.find(&tensor);
    message(stub == stubs_.end() ? tensor : stub->second);
  }
  template <class Message>
  void content(const Message& nested) {
    message(nested);
  }

  template <class T>
  void packed(uint32_t number, const std::vector<T>& list) {
    if constexpr (kIsNumber<T>) {
      if (list.empty()) return;
      key(number, pbf_wire_type::length_delimited);
      out_.counted([&] {
        for (const T v : list) bare(v);
      });
    }
  }

  template <class T>
  void bare(T number) {
    if constexpr (std::is_floating_point_v<T>) {
      out_.bytes(std::as_bytes(std::span(&number, 1)));  // the wire is little-endian, as we are
    } else {
      out_.varint(
          static_cast<uint64_t>(number));  // negative numbers as 64 bits, whatever their type
    }
  }

  void key(uint32_t number, pbf_wire_type type) {
    out_.varint(protozero::tag_and_type(number, type));
  }

  Out& out_;
  const Stubs& stubs_;
};

template <class Message>
Measure measure(const Message& message, const Stubs& stubs = {}) {
  Measure out;
  Encoder(out, stubs).message(message);
  return out;
}

template <class Message>
void emit(const Message& message, const Target& target, const Stubs& stubs = {}) {
  Emit out(measure(message, stubs).take_lengths(), target);
  Encoder(out, stubs).message(message);
  out.flush();
}

template <class Message>
std::string to_string(const Message& message) {
  std::string text;
  emit(message, [&](std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return text;
}

void refuse_external(const Model& model) {
  try {
    for_each_tensor(model, [](const auto&, const Tensor& tensor) {
      if (tensor.data_location != DataLocation::kExternal) return;
      throw FieldError{.path = {}, .reason = "its elements are in another file and were not read"};
    });
  } catch (const FieldError& e) {
    throw Error(e.reason).note(e.path);
  }
}

// A tensor and where its elements begin in the data file.
struct Placed {
  const Tensor* tensor;
  uint64_t offset;
};

std::vector<Placed> place_beside(const Model& model, uint64_t small) {
  std::vector<Placed> placed;
  uint64_t end = 0;
  // Constants in attributes stay inline: few runtimes look for their elements elsewhere.
  for_each_tensor(model, [&](const auto& parent, const Tensor& tensor) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(parent)>, Graph>) {
      if (!tensor.raw_data || tensor.raw_data->size() < small) return;
      const uint64_t offset = (end + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
      placed.push_back({&tensor, offset});
      end = offset + tensor.raw_data->size();
    }
  });
  return placed;
}

Stubs make_stubs(const std::vector<Placed>& placed, const std::string& location) {
  Stubs stubs;
  for (const auto& [tensor, offset] : placed) {
    Tensor stub = *tensor;
    stub.external_data = {{"location", location},
                          {"offset", std::to_string(offset)},
                          {"length", std::to_string(tensor->raw_data->size())}};
    stub.raw_data.reset();
    stub.data_location = DataLocation::kExternal;
    stubs.emplace(tensor, std::move(stub));
  }
  return stubs;
}

void write_data(const std::vector<Placed>& placed, AtomicFile& file) {
  uint64_t end = 0;
  for (const auto& [tensor, offset] : placed) {
    file.write(std::string(offset - end, '\0'));
    file.write(tensor->raw_data->view());
    end = offset + tensor->raw_data->size();
  }
}

void check_limit(uint64_t size, uint64_t limit, std::string_view advice) {
  if (size <= limit) return;
  throw Error(str("the model takes ", bytes_text(static_cast<double>(size)),
                  " inside one file, and readers stop at 2 GiB; ", advice));
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code none;
  return std::filesystem::equivalent(a, b, none);
}

// Whether a model keeps data in a file. What cannot be read keeps none.
bool keeps_data_in(const std::filesystem::path& model, const std::filesystem::path& file) {
  try {
    const auto locations = external_locations(read_model(model, External::kLeave));
    return std::ranges::any_of(locations, [&](const std::string& location) {
      return same_file(model.parent_path() / location, file);
    });
  } catch (const Error&) {
    return false;
  }
}

// Where the data of `model` goes: where the old one had it, or where nothing is.
std::filesystem::path data_file_of(const std::filesystem::path& model,
                                   const std::vector<std::filesystem::path>& others) {
  namespace fs = std::filesystem;
  auto is_free = [&](const fs::path& file) {
    if (!fs::exists(fs::symlink_status(file))) return true;
    return keeps_data_in(model, file) && std::ranges::none_of(others, [&](const fs::path& other) {
             return !same_file(other, model) && keeps_data_in(other, file);
           });
  };
  const std::string name = model.filename().string();
  fs::path file = model.parent_path() / (name + ".data");
  for (int i = 1; !is_free(file); ++i) file = model.parent_path() / str(name, ".", i, ".data");
  return file;
}

Target into(AtomicFile& file) {
  return [&file](std::span<const std::byte> bytes) { file.write(bytes); };
}

}  // namespace

void write_model(const Model& model, const std::filesystem::path& path,
                 const WriteOptions& options) {
  with_note(
      [&] { return "writing " + path.string(); },
      [&] {
        refuse_external(model);
        const uint64_t size = inline_size(model);
        const bool beside =
            options.placement == Placement::kBeside ||
            (options.placement == Placement::kAutomatic && size > options.inline_limit);
        const auto placed = beside ? place_beside(model, options.small) : std::vector<Placed>();
        if (placed.empty()) {
          check_limit(size, options.inline_limit, "write the weights to a data file beside it");
          AtomicFile file(path);
          emit(model, into(file));
          return file.commit(options.look);
        }
        const std::filesystem::path data_path = data_file_of(path, options.others);
        const std::string data_name = data_path.filename().string();
        check_limit(measure(model, make_stubs(placed, data_name)).size(), options.inline_limit,
                    "even with its initializers in a data file");
        AtomicFile data(data_path);
        write_data(placed, data);
        const auto write_main = [&](AtomicFile& file, const std::string& name) {
          emit(model, into(file), make_stubs(placed, name));
        };
        data.commit_as_companion_of(path, write_main, options.look);
      });
}

void write_tensor(const Tensor& tensor, const std::filesystem::path& path) {
  with_note([&] { return "writing " + path.string(); },
            [&] {
              AtomicFile file(path);
              emit(tensor, into(file));
              file.commit();
            });
}

std::string serialize(const Model& model) {
  return to_string(model);
}
std::string serialize(const Tensor& tensor) {
  return to_string(tensor);
}
std::string serialize(const Sequence& sequence) {
  return to_string(sequence);
}
std::string serialize(const Optional& optional) {
  return to_string(optional);
}

uint64_t inline_size(const Model& model) {
  return measure(model).size();
}

}  // namespace emend::onnx
