#include <gtest/gtest.h>

#include "base/pattern.h"
#include "base/utf8.h"

namespace emend {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  return RegularExpression::compile(pattern).value_or_throw().matches(text);
}

struct Case {
  const char *pattern, *yes, *no;
};

TEST(RegularExpression, MatchesWholeStrings) {
  for (const Case& c : std::vector<Case>{
           {"abc", "abc", "abcd"},
           {"a|bc|", "", "b"},
           {"a*b+c?", "aabbc", "aac"},
           {"(?:ab){2,3}", "ababab", "ab"},
           {"x{3}", "xxx", "xxxx"},
           {"a{,2}", "a{,2}", "a"},
           {"(a*)*b", "aaab", "aaa"},
           {"[a-c_-]+", "a-_c", "d"},
           {"[^a-c]", "d", "b"},
           {"[]a]+", "]a", "["},
           {"[[:digit:]x]+", "1x2", "y"},
           {"\\d+\\.\\d+", "12.5", "12x5"},
           {"\\w+@\\w+\\.(com|org)", "me@here.org", "me@here.net"},
           {"[\\D]+", "ab", "a1"},
           {"(?i)straße", "STRAßE", "strase"},
           {"(?i:a)b", "Ab", "AB"},
           {".", "é", "\n"},
           {"(?s).", "\n", ""},
           {"^a$", "a", "b"},
           {"a\\bb|a\\b c", "a c", "ab"},
           {"\\Qa.b\\E", "a.b", "axb"},
           {"\\x41\\x{e9}", "Aé", "AE"},
           {"(?P<year>\\d{4})-(?<month>\\d\\d)", "2024-06", "2024-6"},
           {"a+?b*?", "aab", "b"},
           {"", "", "a"},
       }) {
    EXPECT_TRUE(matches(c.pattern, c.yes)) << c.pattern << " " << c.yes;
    EXPECT_FALSE(matches(c.pattern, c.no)) << c.pattern << " " << c.no;
  }
}

TEST(RegularExpression, TakesLinearTimeWhereBacktrackingDoesNot) {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "a?";
  pattern += std::string(40, 'a');
  EXPECT_TRUE(matches(pattern, std::string(40, 'a')));
  EXPECT_FALSE(matches("(a|aa)+b", std::string(100000, 'a')));
}

TEST(RegularExpression, SaysWhatIsWrong) {
  for (const char* bad : {"(a", "a)", "[a", "*a", "a{3,2}", "a{1001}", "\\pL", "\\", "[b-a]",
                          "(?P<n", "(?q)a", "((a{1000}){1000}){1000}"}) {
    EXPECT_FALSE(RegularExpression::compile(bad)) << bad;
  }
}

TEST(Utf8, GoesThereAndBack) {
  std::string text = "aé€😀";
  EXPECT_EQ(decode_utf8(text), U"aé€😀");
  EXPECT_EQ(encode_utf8(decode_utf8(text)), text);
  EXPECT_EQ(decode_utf8("a\xC3"
                        "b\xFF\xED\xA0\x80"),
            U"a\uFFFDb\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lower_case(U'Ä'), U'ä');
  EXPECT_EQ(upper_case(U'ж'), U'Ж');
}

}  // namespace
}  // namespace emend
