// Operators on strings. They run on the host; strings are UTF-8.
#include <algorithm>
#include <map>
#include <set>

#include "base/pattern.h"
#include "base/utf8.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

using Values = std::span<const Value>;
using Strings = std::vector<std::string>;

Result<Type> need_strings(const char* op, Types in) {
  for (const Type& t : in) {
    if (!t.is_tensor() || t.dtype != DType::string)
      return fail(op, ": strings are needed, not ", to_text(t));
  }
  return in[0];
}

// --- concat ---

Result<Type> concat_infer(const NoAttrs&, Types in) {
  auto strings = need_strings("string_concat", in);
  if (!strings) return strings;
  auto shape = broadcast_shapes(in[0].shape, in[1].shape);
  if (!shape) return fail("string_concat: ", shape.error());
  return Type::tensor(DType::string, *shape);
}

Value concat_eval(const EvalContext& c, const NoAttrs&, Values v) {
  const Dims& out = c.type.shape;
  std::vector<Read> reads;
  for (int i = 0; i < 2; ++i)
    reads.push_back(broadcast_read(i, v[static_cast<size_t>(i)].tensor.shape(), out.size()));
  Strings result(static_cast<size_t>(count(out)));
  Dims point(out.size(), 0);
  for (std::string& s : result) {
    for (const Read& r : reads) {
      const Tensor& t = v[static_cast<size_t>(r.operand)].tensor;
      Dims strides = row_major_strides(t.shape());
      int64_t at = 0;
      for (size_t d = 0; d < r.index.size(); ++d)
        at += strides[d] * evaluate(r.index[d], point.data(), nullptr);
      s += t.strings()[static_cast<size_t>(at)];
    }
    for (size_t d = out.size(); d-- > 0;) {
      if (++point[d] < out[d]) break;
      point[d] = 0;
    }
  }
  return Tensor::of_strings(out, std::move(result));
}

// --- split ---

struct StringSplit {
  std::string delimiter;  // empty: at white space
  int64_t maxsplit = -1;  // no limit if negative
  EMEND_FIELDS(delimiter, maxsplit)
};

Strings split_at(const std::string& s, const std::string& delimiter, int64_t limit) {
  Strings parts;
  size_t begin = 0;
  for (size_t at; limit != 0 && (at = s.find(delimiter, begin)) != std::string::npos; --limit) {
    parts.push_back(s.substr(begin, at - begin));
    begin = at + delimiter.size();
  }
  parts.push_back(s.substr(begin));
  return parts;
}

// Runs of white space part words; none stand at the borders.
Strings split_words(const std::string& s, int64_t limit) {
  static constexpr std::string_view kSpace = " \t\n\v\f\r";
  Strings words;
  size_t begin = s.find_first_not_of(kSpace);
  for (; begin != std::string::npos; --limit) {
    size_t end = limit == 0 ? s.find_last_not_of(kSpace) + 1 : s.find_first_of(kSpace, begin);
    words.push_back(s.substr(begin, end == std::string::npos ? end : end - begin));
    if (limit == 0 || end == std::string::npos) break;
    begin = s.find_first_not_of(kSpace, end);
  }
  return words;
}

Value split_eval(const EvalContext&, const StringSplit& a, Values v) {
  const Tensor& t = v[0].tensor;
  std::vector<Strings> all;
  size_t longest = 0;
  for (const std::string& s : t.strings()) {
    all.push_back(a.delimiter.empty() ? split_words(s, a.maxsplit)
                                      : split_at(s, a.delimiter, a.maxsplit));
    longest = std::max(longest, all.back().size());
  }
  Strings parts;
  Dims lengths;
  for (Strings& s : all) {
    lengths.push_back(static_cast<int64_t>(s.size()));
    s.resize(longest);
    std::move(s.begin(), s.end(), std::back_inserter(parts));
  }
  Dims shape = t.shape();
  shape.push_back(static_cast<int64_t>(longest));
  return Value::tuple(
      {Tensor::of_strings(shape, std::move(parts)), Tensor::of_ints(lengths).reshaped(t.shape())});
}

