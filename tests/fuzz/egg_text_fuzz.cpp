// Any text as a program in egglog's syntax: it is refused by an Error that names file and line, or
// read; what is read runs, two rounds of it, and leaves a sound e-graph.
#include <cctype>

#include "base/error.h"
#include "egraph/egg_text.h"
#include "egraph/run.h"
#include "fuzz/fuzz_main.h"

namespace {

using namespace emend;

constexpr size_t kNodes = 300;  // beyond, the e-graph is full

// Whole words and forms in place of others: most of these still parse.
std::string shuffle_words(ByteMutator& r, const std::vector<std::string>& corpus) {
  std::string text = corpus[r.below(corpus.size())];
  const auto piece = [&](const std::string& s) {
    const size_t begin = s.find_first_of("( ", r.below(s.size()));
    if (begin == std::string::npos) return std::pair<size_t, size_t>(0, 0);
    size_t end = begin, depth = 0;
    do {
      depth += s[end] == '(';
      depth -= s[end] == ')' && depth > 0;
      ++end;
    } while (end < s.size() && (depth > 0 || std::isalnum(static_cast<unsigned char>(s[end]))));
    return std::pair(begin, end - begin);
  };
  for (uint64_t changes = 1 + r.below(3); changes > 0; --changes) {
    const std::string& donor = corpus[r.below(corpus.size())];
    const auto [to, gone] = piece(text);
    const auto [from, length] = piece(donor);
    text.replace(to, gone, donor.substr(from, length));
  }
  return text;
}

}  // namespace

std::vector<std::string> fuzz_corpus() {
  return {
      "(datatype M (Add M M) (Mul M M) (Const i64) (Var String))\n"
      "(rewrite (Add a b) (Add b a))\n(rewrite (Add a (Add b c)) (Add (Add a b) c))\n"
      "(rewrite (Mul a (Const 0)) (Const 0)) ; zero\n(rewrite (Mul a (Const 1)) a)\n"
      "(let $x (Var \"x\"))\n(let $e (Add (Mul $x (Const 1)) (Add (Const -2) $x)))\n",
      "(datatype B (G) (H i64 String))\n(datatype A (F A B) (Z))\n",
      "(datatype P (Four P P P P) (One P) (No))\n"
      "(rewrite (Four a a b b) (One (Four b a b a)))\n(rewrite (One (One a)) a)\n"
      "(let $n (No))\n(let $f (Four $n $n (One $n) (One $n)))\n"};
}

std::vector<FuzzKind> fuzz_kinds() {
  return {
      {"damaged", [](ByteMutator& r, const auto& corpus) { return r.mutate(corpus); }},
      {"shuffled", [](ByteMutator& r, const auto& corpus) { return shuffle_words(r, corpus); }}};
}

// Columns of an e-graph begin with some kilobytes each, whatever is in it.
uint64_t fuzz_memory_limit(size_t input_size) {
  return (16 << 20) + 4096 * input_size;
}

bool fuzz_one(const std::string& input) {
  EggProgram program;
  try {
    program = read_egg(input, "fuzz");
  } catch (const Error& e) {
    const std::string what = e.what();
    if (what.rfind("fuzz:", 0) != 0 || !std::isdigit(static_cast<unsigned char>(what[5]))) {
      throw std::logic_error("does not name file and line: " + what);
    }
    return false;
  }
  std::vector<Rewrite> rewrites;
  for (const TermRule& r : program.rules) rewrites.push_back(to_rewrite(r));
  EGraph g;
  add_lets(g, program);
  Runner runner(std::move(rewrites));
  RunnerOptions options;
  options.limits = {.iterations = 2, .nodes = kNodes};
  runner.run(g, options);
  if (const auto faults = g.faults(); !faults.empty()) throw std::logic_error(faults[0]);
  return true;
}
