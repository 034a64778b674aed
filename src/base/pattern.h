// Regular expressions in the syntax of RE2, for whole-string matches: literals, classes, groups,
// alternatives, repetitions, anchors, flags. A pattern is compiled to a small program whose states
// are followed all at once, so that time is linear in the text whatever the pattern.
//
//   RegularExpression p =
//   RegularExpression::compile("(\\w+)@example\\.(com|org)").value_or_throw();
//   p.matches("a@example.org");
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace emend {

class RegularExpression {
 public:
  // Fails with what is wrong with the pattern, or with what of RE2 is not supported (\p classes).
  static Result<RegularExpression> compile(std::string_view pattern);
  bool matches(std::string_view text) const;  // all of it

  // A set of characters: ranges, complemented, in either case.
  struct Class {
    std::vector<std::pair<char32_t, char32_t>> ranges;
    bool negated = false, any_case = false;
    bool contains(char32_t c) const;
  };
  enum class Do : uint8_t {
    character,
    fork,
    begin,
    end,
    line_begin,
    line_end,
    word,
    no_word,
    done
  };
  // `fork` goes on at both targets; everything else at `next`.
  struct Step {
    Do what = Do::done;
    int next = -1, other = -1;
    Class set = {};
  };

 private:
  void follow(std::vector<int>& states, std::vector<int>& seen, int mark, int at,
              std::u32string_view text, size_t position) const;
  std::vector<Step> steps_;
  int start_ = 0;
};

}  // namespace emend
