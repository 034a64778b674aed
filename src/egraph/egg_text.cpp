#include "egraph/egg_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

namespace emend {
namespace {

constexpr size_t kDepth = 200;  // of parentheses; readers and rules follow them by recursion

struct Form {
  enum Kind { list, symbol, number, text } kind;
  std::string word;  // as written
  std::vector<Form> items;
  size_t line;
};

// Characters to forms.
class FormReader {
 public:
  FormReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  // None at the end of the text.
  std::optional<Form> next(size_t depth = 0) {
    skip();
    if (at_ == text_.size()) return std::nullopt;
    const char c = text_[at_];
    const size_t line = line_;
    if (c == ')') fail(line, "a closing parenthesis that nothing opened");
    if (c == '"') return Form{Form::text, quoted_word(), {}, line};
    if (c != '(') return atom(line);
    if (depth >= kDepth) fail(line, str("more than ", kDepth, " parentheses inside each other"));
    ++at_;
    Form list{Form::list, "", {}, line};
    for (;;) {
      skip();
      if (at_ == text_.size()) fail(line, "a parenthesis that is never closed");
      if (text_[at_] == ')') break;
      list.items.push_back(*next(depth + 1));
    }
    ++at_;
    return list;
  }

  [[noreturn]] void fail(size_t line, const std::string& what) const {
    throw Error(str(file_, ":", line, ": ", what));
  }

 private:
  void skip() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == ';') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        if (at_ == text_.size()) return;
      }
      if (text_[at_] == '\n') ++line_;
      if (!std::isspace(static_cast<unsigned char>(text_[at_]))) return;
    }
  }
  std::string quoted_word() {
    const size_t begin = at_++, line = line_;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\n') fail(line, "a text that does not end on its line");
      if (text_[at_] == '\\') ++at_;
    }
    if (at_ >= text_.size()) fail(line, "a text that is never closed");
    ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  Form atom(size_t line) {
    const size_t begin = at_;
    while (at_ < text_.size() && !std::isspace(static_cast<unsigned char>(text_[at_])) &&
           std::string_view("();\"").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    std::string word(text_.substr(begin, at_ - begin));
    const size_t digits = word[0] == '-' ? 1 : 0;
    const bool number =
        word.size() > digits && word.find_first_not_of("0123456789", digits) == std::string::npos;
    if (number && word.size() > 18) fail(line, str(word, " is too large an integer"));
    return {number ? Form::number : Form::symbol, std::move(word), {}, line};
  }

  std::string_view text_, file_;
  size_t at_ = 0, line_ = 1;
};

bool is_literal_sort(const std::string& sort) {
  return sort == "i64" || sort == "String";
}

// Forms to a program.
class EggReader {
 public:
  EggReader(std::string_view text, std::string_view file) : forms_(text, file) {}

