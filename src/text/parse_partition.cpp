// Partitions are graphs whose statements stand in groups: taken apart into both, which are then
// read for themselves.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "text/text.h"

namespace emend {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  ParsedPartition partition(const std::vector<Tensor>& pool) {
    std::string head = std::string(up_to_brace()) + "\n";
    while (!at_word("return")) {
      if (at_end()) fail_here("the graph does not end with 'return'");
      at_word("kernel") || at_word("host") ? group() : void(statement());
    }
    for (const auto& [number, line] : lines_) head += line + "\n";
    Graph g = parse_graph(head + std::string(text_.substr(at_)), pool);
    size_t next = g.inputs.size();
    for (const auto& [number, line] : lines_) {
      if (number != next++)
        throw Error(str("statements are numbered without gaps: no %", next - 1));
    }
    if (next != g.size()) throw Error("statements of a partition have no calls as operands");
    return {std::move(g), std::move(p_)};
  }

 private:
  bool at_end() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ == text_.size();
  }
  bool at_word(std::string_view word) { return !at_end() && text_.substr(at_).starts_with(word); }
  bool take(std::string_view word) {
    bool here = at_word(word);
    if (here) at_ += word.size();
    return here;
  }
  [[noreturn]] void fail_here(const std::string& reason) const {
    auto line = std::count(text_.begin(), text_.begin() + static_cast<long>(at_), '\n') + 1;
    throw Error(str("line ", line, ": ", reason));
  }

  // Past a string in quotation marks.
  void skip_string() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\';
    if (at_ >= text_.size()) fail_here("the string does not end");
  }
  std::string_view up_to_brace() {
    while (at_ < text_.size() && text_[at_] != '{') {
      if (text_[at_] == '"') skip_string();
      ++at_;
    }
    if (at_end()) fail_here("expected 'graph(...) {'");
    return text_.substr(0, ++at_);
  }

  // To the end of the line that closes all brackets.
  std::string_view rest_of_statement() {
    size_t start = at_;
    for (int depth = 0; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '"') skip_string();
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (c == '\n' && depth == 0) break;
    }
    return text_.substr(start, at_ - start);
  }

  NodeId statement() {
    at_end();
    size_t number = 0;
    std::string_view line = rest_of_statement();
    if (!line.starts_with("%")) fail_here("expected a numbered statement");
    auto [end, error] = std::from_chars(line.data() + 1, line.data() + line.size(), number);
    if (error != std::errc()) fail_here("expected a numbered statement");
    auto [it, fresh] = lines_.emplace(number, line);
    if (!fresh && it->second != line) fail_here(str("%", number, " is defined in two ways"));
    return NodeId(number);
  }

  void group() {
    NodeGroup g;
    g.host = take("host");
    if (!g.host) take("kernel");
    if (at_word("\"")) {
      size_t start = at_ + 1;
      skip_string();
      g.reason = std::string(text_.substr(start, at_++ - start));
    }
    if (!take("{")) fail_here("expected '{'");
    while (!take("}")) {
      if (at_end()) fail_here("the group does not end");
      bool stored = take("store");
      g.nodes.push_back(statement());
      if (stored) g.stores.push_back(g.nodes.back());
    }
    p_.groups.push_back(std::move(g));
  }

  std::string_view text_;
  size_t at_ = 0;
  std::map<size_t, std::string> lines_;  // by their numbers, which are their places in the graph
  Partition p_;
};

}  // namespace

ParsedPartition parse_partition(std::string_view text, const std::vector<Tensor>& pool) {
  return Scanner(text).partition(pool);
}

}  // namespace emend
