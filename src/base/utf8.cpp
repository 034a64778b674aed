#include "base/utf8.h"

#include <locale.h>
#include <wctype.h>

namespace emend {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// One code point at text[at], and how many bytes it takes; zero bytes where it is malformed.
size_t sequence_at(std::string_view text, size_t at, char32_t& c) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(at);
  size_t n = lead < 0x80 ? 1 : lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead >= 0x80 && (lead < 0xC2 || lead >= 0xF5)) return 0;
  if (at + n > text.size()) return 0;
  c = n == 1 ? lead : static_cast<char32_t>(lead & (0x7F >> n));
  for (size_t i = 1; i < n; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
    c = c << 6 | static_cast<char32_t>(byte(at + i) & 0x3F);
  }
  bool overlong = (n == 3 && c < 0x800) || (n == 4 && c < 0x10000);
  bool surrogate = c >= 0xD800 && c < 0xE000;
  return overlong || surrogate || c > 0x10FFFF ? 0 : n;
}

// The C library knows the cases of all scripts, in its locale for UTF-8; without it, ASCII's.
locale_t unicode_locale() {
  static const locale_t kLocale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return kLocale;
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    char32_t c = 0;
    size_t n = sequence_at(text, at, c);
    out.push_back(n ? c : kReplacement);
    at += n ? n : 1;
  }
  return out;
}

std::string encode_utf8(std::u32string_view text) {
  std::string out;
  auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  for (char32_t c : text) {
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xC0 | c >> 6);
    } else if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    if (c >= 0x800) put(0x80 | (c >> 6 & 0x3F));
    if (c >= 0x80) put(0x80 | (c & 0x3F));
  }
  return out;
}

char32_t lower_case(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  locale_t l = unicode_locale();
  return l ? static_cast<char32_t>(towlower_l(static_cast<wint_t>(c), l)) : c;
}

char32_t upper_case(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  locale_t l = unicode_locale();
  return l ? static_cast<char32_t>(towupper_l(static_cast<wint_t>(c), l)) : c;
}

}  // namespace emend
