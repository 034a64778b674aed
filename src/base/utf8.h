// Text as code points, for what looks at characters: case and patterns. Bytes that are not UTF-8
// become U+FFFD, one each.
#pragma once

#include <string>
#include <string_view>

namespace emend {

std::u32string decode_utf8(std::string_view text);
std::string encode_utf8(std::u32string_view text);

// One character's other case by the Unicode rules for single characters; itself if it has none.
char32_t lower_case(char32_t c);
char32_t upper_case(char32_t c);

}  // namespace emend
