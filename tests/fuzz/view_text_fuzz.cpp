// Any text as a view: it is refused with a reason, or what was read prints, reads back and has a
// normal form that is a view as well; no number in it overflows anything.
#include <stdexcept>

#include "fuzz/fuzz_main.h"
#include "ir/view.h"

namespace {

using namespace emend;

// Numbers and letters in place of others: most of these still parse.
std::string change_parts(ByteMutator& r, const std::vector<std::string>& corpus) {
  std::string text = corpus[r.below(corpus.size())];
  for (uint64_t changes = 1 + r.below(4); changes > 0; --changes) {
    size_t at = text.find_first_of("0123456789", r.below(text.size()));
    if (at == std::string::npos) continue;
    if (r.below(3) == 0) {
      text.insert(at, r.below(2) ? "3*" : "2*1*");
    } else {
      text.replace(at, 1, std::to_string(r.telling_number() >> r.below(64)));
    }
  }
  return text;
}

}  // namespace

std::vector<std::string> fuzz_corpus() {
  return {"[1, 512, 2*15, 2*15] <- [a, b, c+2d, e+2f]", "[1, 3, 2*4:7] <- [a, b, 4c+d-1]",
          "[] <- [3]", "[2*2*2*2:9, 3] <- [8a+4b-2c+d, 0, 5e-17]"};
}

std::vector<FuzzKind> fuzz_kinds() {
  return {{"parts", [](ByteMutator& r, const auto& corpus) { return change_parts(r, corpus); }},
          {"damaged", [](ByteMutator& r, const auto& corpus) { return r.mutate(corpus); }}};
}

uint64_t fuzz_memory_limit(size_t input_size) {
  return (1 << 16) + 400 * input_size;
}

bool fuzz_one(const std::string& input) {
  auto read = parse_view(input);
  if (!read) {
    if (read.error().find("view") == std::string::npos) throw std::logic_error(read.error());
    return false;
  }
  const auto expect = [&](bool holds, const char* what) {
    if (!holds) throw std::logic_error(std::string(what) + ": " + to_text(*read));
  };
  auto again = parse_view(to_text(*read));
  expect(again && *again == *read, "does not read back");
  const View n = normalised(*read);
  expect(fault(n).empty() && normalised(n) == n, "has a bad normal form");
  expect(reach(n) == reach(*read), "its normal form reaches elsewhere");
  is_total(*read, Dims(read->index.size(), 3));
  is_identity(*read, shape_of(*read));
  return true;
}