// --- normalize ---

struct StringNormalizer {
  std::string case_change_action = "NONE";
  bool is_case_sensitive = false;
  std::string locale;  // characters change their case by Unicode's rules, whatever it says
  Strings stopwords;
  EMEND_FIELDS(case_change_action, is_case_sensitive, locale, stopwords)
};

std::string with_case(const std::string& s, char32_t (*change)(char32_t)) {
  std::u32string text = decode_utf8(s);
  for (char32_t& c : text) c = change(c);
  return encode_utf8(text);
}

Value normalize_eval(const EvalContext&, const StringNormalizer& a, Values v) {
  const Tensor& t = v[0].tensor;
  auto key = [&](const std::string& s) {
    return a.is_case_sensitive ? s : with_case(s, lower_case);
  };
  std::set<std::string> stops;
  for (const std::string& s : a.stopwords) stops.insert(key(s));
  Strings kept;
  for (const std::string& s : t.strings()) {
    if (stops.contains(key(s))) continue;
    kept.push_back(a.case_change_action == "LOWER"   ? with_case(s, lower_case)
                   : a.case_change_action == "UPPER" ? with_case(s, upper_case)
                                                     : s);
  }
  if (kept.empty()) kept = {""};
  Dims shape = t.shape();
  shape.back() = static_cast<int64_t>(kept.size());
  return Tensor::of_strings(shape, std::move(kept));
}

Result<Type> normalize_infer(const StringNormalizer& a, Types in) {
  auto strings = need_strings("string_normalizer", in);
  if (!strings) return strings;
  bool row = in[0].rank() == 1 || (in[0].rank() == 2 && in[0].shape[0] == 1);
  if (!row) return fail("string_normalizer: ", to_text(in[0]), " is neither [c] nor [1,c]");
  const std::string& action = a.case_change_action;
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    return fail("string_normalizer: case_change_action is NONE, LOWER or UPPER, not ", action);
  // Without stop words nothing is removed; else how many strings stay is known at run time.
  if (a.stopwords.empty() && in[0].shape.back() > 0) return in[0];
  return Type::any();
}

// --- match ---

struct RegexFullMatch {
  std::string pattern;
  EMEND_FIELDS(pattern)
};

Result<Type> match_infer(const RegexFullMatch& a, Types in) {
  auto strings = need_strings("regex_full_match", in);
  if (!strings) return strings;
  auto pattern = RegularExpression::compile(a.pattern);
  if (!pattern) return fail("regex_full_match: ", pattern.error());
  return Type::tensor(DType::boolean, in[0].shape);
}

Value match_eval(const EvalContext& c, const RegexFullMatch& a, Values v) {
  auto pattern = RegularExpression::compile(a.pattern).value_or_throw();
  return Tensor::make(DType::boolean, c.type.shape, [&](std::byte* out) {
    size_t i = 0;
    for (const std::string& s : v[0].tensor.strings())
      store_int(DType::boolean, out, i++, pattern.matches(s));
  });
}

// --- n-grams ---

struct TfIdfVectorizer {
  int64_t max_gram_length = 1, max_skip_count = 0, min_gram_length = 1;
  std::string mode = "TF";
  Dims ngram_counts, ngram_indexes, pool_int64s;
  Strings pool_strings;
  std::vector<double> weights;
  EMEND_FIELDS(max_gram_length, max_skip_count, min_gram_length, mode, ngram_counts, ngram_indexes,
               pool_int64s, pool_strings, weights)
};

int64_t features(const TfIdfVectorizer& a) {
  if (a.ngram_indexes.empty()) return 0;
  // An absurd index makes an absurd shape, which is refused.
  return std::min(*std::max_element(a.ngram_indexes.begin(), a.ngram_indexes.end()), kMaxElements) +
         1;
}

