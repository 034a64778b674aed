// The ONNX format: what is read is what was written, and nothing bad comes through. The conformance
// data is read where EMEND_ONNX_DATA names its folder.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "onnx/read.h"
#include "onnx/tensor_data.h"
#include "onnx/write.h"
#include "support/onnx_samples.h"
#include "support/scratch.h"

namespace emend::onnx {
namespace {

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

}  // namespace
}  // namespace emend::onnx
