// Operands of the terms that synthesis enumerates: typed by shapes in symbolic sizes,
//   x:[a,b] y:[b,c] s:[] k:filter[f,c,r,t] I:identity[b,b] P:averaging_filter[c,c,3,3]
// and what they hold. Equations are about all of them at once, so one drawing of the sizes gives
// every operand its shape.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "synthesize/values.h"

namespace emend {

struct Input {
  // Beside anything: the constants that TASO's axioms speak of.
  enum class Content : uint8_t { any, filter, ones, identity, identity_filter, averaging_filter };
  std::string name;
  Content content = Content::any;
  // Filters are anything, too, but only operators that say so take them beside other operands.
  bool is_filter() const {
    return content == Content::filter || content == Content::identity_filter ||
           content == Content::averaging_filter;
  }
  bool is_constant() const { return content != Content::any && content != Content::filter; }
  std::vector<std::string> extents;  // products of sizes and numbers: c*2
};
std::string_view to_text(Input::Content c);

// Throws Error that quotes the place.
std::vector<Input> parse_inputs(std::string_view text);
std::string to_text(const Input& input);

using SizeTable = std::map<std::string, int64_t>;

std::vector<std::string> size_names(const std::vector<Input>& inputs);
Dims shape_of(const Input& input, const SizeTable& sizes);

// The first is for what is true in general; the others find what is only true there.
enum class SizeDraw : uint8_t {
  different,  // pairwise, and above one where the letter allows
  alike,      // mostly equal: other types agree
  single,     // some are one: operands broadcast
};
SizeTable draw_sizes(const std::vector<std::string>& names, SizeDraw how, Rng& rng,
                     int64_t largest = 6);

// A value of that shape: random, or the constant; nullopt where the constant has no such shape.
std::optional<ExactValue> draw_value(Input::Content content, const Dims& shape, Rng& rng);
// With reals, and sometimes all of one sign: the largest of many numbers is seldom below zero.
std::optional<ExactValue> draw_real_value(Input::Content content, const Dims& shape, Rng& rng);
// The constant in floating point, as guards see it; null for `any`.
std::optional<Tensor> constant_of(Input::Content content, const Dims& shape);

}  // namespace emend