Result<Type> tfidf_infer(const TfIdfVectorizer& a, Types in) {
  const char* op = "tfidf_vectorizer";
  bool strings = !a.pool_strings.empty();
  if (strings == !a.pool_int64s.empty()) return fail(op, ": needs one pool");
  if (!in[0].is_tensor() || in[0].rank() < 1 || in[0].rank() > 2)
    return fail(op, ": ", to_text(in[0]), " is neither [c] nor [n,c]");
  if (strings ? in[0].dtype != DType::string : !is_integer(in[0].dtype))
    return fail(op, ": the pool and ", to_text(in[0]), " do not fit");
  if (a.mode != "TF" && a.mode != "IDF" && a.mode != "TFIDF")
    return fail(op, ": mode is TF, IDF or TFIDF, not ", a.mode);
  if (a.min_gram_length < 1 || a.max_gram_length < a.min_gram_length || a.max_skip_count < 0 ||
      a.max_gram_length > static_cast<int64_t>(a.ngram_counts.size()))
    return fail(op, ": the lengths of n-grams do not fit");
  if (!a.weights.empty() && a.weights.size() != a.ngram_indexes.size())
    return fail(op, ": needs a weight for each n-gram");
  if (std::any_of(a.ngram_indexes.begin(), a.ngram_indexes.end(), [](int64_t i) { return i < 0; }))
    return fail(op, ": an index is negative");
  Dims shape = in[0].shape;
  shape.back() = features(a);
  return Type::tensor(DType::f32, shape);
}

// The n-grams of the pool and their numbers. `pool` lists all 1-grams, then all 2-grams, ...
template <class Token>
std::map<std::vector<Token>, size_t> grams(const TfIdfVectorizer& a,
                                           const std::vector<Token>& pool) {
  std::map<std::vector<Token>, size_t> found;
  size_t number = 0;
  for (size_t n = 1; n <= a.ngram_counts.size(); ++n) {
    auto begin = static_cast<size_t>(a.ngram_counts[n - 1]);
    auto end = n < a.ngram_counts.size() ? static_cast<size_t>(a.ngram_counts[n]) : pool.size();
    bool counted = static_cast<int64_t>(n) >= a.min_gram_length &&
                   static_cast<int64_t>(n) <= a.max_gram_length;
    if (begin > end || end > pool.size() || (end - begin) % n != 0)
      throw Error("TfIdfVectorizer: ngram_counts do not cut the pool into n-grams");
    for (size_t at = begin; at < end; at += n, ++number) {
      if (number >= a.ngram_indexes.size())
        throw Error("TfIdfVectorizer: ngram_indexes are fewer than the n-grams of the pool");
      auto first = pool.begin() + static_cast<int64_t>(at);
      if (counted)
        found.emplace(std::vector<Token>(first, first + static_cast<int64_t>(n)), number);
    }
  }
  return found;
}

template <class Token>
std::vector<double> tfidf(const TfIdfVectorizer& a, const std::vector<Token>& pool,
                          const std::vector<Token>& tokens, int64_t rows) {
  auto known = grams(a, pool);
  auto width = static_cast<size_t>(features(a));
  auto length = rows ? static_cast<int64_t>(tokens.size()) / rows : 0;
  std::vector<double> out(static_cast<size_t>(rows) * width, 0.0);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<double> counts(a.ngram_indexes.size(), 0.0);
    for (int64_t n = a.min_gram_length; n <= a.max_gram_length; ++n) {
      // Single tokens skip nothing.
      for (int64_t step = 1; step <= (n == 1 ? 1 : a.max_skip_count + 1); ++step) {
        for (int64_t at = 0; at + (n - 1) * step < length; ++at) {
          std::vector<Token> gram;
          for (int64_t k = 0; k < n; ++k)
            gram.push_back(tokens[static_cast<size_t>(row * length + at + k * step)]);
          if (auto it = known.find(gram); it != known.end()) counts[it->second] += 1;
        }
      }
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      double weight = a.weights.empty() ? 1.0 : a.weights[i];
      double score = a.mode == "TF"    ? counts[i]
                     : a.mode == "IDF" ? (counts[i] > 0 ? weight : 0.0)
                                       : counts[i] * weight;
      out[static_cast<size_t>(row) * width + static_cast<size_t>(a.ngram_indexes[i])] += score;
    }
  }
  return out;
}

