// The ONNX format: what is read is what was written, nothing bad comes through, nothing is lost
// when a write is interrupted. The conformance data is read where EMEND_ONNX_DATA names its folder.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/rng.h"
#include "onnx/external.h"
#include "onnx/read.h"
#include "onnx/tensor_data.h"
#include "onnx/write.h"
#include "support/onnx_samples.h"

namespace emend::onnx {
namespace {

namespace fs = std::filesystem;

// A folder that is gone when the test is over.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "emend_onnx_XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw Error("no scratch folder");
    folder_ = pattern;
  }
  ~Scratch() { fs::remove_all(folder_); }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  const fs::path& folder() const { return folder_; }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

 private:
  fs::path folder_;
};

std::string file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void put_file(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

uint64_t below(Rng& rng, uint64_t end) {
  return rng.bits() % end;
}

Model from_text(std::string text) {
  return read_model(SharedBytes::adopt(std::move(text)), "test.onnx");
}

// What the reader says about bytes that it refuses; "" when it accepts them.
std::string complaint(std::string text) {
  try {
    from_text(std::move(text));
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// ---- Reading and writing agree ------------------------------------------------------------------

TEST(Onnx, EveryFieldSurvives) {
  const Model model = model_with_everything();
  const std::string once = serialize(model);
  EXPECT_EQ(inline_size(model), once.size());
  const Model back = from_text(once);
  EXPECT_EQ(serialize(back), once);

  EXPECT_EQ(back.model_version, -7);
  ASSERT_EQ(back.graph.node.size(), 2U);
  const Node& node = back.graph.node[0];
  EXPECT_EQ(node.input, (std::vector<std::string>{"x", ""}));
  EXPECT_EQ(node.attribute[0].f, 0.0F);
  EXPECT_EQ(node.attribute[1].i, 0);
  EXPECT_EQ(node.attribute[2].s, "");
  EXPECT_FALSE(node.attribute[2].i);
  const Tensor& typed = *node.attribute[3].t;
  EXPECT_EQ(typed.dims, (std::vector<int64_t>{2, 0, -1}));
  EXPECT_EQ(typed.int32_data[2], std::numeric_limits<int32_t>::min());
  EXPECT_EQ(typed.int64_data[0], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(typed.uint64_data[0], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(typed.string_data[1], std::string("\0\xff", 2));
  EXPECT_EQ(typed.segment->begin, -1);
  EXPECT_FALSE(typed.raw_data);
  const Type& map = *node.attribute[12].tp;
  const Type& optional = *std::get<MapType>(map.value).value_type;
  EXPECT_TRUE(std::holds_alternative<OptionalType>(optional.value));
  const auto& dims = std::get<TensorType>(back.graph.input[0].type->value).shape->dim;
  EXPECT_TRUE(std::holds_alternative<std::monostate>(dims[0].value));
  EXPECT_EQ(std::get<int64_t>(dims[1].value), 0);
  EXPECT_EQ(std::get<std::string>(dims[2].value), "N");
  EXPECT_EQ(back.functions[0].attribute_proto[0].i, 3);
  EXPECT_EQ(back.training_info[0].initialization->initializer[0].raw_data,
            model.graph.initializer[0].raw_data);
}

TEST(Onnx, RawDataIsAView) {
  Model model;
  model.graph.initializer = {float_tensor("w", 4096, 0)};
  const SharedBytes file = SharedBytes::adopt(serialize(model));
  const Model back = read_model(file, "m");
  const SharedBytes& raw = *back.graph.initializer[0].raw_data;
  EXPECT_GE(raw.data(), file.data());
  EXPECT_LE(raw.data() + raw.size(), file.data() + file.size());
  EXPECT_EQ(raw, *model.graph.initializer[0].raw_data);
}

TEST(Onnx, PackedAndUnpackedListsReadAlike) {
  // int64_data = 7: three numbers unpacked, packed, and split over both forms.
  const std::string unpacked = "\x38\x01\x38\x7f\x38\x80\x01";
  const std::string packed = "\x3a\x04\x01\x7f\x80\x01";
  const std::string mixed = "\x38\x01\x3a\x03\x7f\x80\x01";
  for (const std::string& text : {unpacked, packed, mixed}) {
    const Tensor t = read_tensor(SharedBytes::adopt(std::string(text)), "t");
    EXPECT_EQ(t.int64_data, (std::vector<int64_t>{1, 127, 128}));
  }
  // float_data = 4, unpacked.
  const std::string floats("\x25\x00\x00\x80\x3f\x22\x04\x00\x00\x00\x40", 11);
  const Tensor t = read_tensor(SharedBytes::adopt(std::string(floats)), "t");
  ASSERT_EQ(t.float_data.size(), 2U);
  EXPECT_EQ(t.float_data[0], 1);
  EXPECT_EQ(t.float_data[1], 2);
}

TEST(Onnx, WrittenDefaultsAndMergedPartsSurvive) {
  // A domain that is there but empty differs, byte for byte, from one that is not.
  const std::string text = {"\x3a\x02\x12\x00\x42\x02\x0a\x00", 8};
  EXPECT_EQ(serialize(from_text(text)), text);
  // A graph in two parts is one graph.
  const Model merged = from_text({"\x3a\x03\x12\x01g\x3a\x03\x52\x01z", 10});
  EXPECT_EQ(merged.graph.name, "g");
  EXPECT_EQ(merged.graph.doc_string, "z");
}

TEST(Onnx, UnknownFieldsAreSkipped) {
  // Fields 200 of all four encodings before a graph.
  const std::string unknown(
      "\xc0\x0c\x05\xc2\x0c\x01x\xc1\x0c"
      "12345678"
      "\xc5\x0c"
      "1234",
      23);
  EXPECT_EQ(from_text(unknown + std::string("\x3a\x03\x12\x01g", 5)).graph.name, "g");
}

TEST(Onnx, SequencesAndOptionalsSurvive) {
  const Sequence outer = nested_sequence();
  const std::string text = serialize(outer);
  const Sequence back = read_sequence(SharedBytes::adopt(std::string(text)), "s");
  EXPECT_EQ(serialize(back), text);
  EXPECT_EQ(back.map_values[0].keys, (std::vector<int64_t>{3, -4}));
  EXPECT_EQ(back.sequence_values[0].tensor_values[0].name, "a");
  const Optional& optional = outer.optional_values[0];
  const std::string nested = serialize(optional);
  EXPECT_EQ(serialize(read_optional(SharedBytes::adopt(std::string(nested)), "o")), nested);
}

// Every model and value of the conformance suite comes back byte for byte.
TEST(Onnx, SuiteIsReadAndWrittenByteForByte) {
  const char* root = std::getenv("EMEND_ONNX_DATA");
  if (!root) GTEST_SKIP() << "EMEND_ONNX_DATA is not set: the conformance suite was not read";
  size_t models = 0, values = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".onnx") {
      ++models;
      const std::string original = file_text(path);
      ASSERT_TRUE(serialize(read_model(path, External::kLeave)) == original) << path;
    } else if (path.extension() == ".pb") {
      // Which message it is depends on the model's types; well-formed bytes of the one are seldom
      // well-formed bytes of the other, so one of them must fit exactly.
      ++values;
      const std::string original = file_text(path);
      const auto same = [&](auto read) {
        try {
          return serialize(read(path)) == original;
        } catch (const Error&) {
          return false;
        }
      };
      ASSERT_TRUE(same([](const fs::path& p) { return read_tensor(p); }) ||
                  same([](const fs::path& p) { return read_sequence(p); }) ||
                  same([](const fs::path& p) { return read_optional(p); }))
          << path;
    }
  }
  RecordProperty("models", static_cast<int>(models));
  std::cout << models << " models and " << values << " values\n";
  EXPECT_GE(models, 1765U);
}

// ---- Bad bytes ----------------------------------------------------------------------------------

// A field of counted bytes, and the same nested `depth` times.
std::string counted(int number, const std::string& content) {
  std::string text;
  const auto varint = [&](uint64_t v) {
    for (; v >= 0x80; v >>= 7) text += static_cast<char>(v | 0x80);
    text += static_cast<char>(v);
  };
  varint(static_cast<uint64_t>(number) << 3 | 2);
  varint(content.size());
  return text + content;
}

std::string nested_graphs(int depth) {
  std::string graph;  // node -> attribute -> g
  for (int i = 0; i < depth; ++i) graph = counted(1, counted(5, counted(6, graph)));
  return counted(7, graph);
}

std::string nested_types(int depth) {
  std::string type;  // sequence_type.elem_type
  for (int i = 0; i < depth; ++i) type = counted(4, counted(1, type));
  return counted(7, counted(11, counted(2, type)));
}

TEST(OnnxBadBytes, EveryPrefixIsRefusedOrWhole) {
  const std::string text = serialize(model_with_everything());
  for (size_t size = 0; size < text.size(); ++size) {
    const std::string why = complaint(text.substr(0, size));
    if (!why.empty()) {
      EXPECT_TRUE(why.starts_with("test.onnx: ")) << why;
    }
  }
}

TEST(OnnxBadBytes, MessagesNameFilePathAndReason) {
  Model model;
  model.graph.node.resize(2);
  model.graph.node[1].name = "Conv_3";
  model.graph.node[1].attribute = {int_attribute("group", 1)};
  std::string text = serialize(model);
  // Cut inside the attribute's last number, with all lengths around it left as they are.
  text.back() = '\x80';
  EXPECT_EQ(complaint(text),
            "test.onnx: graph.node[1] \"Conv_3\".attribute[0] \"group\".type: "
            "ends in the middle of a number");
  EXPECT_EQ(complaint(counted(7, counted(1, std::string("\x18\x05", 2)))),
            "test.onnx: graph.node[0].name: is encoded as a variable-length integer, "
            "not as a counted run of bytes");
  EXPECT_EQ(complaint("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
            "test.onnx: graph: claims 9223372036854775807 bytes where 0 are left");
  EXPECT_EQ(complaint(std::string("\x00", 1)), "test.onnx: field number 0 is not possible");
  EXPECT_EQ(complaint(""), "test.onnx: the file is empty");
  EXPECT_EQ(complaint("\x08\x0d"), "test.onnx: holds no graph; is it an ONNX model?");
  EXPECT_NE(complaint("version https://git-lfs.github.com/spec/v1\n").find("git lfs pull"),
            std::string::npos);
  EXPECT_EQ(complaint(counted(7, counted(5, counted(4, "abc")))),
            "test.onnx: graph.initializer[0].float_data: list ends in the middle of a number");
}

TEST(OnnxBadBytes, LengthsBeyond32BitsAreNotCutOff) {
  // 2^32 + 2 would read as 2 where lengths are kept in 32 bits.
  EXPECT_NE(complaint({"\x3a\x82\x80\x80\x80\x10\x12\x00", 8}), "");
}

TEST(OnnxBadBytes, NestingIsLimited) {
  EXPECT_EQ(complaint(nested_graphs(30)), "");
  EXPECT_EQ(complaint(nested_types(40)), "");
  for (const int depth : {60, 5000}) {
    EXPECT_NE(complaint(nested_graphs(depth)).find("nested deeper than 100"), std::string::npos);
    EXPECT_NE(complaint(nested_types(depth)).find("nested deeper than 100"), std::string::npos);
  }
}

TEST(OnnxBadBytes, MemoryIsLimitedByTheFileSize) {
  // Two bytes an attribute: in memory some hundred times that.
  std::string empties;
  for (int i = 0; i < 200'000; ++i) empties += counted(5, "");
  const std::string why = complaint(counted(7, counted(1, empties)));
  EXPECT_NE(why.find("times the file's size in memory"), std::string::npos) << why;
}

TEST(OnnxBadBytes, RandomDamageNeverDoesMoreThanThrow) {
  const std::string good = serialize(model_with_everything());
  Rng rng(7);
  int refused = 0;
  for (int run = 0; run < 20'000; ++run) {
    std::string text = good;
    for (uint64_t k = below(rng, 4) + 1; k > 0; --k) {
      text[below(rng, text.size())] = static_cast<char>(below(rng, 256));
    }
    if (below(rng, 4) == 0) text.resize(below(rng, text.size()));
    refused += !complaint(text).empty();
  }
  EXPECT_GT(refused, 1000);
}

TEST(OnnxBadBytes, FilesThatAreNone) {
  Scratch scratch;
  EXPECT_THROW(read_model(scratch / "absent.onnx"), Error);
  EXPECT_THROW(read_model(scratch.folder()), Error);
  ASSERT_EQ(::mkfifo((scratch / "pipe.onnx").c_str(), 0600), 0);
  EXPECT_THROW(read_model(scratch / "pipe.onnx"), Error);  // and does not wait for a writer
  put_file(scratch / "empty.onnx", "");
  EXPECT_THROW(read_model(scratch / "empty.onnx"), Error);
}

// ---- Elements as bytes --------------------------------------------------------------------------

template <class T>
std::vector<T> elements(const Tensor& tensor) {
  const SharedBytes bytes = tensor_bytes(tensor).value_or_throw();
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(OnnxTensorData, TypedListsBecomeRawBytes) {
  Tensor t;
  t.dims = {3};
  t.data_type = DataType::kInt8;
  t.int32_data = {1, -1, -128};
  EXPECT_EQ(elements<int8_t>(t), (std::vector<int8_t>{1, -1, -128}));
  t.data_type = DataType::kFloat16;
  t.int32_data = {0x3c00, 0xfc00, 0};
  EXPECT_EQ(elements<uint16_t>(t), (std::vector<uint16_t>{0x3c00, 0xfc00, 0}));
  t.data_type = DataType::kInt4;
  t.int32_data = {0xf1, 0x02};
  EXPECT_EQ(elements<uint8_t>(t), (std::vector<uint8_t>{0xf1, 0x02}));
  t.data_type = DataType::kUint32;
  t.uint64_data = {1, 4294967295U, 3};
  EXPECT_EQ(elements<uint32_t>(t), (std::vector<uint32_t>{1, 4294967295U, 3}));
  t.data_type = DataType::kComplex64;
  t.float_data = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(elements<float>(t), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  t.data_type = DataType::kInt64;
  t.int64_data = {1, 2};
  EXPECT_FALSE(tensor_bytes(t));
  t.data_type = DataType::kString;
  EXPECT_FALSE(tensor_bytes(t));
  t.data_type = static_cast<DataType>(-5);
  EXPECT_FALSE(tensor_bytes(t));
}

TEST(OnnxTensorData, AbsurdShapesHaveNoSize) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const auto size = [](std::vector<int64_t> dims) { return byte_size(DataType::kDouble, dims); };
  EXPECT_EQ(*size({}), 8U);
  EXPECT_EQ(*size({0, 5}), 0U);
  EXPECT_FALSE(size({-1}));
  EXPECT_FALSE(size({0, -1}));
  EXPECT_FALSE(size({kHuge, kHuge}));
  EXPECT_FALSE(size({0, kHuge, kHuge}));
  EXPECT_FALSE(size({kHuge}));  // the count fits, the bytes do not
  EXPECT_EQ(*byte_size(DataType::kInt4, std::vector<int64_t>{3}), 2U);
  EXPECT_EQ(*byte_size(DataType::kUint2, std::vector<int64_t>{5}), 2U);
}

// ---- External data ------------------------------------------------------------------------------

// Reads folder/m.onnx referring to 16 bytes of floats somewhere; the complaint or "".
std::string external_complaint(const fs::path& folder, const std::string& location,
                               const std::string& offset = "", const std::string& length = "") {
  put_file(folder / "m.onnx", serialize(model_with_reference(location, offset, length)));
  try {
    const Model model = read_model(folder / "m.onnx");
    EXPECT_EQ(model.graph.initializer[0].raw_data->size(), 16U);
    return "";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_TRUE(what.find("m.onnx: graph.initializer[0] \"w\": ") != std::string::npos) << what;
    return what;
  }
}

TEST(OnnxExternal, GoodReferencesAreFollowed) {
  Scratch scratch;
  fs::create_directories(scratch / "m/sub");
  put_file(scratch / "m/w.bin", std::string(32, 'a'));
  put_file(scratch / "m/sub/w.bin", std::string(16, 'b'));
  fs::create_symlink("w.bin", scratch / "m/inside");
  const fs::path m = scratch / "m";
  EXPECT_EQ(external_complaint(m, "w.bin", "16", "16"), "");
  EXPECT_EQ(external_complaint(m, "w.bin", "16"), "");
  EXPECT_EQ(external_complaint(m, "w.bin", "", "16"), "");
  EXPECT_EQ(external_complaint(m, "./sub/w.bin"), "");
  EXPECT_EQ(external_complaint(m, "inside", "0", "16"), "");
}

TEST(OnnxExternal, TricksAreRefused) {
  Scratch scratch;
  fs::create_directories(scratch / "m/sub");
  const fs::path m = scratch / "m";
  put_file(scratch / "secret", std::string(16, 's'));
  put_file(m / "w.bin", std::string(32, 'a'));
  fs::create_symlink("../secret", m / "out");
  fs::create_directory_symlink("..", m / "up");
  ASSERT_EQ(::mkfifo((m / "pipe").c_str(), 0600), 0);

  const char* const kHuge = "18446744073709551615";
  const struct {
    const char *location, *offset, *length, *says;
  } tricks[] = {
      {"../secret", "", "", "not inside the model's folder"},
      {"sub/../../secret", "", "", "not inside the model's folder"},
      {"/etc/passwd", "", "", "not inside the model's folder"},
      {"out", "", "", "leads out of the model's folder"},
      {"up/secret", "", "", "leads out of the model's folder"},
      {"absent", "", "", "No such file"},
      {"sub", "", "", "is a folder"},
      {"pipe", "", "", "not a regular file"},
      {"", "", "", "without a location"},
      {"w.bin", "20", "16", "ends past"},
      {"w.bin", "33", "", "ends past"},
      {"w.bin", kHuge, "16", "ends past"},
      {"w.bin", "16", kHuge, "ends past"},
      {"w.bin", "-1", "16", "not a count"},
      {"w.bin", "0x10", "16", "not a count"},
      {"w.bin", "18446744073709551616", "16", "not a count"},
      {"w.bin", "0", "8", "takes 16"},
      {"w.bin", "0", "", "takes 16"},
  };
  for (const auto& [location, offset, length, says] : tricks) {
    const std::string what = external_complaint(m, location, offset, length);
    EXPECT_NE(what.find(says), std::string::npos) << location << ": " << what;
  }
  EXPECT_NE(external_complaint(m, std::string("w.bin\0x", 7)), "");
}

TEST(OnnxExternal, UnreadReferencesAreKeptButNotWritten) {
  Scratch scratch;
  put_file(scratch / "m.onnx", serialize(model_with_reference("w.bin", "", "")));
  const Model model = read_model(scratch / "m.onnx", External::kLeave);
  EXPECT_EQ(model.graph.initializer[0].external_data[0].value, "w.bin");
  EXPECT_FALSE(model.had_external_data);
  EXPECT_FALSE(tensor_bytes(model.graph.initializer[0]));
  EXPECT_THROW(write_model(model, scratch / "out.onnx"), Error);
  EXPECT_EQ(scratch.files(), 1U);
}

// Sparse files: large on paper, small on the disk.
TEST(OnnxExternal, FilesBeyondTwoGigabytes) {
  Scratch scratch;
  constexpr uint64_t kSize = uint64_t{3} << 30;
  put_file(scratch / "w.bin", "");
  fs::resize_file(scratch / "w.bin", kSize);
  {
    std::fstream tail(scratch / "w.bin", std::ios::in | std::ios::out | std::ios::binary);
    tail.seekp(static_cast<std::streamoff>(kSize - 16));
    tail.write("the last 16 byte", 16);
  }
  EXPECT_EQ(external_complaint(scratch.folder(), "w.bin", std::to_string(kSize - 16), "16"), "");
  const Model model = read_model(scratch / "m.onnx");
  EXPECT_EQ(model.graph.initializer[0].raw_data->text(), "the last 16 byte");

  // One tensor of it all: too large for one file, so the choice falls on the data file.
  Model large;
  Tensor t;
  t.name = "all";
  t.data_type = DataType::kUint8;
  t.dims = {static_cast<int64_t>(kSize)};
  t.raw_data = map_file(scratch / "w.bin").value_or_throw();
  large.graph.initializer = {t};
  EXPECT_GT(inline_size(large), kSize);
  EXPECT_THROW(write_model(large, scratch / "o.onnx", {.placement = Placement::kInline}), Error);
  EXPECT_EQ(scratch.files(), 2U);
}

TEST(Onnx, InlineTensorsBeyondTwoGigabytesAreRead) {
  Scratch scratch;
  // The header of a model whose last field is 3 GiB of raw_data, then a hole.
  constexpr uint64_t kSize = uint64_t{3} << 30;
  const auto header = [](int number, uint64_t size) {
    std::string text(1, static_cast<char>(number << 3 | 2));
    for (; size >= 0x80; size >>= 7) text += static_cast<char>(size | 0x80);
    return text + static_cast<char>(size);
  };
  const std::string raw = header(9, kSize);
  const std::string tensor = header(5, raw.size() + kSize);
  const std::string graph = header(7, tensor.size() + raw.size() + kSize);
  const std::string all = graph + tensor + raw;
  put_file(scratch / "m.onnx", all);
  fs::resize_file(scratch / "m.onnx", all.size() + kSize);
  const Model model = read_model(scratch / "m.onnx");
  EXPECT_EQ(model.graph.initializer[0].raw_data->size(), kSize);
}

// ---- Writing files ------------------------------------------------------------------------------

TEST(OnnxWrite, DataBesideTheModel) {
  Scratch scratch;
  const Model model = model_with_weights(0);
  const fs::path path = scratch / "m.onnx";
  write_model(model, path, {.placement = Placement::kBeside});
  EXPECT_EQ(scratch.files(), 2U);
  const Model left = read_model(path, External::kLeave);
  const auto& initializers = left.graph.initializer;
  const Graph& inner = *left.graph.node[0].attribute[0].g;
  const Tensor& constant = *left.graph.node[0].attribute[1].t;
  EXPECT_EQ(initializers[1].data_location, DataLocation::kDefault);
  EXPECT_EQ(constant.data_location, DataLocation::kDefault);
  for (const Tensor* t : {&initializers[0], &initializers[2], &inner.initializer[0]}) {
    ASSERT_EQ(t->data_location, DataLocation::kExternal) << t->name;
    const auto reference = external_reference(*t).value_or_throw();
    EXPECT_EQ(reference.location, "m.onnx.data");
    EXPECT_EQ(reference.offset % kDataAlignment, 0U);
  }
  const Model back = read_model(path);
  EXPECT_TRUE(back.had_external_data);
  EXPECT_EQ(back.graph.initializer[2].raw_data, model.graph.initializer[2].raw_data);
  write_model(back, scratch / "again.onnx", {.placement = Placement::kInline});
  const Model again = read_model(scratch / "again.onnx");
  EXPECT_FALSE(again.had_external_data);
  EXPECT_EQ(again.graph.node[0].attribute[0].g->initializer[0].raw_data,
            model.graph.node[0].attribute[0].g->initializer[0].raw_data);
}

TEST(OnnxWrite, SameModelSameBytes) {
  Scratch scratch;
  for (const char* name : {"m.onnx", "m.onnx", "m.onnx"}) {
    const std::string before = fs::exists(scratch / name) ? file_text(scratch / name) : "";
    write_model(model_with_weights(1), scratch / name, {.placement = Placement::kBeside});
    if (!before.empty()) {
      EXPECT_EQ(file_text(scratch / name), before);
    }
    EXPECT_EQ(scratch.files(), 2U);
  }
  write_model(model_with_weights(1), scratch / "i.onnx");
  EXPECT_EQ(file_text(scratch / "i.onnx"), serialize(model_with_weights(1)));
}

TEST(OnnxWrite, AutomaticChoiceFollowsTheLimit) {
  Scratch scratch;
  const Model model = model_with_weights(0);
  const uint64_t size = inline_size(model);
  write_model(model, scratch / "in.onnx", {.inline_limit = size});
  EXPECT_EQ(scratch.files(), 1U);
  write_model(model, scratch / "out.onnx", {.inline_limit = size - 1});
  EXPECT_EQ(scratch.files(), 3U);
  // The constant in the attribute alone is too much.
  EXPECT_THROW(write_model(model, scratch / "no.onnx", {.inline_limit = 1000}), Error);
  EXPECT_EQ(scratch.files(), 3U);
}

TEST(OnnxWrite, AModelMayReplaceItself) {
  Scratch scratch;
  const fs::path path = scratch / "m.onnx";
  write_model(model_with_weights(5), path, {.placement = Placement::kBeside});
  Model model = read_model(path);  // views into the very file that is being replaced
  model.doc_string = "again";
  write_model(model, path, {.placement = Placement::kBeside});
  const Model back = read_model(path);
  EXPECT_EQ(back.doc_string, "again");
  EXPECT_EQ(back.graph.initializer[0].raw_data,
            model_with_weights(5).graph.initializer[0].raw_data);
  EXPECT_EQ(scratch.files(), 2U);
}

TEST(OnnxWrite, PermissionsAreKeptAndFoldersRefused) {
  Scratch scratch;
  put_file(scratch / "m.onnx", "old");
  fs::permissions(scratch / "m.onnx", fs::perms::owner_all);
  write_model(model_with_weights(0), scratch / "m.onnx");
  EXPECT_EQ(fs::status(scratch / "m.onnx").permissions(), fs::perms::owner_all);
  EXPECT_THROW(write_model(model_with_weights(0), scratch.folder()), Error);
  EXPECT_THROW(write_model(model_with_weights(0), scratch / "no/such/folder.onnx"), Error);
  EXPECT_EQ(scratch.files(), 1U);
}

TEST(OnnxWrite, PipesAreWrittenInto) {
  Scratch scratch;
  const fs::path path = scratch / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  const std::string text = serialize(model_with_weights(0));  // less than a pipe holds
  write_model(model_with_weights(0), path);
  std::string got(text.size() + 1, '\0');
  const ssize_t size = ::read(reader, got.data(), got.size());
  ::close(reader);
  ASSERT_EQ(size, static_cast<ssize_t>(text.size()));
  EXPECT_EQ(got.substr(0, text.size()), text);
  EXPECT_TRUE(fs::is_fifo(path));
}

// ---- Interrupted writes -------------------------------------------------------------------------

// A full disk, played by a limit on file sizes: the old file stays, nothing else does.
TEST(OnnxInterrupted, AFailedWriteLeavesTheOldPairAndNoLitter) {
  Scratch scratch;
  const fs::path path = scratch / "m.onnx";
  write_model(model_with_weights(1), path, {.placement = Placement::kBeside});
  const std::string model = file_text(path), data = file_text(scratch / "m.onnx.data");
  for (const rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{5000}, rlim_t{14000}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit most{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &most);
      try {
        write_model(model_with_weights(2), path, {.placement = Placement::kBeside});
        ::_exit(0);
      } catch (const Error&) {
        ::_exit(3);
      }
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 3) << limit;
    EXPECT_EQ(file_text(path), model);
    EXPECT_EQ(file_text(scratch / "m.onnx.data"), data);
    EXPECT_EQ(scratch.files(), 2U);
  }
}

// Which of the models 0, 1, 2, ... is it, all of whose weights must agree? -1 for a mixture.
int which(const Model& model) {
  const auto first = [](const Tensor& t) {
    float v;
    std::memcpy(&v, t.raw_data->data(), sizeof(v));
    return v;
  };
  const float start = first(model.graph.initializer[0]);
  const Node& node = model.graph.node[0];
  const bool whole = first(model.graph.initializer[1]) == start &&
                     first(model.graph.initializer[2]) == start + 1 &&
                     first(node.attribute[0].g->initializer[0]) == start + 2 &&
                     first(*node.attribute[1].t) == start + 3;
  return whole ? static_cast<int>(start) / 10 : -1;
}

// A child writes models 1, 2, 3 ... over one another and tells after each; it is killed at a random
// moment, and the file must be the last one told or the one after, never a mixture.
void kill_writers(Placement placement, int kills) {
  Scratch scratch;
  const fs::path path = scratch / "m.onnx";
  int last = 0;
  write_model(model_with_weights(0), path, {.placement = placement});
  Rng rng(11);
  bool in_between = false;
  for (int round = 0; round < kills; ++round) {
    int channel[2];
    ASSERT_EQ(::pipe(channel), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int next = last + 1;; ++next) {
        write_model(model_with_weights(static_cast<float>(10 * next)), path,
                    {.placement = placement});
        if (::write(channel[1], &next, sizeof(next)) != sizeof(next)) ::_exit(1);
      }
    }
    ::close(channel[1]);
    ::usleep(static_cast<useconds_t>(1000 + below(rng, 20'000)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    int told = last;
    for (int n = 0; ::read(channel[0], &n, sizeof(n)) == sizeof(n);) told = n;
    ::close(channel[0]);
    const int now = which(read_model(path));
    ASSERT_TRUE(now == told || now == told + 1) << "told " << told << ", found " << now;
    in_between |= scratch.files() > (placement == Placement::kBeside ? 2U : 1U);
    last = now;
  }
  EXPECT_GT(last, 0);
  EXPECT_TRUE(in_between) << "no kill ever hit a write: the test shows nothing";
}

TEST(OnnxInterrupted, KilledWritersLeaveOldOrNew) {
  kill_writers(Placement::kInline, 60);
}

TEST(OnnxInterrupted, KilledWritersOfPairsLeaveOldOrNew) {
  kill_writers(Placement::kBeside, 150);
}

}  // namespace
}  // namespace emend::onnx
