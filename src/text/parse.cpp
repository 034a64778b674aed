#include <cctype>
#include <charconv>
#include <map>
#include <optional>

#include "ir/unshaped.h"
#include "ops/build.h"
#include "ops/table.h"
#include "text/text.h"

namespace emend {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::vector<Tensor>& pool) : text_(text), pool_(pool) {}

  Graph whole_graph() {
    Graph g = graph();
    if (!at_end()) fail_here("text after the graph");
    return g;
  }
  Type whole_type() {
    Type t = type();
    if (!at_end()) fail_here("text after the type");
    return t;
  }

 private:
  // --- characters and words ---
  void skip() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        break;
      }
    }
  }
  bool at_end() {
    skip();
    return at_ == text_.size();
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view what) {
    skip();
    if (!text_.substr(at_).starts_with(what)) return false;
    size_t end = at_ + what.size();
    bool word = std::isalpha(static_cast<unsigned char>(what[0]));
    if (word && end < text_.size() && is_word(text_[end])) return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view what) {
    if (!take(what)) fail_here(str("expected '", what, "'"));
  }
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  std::string word() {
    skip();
    size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (start == at_) fail_here("expected a name");
    return std::string(text_.substr(start, at_ - start));
  }
  std::string string() {
    expect("\"");
    std::string out;
    while (true) {
      if (at_ >= text_.size()) fail_here("the string does not end");
      char c = text_[at_++];
      if (c == '"') return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      char e = at_ < text_.size() ? text_[at_++] : '\0';
      if (e == 'n') {
        out += '\n';
      } else if (e == 'x') {
        int code = 0;
        auto [end, error] = std::from_chars(
            text_.data() + at_, text_.data() + std::min(at_ + 2, text_.size()), code, 16);
        if (error != std::errc() || end != text_.data() + at_ + 2) fail_here("a bad escape");
        at_ += 2;
        out += static_cast<char>(code);
      } else {
        out += e;
      }
    }
  }
  std::string name() { return peek() == '"' ? string() : word(); }
  [[noreturn]] void fail_here(const std::string& reason) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      } else {
        ++column;
      }
    }
    throw Error(str("line ", line, ", column ", column, ": ", reason));
  }

  // The characters of a number, as far as they go.
  std::string number_characters() {
    skip();
    size_t start = at_;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    for (std::string_view special : {"nan", "inf"}) {
      if (text_.substr(at_).starts_with(special)) {
        at_ += special.size();
        return std::string(text_.substr(start, at_ - start));
      }
    }
    while (at_ < text_.size()) {
      char c = text_[at_];
      bool sign = (c == '-' || c == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (!std::isdigit(static_cast<unsigned char>(c)) && c != '.' && c != 'e' && c != 'E' && !sign)
        break;
      ++at_;
    }
    if (start == at_) fail_here("expected a number");
    return std::string(text_.substr(start, at_ - start));
  }
  static bool is_real(const std::string& s) {
    return s.find_first_of(".enif") != std::string::npos;
  }
  template <class T>
  T number(const std::string& s) {
    T v{};
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (error != std::errc() || end != s.data() + s.size())
      fail_here(str("'", s, "' is not a number here"));
    return v;
  }
  int64_t integer() { return number<int64_t>(number_characters()); }

  // --- types ---
  Type type() {
    if (take("any")) return Type::any();
    if (take("seq")) return wrapped(&Type::sequence);
    if (take("opt")) return wrapped(&Type::optional);
    if (take("(")) {
      std::vector<Type> items;
      while (!take(")")) {
        items.push_back(type());
        if (!take(",") && peek() != ')') fail_here("expected ',' or ')'");
      }
      return Type::tuple(std::move(items));
    }
    std::string w = word();
    auto dtype = dtype_named(w);
    if (!dtype) fail_here(str("'", w, "' is not a type"));
    if (take("[?]")) return unshaped(*dtype);
    Dims shape = dims();
    if (!checked_count(shape)) fail_here(str("shape ", shape_text(shape), " is absurd"));
    return Type::tensor(*dtype, std::move(shape));
  }
  Type wrapped(Type (*make)(Type)) {
    expect("(");
    Type t = make(type());
    expect(")");
    return t;
  }
  Dims dims() {
    expect("[");
    Dims d;
    while (!take("]")) {
      d.push_back(integer());
      if (!take(",") && peek() != ']') fail_here("expected ',' or ']'");
    }
    return d;
  }

  // --- values ---
  Tensor tensor() {
    Type t = type();
    if (!t.is_tensor()) fail_here("expected a tensor type");
    if (take("pool")) {
      expect("(");
      auto k = static_cast<size_t>(integer());
      expect(")");
      if (k >= pool_.size())
        fail_here(str("pool(", k, ") needs the constants that belong to this text"));
      if (pool_[k].type() != t) fail_here(str("pool(", k, ") is ", to_text(pool_[k].type())));
      return pool_[k];
    }
    if (take("hex")) return hex_tensor(t);
    expect("{");
    int64_t n = count(t.shape);
    if (n > static_cast<int64_t>(text_.size())) fail_here("more elements than text");
    if (t.dtype == DType::string) {
      std::vector<std::string> items;
      for (int64_t i = 0; i < n; ++i) {
        if (i) expect(",");
        items.push_back(string());
      }
      expect("}");
      return Tensor::of_strings(t.shape, std::move(items));
    }
    Tensor out = Tensor::make(t.dtype, t.shape, [&](std::byte* data) {
      for (int64_t i = 0; i < n; ++i) {
        if (i) expect(",");
        std::string s = number_characters();
        auto at = static_cast<size_t>(i);
        if (t.dtype == DType::f32)
          store_real(t.dtype, data, at, number<float>(s));
        else if (is_float(t.dtype))
          store_real(t.dtype, data, at, number<double>(s));
        else if (t.dtype == DType::u64)
          store_int(t.dtype, data, at, static_cast<int64_t>(number<uint64_t>(s)));
        else
          store_int(t.dtype, data, at, number<int64_t>(s));
      }
    });
    expect("}");
    return out;
  }
  Tensor hex_tensor(const Type& t) {
    skip();
    auto size = storage_bytes(t.dtype, static_cast<uint64_t>(count(t.shape)));
    if (!size || *size > text_.size()) fail_here("more bytes than text");
    return Tensor::make(t.dtype, t.shape, [&](std::byte* data) {
      for (size_t i = 0; i < *size; ++i, at_ += 2) {
        int code = 0;
        const char* from = text_.data() + at_;
        if (at_ + 2 > text_.size() || std::from_chars(from, from + 2, code, 16).ptr != from + 2) {
          fail_here("expected two hexadecimal digits");
        }
        data[i] = static_cast<std::byte>(code);
      }
    });
  }

  AttrValue value() {
    char c = peek();
    if (c == '"') return string();
    if (c == '{') return record();
    if (c == '[') return list();
    if (take("true")) return true;
    if (take("false")) return false;
    if (take("none")) return GraphRef();
    if (take("tensor")) return tensor();
    if (take("type")) return type();
    if (take("reals")) return expect("["), expect("]"), std::vector<double>{};
    if (take("strings")) return expect("["), expect("]"), std::vector<std::string>{};
    if (text_.substr(at_).starts_with("graph(")) return GraphRef(graph());
    bool starts_number = c == '-' || c == '+' || std::isdigit(static_cast<unsigned char>(c)) ||
                         text_.substr(at_).starts_with("nan") ||
                         text_.substr(at_).starts_with("inf");
    if (starts_number) {
      std::string s = number_characters();
      if (is_real(s)) return number<double>(s);
      return number<int64_t>(s);
    }
    std::string w = word();
    if (auto dtype = dtype_named(w)) return *dtype;
    fail_here(str("'", w, "' is not a value"));
  }
  AttrValue list() {
    expect("[");
    if (take("]")) return Dims{};
    if (peek() == '"') {
      std::vector<std::string> items;
      do items.push_back(string());
      while (take(","));
      expect("]");
      return items;
    }
    std::vector<std::string> items;
    bool real = false;
    do {
      items.push_back(number_characters());
      real |= is_real(items.back());
    } while (take(","));
    expect("]");
    if (real) {
      std::vector<double> reals;
      for (const auto& s : items) reals.push_back(number<double>(s));
      return reals;
    }
    Dims ints;
    for (const auto& s : items) ints.push_back(number<int64_t>(s));
    return ints;
  }
  AttrValue record() {
    expect("{");
    return Attrs(entries("}"));
  }
  std::vector<Attrs::Entry> entries(std::string_view close) {
    std::vector<Attrs::Entry> out;
    while (!take(close)) {
      std::string key = name();
      expect("=");
      out.emplace_back(std::move(key), value());
      if (!take(",") && peek() != close[0]) fail_here(str("expected ',' or '", close, "'"));
    }
    return out;
  }

  // --- graphs ---
  struct Scope {
    GraphBuilder b;
    std::map<std::string, NodeId> inputs;  // by name; no node where several have it
    std::map<std::string, NodeId> nodes;   // by what stands after the %
  };

  Graph graph() {
    if (++depth_ > 64) fail_here("graphs are nested too deeply");
    Scope s;
    expect("graph");
    expect("(");
    while (!take(")")) {
      bool donated = take("donated");
      std::string key = name();
      expect(":");
      NodeId n = s.b.input(key, type(), donated);
      auto [known, fresh] = s.inputs.emplace(key, n);
      if (!fresh) known->second = NodeId();
      if (!take(",") && peek() != ')') fail_here("expected ',' or ')'");
    }
    expect("{");
    while (!take("return")) statement(s);
    std::vector<std::pair<std::string, NodeId>> outputs;
    while (peek() != '}') {
      // "y = value", or a bare value, which is then called out0, out1 ...
      size_t back = at_;
      std::string key;
      if (peek() == '"' || is_word(peek())) {
        key = name();
        if (!take("=")) {
          at_ = back;
          key.clear();
        }
      }
      if (key.empty()) key = str("out", outputs.size());
      outputs.emplace_back(key, operand(s));
      if (!take(",")) break;
    }
    expect("}");
    for (auto& [key, node] : outputs) s.b.output(key, node);
    --depth_;
    return std::move(s.b).build();
  }

  void statement(Scope& s) {
    expect("%");
    std::string key = word();
    if (s.nodes.contains(key)) fail_here(str("%", key, " is defined twice"));
    expect("=");
    size_t before = s.b.graph().size();
    NodeId n = node(s);
    if (take(":")) {
      Type declared = type();
      if (declared != s.b.type(n))
        fail_here(str("the type is ", to_text(s.b.type(n)), ", not ", to_text(declared)));
    }
    if (take("@")) {
      std::string origin = string();
      if (n.value >= before) s.b.name(n, origin);
    }
    s.nodes[key] = n;
  }

  NodeId operand(Scope& s) {
    if (++depth_ > 256) fail_here("calls are nested too deeply");
    NodeId n = node(s);
    --depth_;
    return n;
  }

  // A reference, a constant or a call.
  NodeId node(Scope& s) {
    if (take("%")) return numbered(s, word());
    if (peek() == '"') return input(s, string());
    if (take("constant")) return s.b.constant(tensor());
    if (take("same")) {
      expect("%");
      NodeId n = numbered(s, word());
      if (!s.b.graph().is_constant(n)) fail_here("'same' needs a constant");
      return s.b.shared_constant(n);
    }
    std::string w = word();
    if (peek() != '(' && peek() != '[') return input(s, w);
    OpId op = find_op(w);
    if (!op.valid()) fail_here(str("no operator is called '", w, "'"));
    if (op == kInputOp || op == kConstantOp) fail_here(str("'", w, "' is written differently"));
    Attrs attrs;
    if (take("[")) attrs = Attrs(typed(op_def(op), entries("]")));
    expect("(");
    std::vector<NodeId> args;
    while (!take(")")) {
      args.push_back(operand(s));
      if (!take(",") && peek() != ')') fail_here("expected ',' or ')'");
    }
    auto made = s.b.try_op(op, args, attrs);
    if (!made) fail_here(made.error());
    return *made;
  }

  // [] may stand for any empty list: the record knows which.
  static std::vector<Attrs::Entry> typed(const OpDef& def, std::vector<Attrs::Entry> given) {
    for (auto& [key, v] : given) {
      auto* ints = v.as<Dims>();
      if (!ints) continue;
      for (const AttrSpec& spec : def.attrs) {
        if (spec.name != key) continue;
        if (spec.fallback.as<std::vector<double>>())
          v = std::vector<double>(ints->begin(), ints->end());
        if (spec.fallback.as<std::vector<std::string>>() && ints->empty())
          v = std::vector<std::string>{};
      }
    }
    return given;
  }

  NodeId input(Scope& s, const std::string& key) {
    auto it = s.inputs.find(key);
    if (it == s.inputs.end()) fail_here(str("nothing is called '", key, "'"));
    if (!it->second.valid())
      fail_here(str("several inputs are called '", key, "': write %0 for the first input, %1 ..."));
    return it->second;
  }
  // What a statement calls so; else the input at that place.
  NodeId numbered(Scope& s, const std::string& key) {
    if (auto it = s.nodes.find(key); it != s.nodes.end()) return it->second;
    size_t place = 0;
    auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), place);
    const auto& inputs = s.b.graph().inputs;
    bool is_place = error == std::errc() && end == key.data() + key.size();
    if (!is_place || place >= inputs.size()) fail_here(str("nothing is called '%", key, "'"));
    return inputs[place].node;
  }

  std::string_view text_;
  const std::vector<Tensor>& pool_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Graph parse_graph(std::string_view text, const std::vector<Tensor>& pool) {
  return Parser(text, pool).whole_graph();
}

Type parse_type(std::string_view text) {
  return Parser(text, {}).whole_type();
}

}  // namespace emend