Value tfidf_eval(const EvalContext& c, const TfIdfVectorizer& a, Values v) {
  const Tensor& t = v[0].tensor;
  int64_t rows = t.rank() == 2 ? t.shape()[0] : 1;
  auto scores = t.dtype() == DType::string ? tfidf(a, a.pool_strings, t.strings(), rows)
                                           : tfidf(a, a.pool_int64s, t.ints(), rows);
  return Tensor::of_reals(c.result_dtype(), c.type.shape, scores);
}

OnnxRow row(const char* type, int since) {
  return {.type = type, .since = since, .raise = [type](OnnxWriter& w) {
            return w.emit(type, w.args, given_attributes(w.attrs));
          }};
}

}  // namespace

std::vector<OpDef> string_ops() {
  return {
      define<NoAttrs>({.name = "string_concat",
                       .min_args = 2,
                       .max_args = 2,
                       .kind = Kind::host,
                       .infer = concat_infer,
                       .eval = concat_eval,
                       .onnx = {{.type = "StringConcat", .since = 20}},
                       .doc = "strings one after the other, element by element, broadcasting"}),
      define<StringSplit>(
          {.name = "string_split",
           .kind = Kind::host,
           .infer = [](const StringSplit&, Types in) -> Result<Type> {
             auto strings = need_strings("string_split", in);
             if (!strings) return strings;
             return Type::tuple({Type::any(), Type::tensor(DType::i64, in[0].shape)});
           },
           .eval = split_eval,
           .onnx = {{.type = "StringSplit",
                     .since = 20,
                     .lower = [](OnnxCall& c) -> Result<std::vector<NodeId>> {
                       StringSplit a{c.text_attr("delimiter", ""), c.int_attr("maxsplit", -1)};
                       return c.b.get_all(c.b.op("string_split", {c.inputs.at(0)}, a));
                     },
                     .raise =
                         [](OnnxWriter& w) {
                           auto a = w.attrs.as<StringSplit>();
                           std::vector<Attrs::Entry> given = {{"delimiter", a.delimiter}};
                           if (a.maxsplit >= 0) given.emplace_back("maxsplit", a.maxsplit);
                           return w.emit("StringSplit", w.args, given, 2);
                         }}},
           .doc = "the parts of each string between delimiters (words if there is none), filled up "
                  "with empty strings; and how many there are"}),
      define<StringNormalizer>({.name = "string_normalizer",
                                .kind = Kind::host,
                                .infer = normalize_infer,
                                .eval = normalize_eval,
                                .onnx = {row("StringNormalizer", 10)},
                                .doc = "strings without the stop words, in lower or upper case"}),
      define<RegexFullMatch>(
          {.name = "regex_full_match",
           .kind = Kind::host,
           .infer = match_infer,
           .eval = match_eval,
           .onnx = {{.type = "RegexFullMatch", .since = 20}},
           .doc = "whether all of each string matches a regular expression (RE2's syntax)"}),
      define<TfIdfVectorizer>(
          {.name = "tfidf_vectorizer",
           .kind = Kind::host,
           .infer = tfidf_infer,
           .eval = tfidf_eval,
           .onnx = {row("TfIdfVectorizer", 9)},
           .doc = "how often the n-grams of a pool occur, skipping up to max_skip_count tokens, "
                  "weighted"}),
  };
}

}  // namespace emend
