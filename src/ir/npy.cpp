#include "ir/npy.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/atomic_file.h"
#include "base/mapped_file.h"

namespace emend {
namespace {

struct Row {
  std::string_view descr;
  DType dtype;
};

// clang-format off
constexpr Row kRows[] = {
    {"<f4", DType::f32}, {"<f8", DType::f64}, {"<f2", DType::f16},
    {"<i8", DType::i64}, {"<i4", DType::i32}, {"<i2", DType::i16}, {"|i1", DType::i8},
    {"<u8", DType::u64}, {"<u4", DType::u32}, {"<u2", DType::u16}, {"|u1", DType::u8},
    {"|b1", DType::boolean}, {"<c8", DType::c64}, {"<c16", DType::c128},
};
// clang-format on

// The text between `key` and the next of `ends` in the header, a Python dictionary.
std::string_view header_value(std::string_view header, std::string_view key,
                              std::string_view ends) {
  auto at = header.find(key);
  if (at == std::string_view::npos) throw Error(str("the header has no ", key));
  at = header.find(':', at);
  auto begin = at == std::string_view::npos ? at : header.find_first_not_of(" :", at);
  auto end = begin == std::string_view::npos ? begin : header.find_first_of(ends, begin + 1);
  if (end == std::string_view::npos) throw Error("the header is cut off");
  return header.substr(begin, end - begin);
}

Dims parse_shape(std::string_view text) {
  Dims shape;
  for (const auto& part : split(text, ',')) {
    std::string digits;
    for (char c : part) {
      if (std::isdigit(static_cast<unsigned char>(c))) digits += c;
    }
    if (digits.size() > 18) throw Error("a dimension is too large");
    if (!digits.empty()) shape.push_back(std::stoll(digits));
  }
  return shape;
}

Tensor parse(const SharedBytes& bytes) {
  std::string_view text = bytes.text();
  if (!text.starts_with("\x93NUMPY") || text.size() < 12) throw Error("is not a .npy file");
  size_t width = text[6] == 1 ? 2 : 4, length = 0;
  for (size_t i = 0; i < width; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  size_t begin = 8 + width;
  if (length > text.size() - begin) throw Error("the header is cut off");
  std::string_view header = text.substr(begin, length);
  if (header_value(header, "'fortran_order'", ",}").starts_with("True"))
    throw Error("is in Fortran order; save it in C order (numpy.ascontiguousarray)");
  auto descr = header_value(header, "'descr'", ",}");
  descr = descr.substr(std::min(descr.size(), descr.find_first_not_of("'\" ")));
  descr = descr.substr(0, descr.find_first_of("'\" "));
  auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) {
    return r.descr == descr ||
           (r.descr.substr(1) == descr.substr(std::min<size_t>(1, descr.size())) &&
            r.descr[0] == '|' && descr[0] != '>');
  });
  if (row == std::end(kRows)) throw Error(str("elements of type ", descr, " are not supported"));
  Dims shape = parse_shape(header_value(header, "'shape'", ")"));
  SharedBytes data = bytes.slice(begin + length, text.size() - begin - length);
  return Tensor(row->dtype, std::move(shape), data.owner(), data.view());
}

// A tensor of a type that NumPy has.
Tensor for_numpy(const Tensor& t) {
  if (t.dtype() == DType::string) throw Error("strings cannot be written as .npy");
  auto known = std::find_if(std::begin(kRows), std::end(kRows),
                            [&](const Row& r) { return r.dtype == t.dtype(); });
  if (known != std::end(kRows)) return t;
  if (t.dtype() == DType::bf16) {
    return Tensor::make(DType::u16, t.shape(), [&](std::byte* out) {
      if (!t.bytes().empty()) std::memcpy(out, t.data(), t.bytes().size());
    });
  }
  DType holder = is_float(t.dtype()) ? DType::f32 : DType::i8;
  return Tensor::make(holder, t.shape(), [&](std::byte* out) {
    for (int64_t i = 0; i < t.count(); ++i)
      store_real(holder, out, static_cast<size_t>(i), t.real(i));
  });
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  return with_note([&] { return path.string(); },
                   [&] { return parse(map_file(path).value_or_throw()); });
}

void write_npy(const Tensor& tensor, const std::filesystem::path& path) {
  Tensor t = with_note([&] { return path.string(); }, [&] { return for_numpy(tensor); });
  auto row = std::find_if(std::begin(kRows), std::end(kRows),
                          [&](const Row& r) { return r.dtype == t.dtype(); });
  std::string shape = join(t.shape(), ", ") + (t.rank() == 1 ? "," : "");
  std::string header =
      str("{'descr': '", row->descr, "', 'fortran_order': False, 'shape': (", shape, "), }");
  // The data begins at a multiple of 64, the header ends in a line break.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string start = "\x93NUMPY";
  start += '\x01';
  start += '\0';
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  AtomicFile file(path);
  file.write(start + header);
  file.write(t.bytes());
  file.commit();
}

}  // namespace emend