  EggProgram read() {
    while (auto form = forms_.next()) {
      const std::string head =
          form->items.empty() || form->kind != Form::list ? "" : form->items[0].word;
      if (head == "datatype") {
        read_datatype(*form);
      } else if (head == "rewrite") {
        read_rewrite(*form);
      } else if (head == "let") {
        read_let(*form);
      } else {
        fail(*form, str(head.empty() ? "this" : quoted(head),
                        " is not understood; known are datatype, rewrite and let"));
      }
    }
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(const Form& at, const std::string& what) const {
    forms_.fail(at.line, what);
  }
  const std::string& name_of(const Form& f, const char* what) const {
    if (f.kind != Form::symbol) fail(f, str("expected ", what));
    return f.word;
  }

  void read_datatype(const Form& f) {
    if (f.items.size() < 2) fail(f, "a datatype needs a name");
    const std::string& sort = name_of(f.items[1], "the name of the datatype");
    if (is_literal_sort(sort) || !sorts_.try_emplace(sort, 0).second) {
      fail(f, str("the sort ", sort, " is already there"));
    }
    for (size_t i = 2; i < f.items.size(); ++i) read_constructor(f.items[i], sort);
  }
  void read_constructor(const Form& f, const std::string& sort) {
    if (f.kind != Form::list || f.items.empty()) {
      fail(f, "expected a constructor like (Add Math Math)");
    }
    EggProgram::Constructor made{name_of(f.items[0], "the name of a constructor"), sort, {}};
    for (size_t i = 1; i < f.items.size(); ++i) {
      const std::string& argument = name_of(f.items[i], "a sort; options are not understood");
      if (!is_literal_sort(argument) && !sorts_.contains(argument)) {
        fail(f.items[i], str("there is no sort ", argument));
      }
      made.arguments.push_back(argument);
    }
    const auto op = static_cast<uint32_t>(program_.constructors.size());
    if (op == 0xFFFF) fail(f, "too many constructors");
    if (!operators_.try_emplace(made.name, op).second) {
      fail(f, str("the constructor ", made.name, " is already there"));
    }
    program_.constructors.push_back(std::move(made));
  }

  // A call's operator; checks the number of its arguments.
  uint32_t operator_of(const Form& f) const {
    if (f.items.empty()) fail(f, "() is not a term");
    const std::string& name = name_of(f.items[0], "the name of a constructor");
    const auto found = operators_.find(name);
    if (found == operators_.end()) fail(f, str("there is no constructor ", name));
    const size_t wanted = program_.constructors[found->second].arguments.size();
    if (f.items.size() - 1 != wanted) {
      fail(f, str(name, " takes ", wanted, wanted == 1 ? " argument, not " : " arguments, not ",
                  f.items.size() - 1));
    }
    return found->second;
  }
  // The literals of a call, interned as one.
  uint32_t attribute_of(const Form& f, const EggProgram::Constructor& c) {
    std::string all;
    for (size_t i = 0; i < c.arguments.size(); ++i) {
      if (!is_literal_sort(c.arguments[i])) continue;
      const Form& item = f.items[i + 1];
      if (item.kind != (c.arguments[i] == "i64" ? Form::number : Form::text)) {
        fail(item, str("argument ", i + 1, " of ", c.name, " must be a literal of sort ",
                       c.arguments[i]));
      }
      all += (all.empty() ? "" : " ") + item.word;
    }
    const auto [found, fresh] =
        attributes_.try_emplace(all, static_cast<uint32_t>(attributes_.size()));
    if (fresh) program_.attributes.push_back(all);
    return found->second;
  }
  void expect_sort(const Form& f, const std::string& is, const std::string& wanted) const {
    if (is != wanted) fail(f, str("expected a term of sort ", wanted, ", this one is of ", is));
  }

  // --- Left sides: an atom per call, equal calls are one.
  struct Variable {
    uint32_t slot;
    std::string sort;
  };
  uint32_t read_pattern(const Form& f, const std::string& sort, Query& q,
                        std::map<std::string, Variable>& variables) {
    if (f.kind == Form::symbol) {
      if (f.word[0] == '$') fail(f, str(f.word, ": names of lets are not understood in rules"));
      const auto [found, fresh] = variables.try_emplace(f.word, Variable{q.slots, sort});
      if (fresh) ++q.slots;
      expect_sort(f, found->second.sort, sort);
      return found->second.slot;
    }
    if (f.kind != Form::list) fail(f, str("expected a term of sort ", sort));
    QueryAtom atom{.op = operator_of(f)};
    const size_t place = q.atoms.size();
    q.atoms.emplace_back();  // before those of its children: atom 0 is the root
    atom.result = q.slots++;
    const EggProgram::Constructor c = program_.constructors[atom.op];
    expect_sort(f, c.sort, sort);
    // A constructor without literals has one attribute only: any will do.
    if (std::any_of(c.arguments.begin(), c.arguments.end(), is_literal_sort)) {
      atom.attr = attribute_of(f, c);
    }
    for (size_t i = 0; i < c.arguments.size(); ++i) {
      if (is_literal_sort(c.arguments[i])) continue;
      atom.children.push_back(read_pattern(f.items[i + 1], c.arguments[i], q, variables));
    }
    if (q.atoms.size() > 100) fail(f, "more than 100 calls in one pattern");
    q.atoms[place] = std::move(atom);
    return q.atoms[place].result;
  }

  // --- Right sides and lets.
  template <class Lookup>
  uint32_t read_term(const Form& f, const std::string& sort, uint32_t slots, NewTerm& term,
                     const Lookup& lookup) {
    if (f.kind == Form::symbol) {
      const Variable v = lookup(f);
      expect_sort(f, v.sort, sort);
      return v.slot;
    }
    if (f.kind != Form::list) fail(f, str("expected a term of sort ", sort));
    NewTerm::Node node{.op = operator_of(f)};
    const EggProgram::Constructor c = program_.constructors[node.op];
    expect_sort(f, c.sort, sort);
    node.attr = attribute_of(f, c);
    for (size_t i = 0; i < c.arguments.size(); ++i) {
      if (is_literal_sort(c.arguments[i])) continue;
      node.children.push_back(read_term(f.items[i + 1], c.arguments[i], slots, term, lookup));
    }
    for (size_t i = 0; i < term.nodes.size(); ++i) {
      const NewTerm::Node& other = term.nodes[i];
      if (other.op == node.op && other.attr == node.attr && other.children == node.children) {
        return slots + static_cast<uint32_t>(i);
      }
    }
    if (term.nodes.size() >= 200) fail(f, "more than 200 calls in one term");
    term.nodes.push_back(std::move(node));
    return slots + static_cast<uint32_t>(term.nodes.size()) - 1;
  }

  void read_rewrite(const Form& f) {
    if (f.items.size() != 3) {
      fail(f, "a rewrite has a left and a right side; options are not understood");
    }
    if (f.items[1].kind != Form::list) fail(f.items[1], "the left side must be a call");
    const std::string sort = program_.constructors[operator_of(f.items[1])].sort;
    TermRule rule{.name = str("rule ", program_.rules.size() + 1, ", line ", f.line)};
    std::map<std::string, Variable> variables;
    read_pattern(f.items[1], sort, rule.query, variables);
    const uint32_t value =
        read_term(f.items[2], sort, rule.query.slots, rule.term, [&](const Form& name) {
          const auto found = variables.find(name.word);
          if (found == variables.end()) {
            fail(name, str(name.word, " does not occur on the left side"));
          }
          return found->second;
        });
    if (rule.term.nodes.empty()) rule.term.bare = value;
    program_.rules.push_back(std::move(rule));
  }

  void read_let(const Form& f) {
    if (f.items.size() != 3) fail(f, "a let has a name and a term");
    const std::string& name = name_of(f.items[1], "a name");
    if (name[0] != '$') fail(f, str("the name of a let begins with $, as $", name, " does"));
    const auto slots = static_cast<uint32_t>(program_.lets.size());
    EggProgram::Let let{.name = name};
    const auto lookup = [&](const Form& other) {
      const auto found = lets_.find(other.word);
      if (found == lets_.end()) fail(other, str("there is no let ", other.word));
      return found->second;
    };
    std::string sort;
    if (f.items[2].kind == Form::symbol) {
      sort = lookup(f.items[2]).sort;
    } else if (f.items[2].kind == Form::list) {
      sort = program_.constructors[operator_of(f.items[2])].sort;
    }
    const uint32_t value = read_term(f.items[2], sort, slots, let.term, lookup);
    if (let.term.nodes.empty()) let.term.bare = value;
    if (!lets_.try_emplace(name, Variable{slots, sort}).second) {
      fail(f, str("the let ", name, " is already there"));
    }
    program_.lets.push_back(std::move(let));
  }

  FormReader forms_;
  EggProgram program_;
  std::map<std::string, int> sorts_;
  std::map<std::string, uint32_t> operators_, attributes_;
  std::map<std::string, Variable> lets_;
};

}  // namespace

EggProgram read_egg(std::string_view text, std::string_view file) {
  return EggReader(text, file).read();
}

std::vector<ClassId> add_lets(EGraph& g, const EggProgram& program) {
  std::vector<ClassId> lets;
  for (const EggProgram::Let& let : program.lets) {
    std::vector<ClassId> values = lets, children;
    for (const NewTerm::Node& n : let.term.nodes) {
      children.clear();
      for (uint32_t c : n.children) children.push_back(values[c]);
      values.push_back(g.add(n.op, n.attr, children));
    }
    lets.push_back(let.term.nodes.empty() ? values[let.term.bare] : values.back());
  }
  return lets;
}

}  // namespace emend
