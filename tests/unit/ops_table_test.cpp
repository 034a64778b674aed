// The table as a whole: complete, documented, and every plain operator in one place.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "ops/document.h"
#include "ops/table.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& p) {
  std::ifstream in(p);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(OpsTable, EveryRecordIsComplete) {
  for (const OpDef& d : all_ops()) {
    EXPECT_FALSE(d.name.empty());
    if (d.name == "input" || d.name == "constant") continue;
    EXPECT_TRUE(!d.body.empty() || d.means || d.expand || d.eval) << d.name;
    EXPECT_TRUE(d.infer || d.expand) << d.name;
    EXPECT_TRUE(!d.doc.empty() || !d.body.empty()) << d.name;
  }
}

TEST(OpsTable, TheDocumentIsCurrent) {
  fs::path path = "docs/operators.md";
  if (std::getenv("EMEND_UPDATE_GOLDEN")) std::ofstream(path) << operators_markdown();
  EXPECT_TRUE(contents(path) == operators_markdown())
      << "docs/operators.md is stale: run the tests with EMEND_UPDATE_GOLDEN=1 and commit it";
}

// Is `word` in the text, not as a part of a longer word?
bool names(const std::string& text, const std::string& word) {
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) {
    bool begins = at == 0 || !is_word(text[at - 1]);
    size_t end = at + word.size();
    if (begins && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

// Plain: elementwise, and a body of several primitive functions, so that its name is its own. Rule
// and mutation tables and the models of the zoo use operators; everything else must not know them.
TEST(OpsTable, APlainOperatorIsNamedInOneFile) {
  // Words that mean something else too: of ONNX's, an attribute and a value of one.
  std::set<std::string> shared = {"clip", "swish"};
  for (int f = 0; f < kFnCount; ++f) shared.insert(info(static_cast<Fn>(f)).name);
  std::vector<std::string> plain;
  for (const OpDef& d : all_ops()) {
    if (d.kind == Kind::elementwise && d.body.code.size() > 4 && !shared.contains(d.name))
      plain.push_back(d.name);
  }
  ASSERT_GE(plain.size(), 10u);
  std::map<std::string, std::string> sources;
  for (const auto& entry : fs::recursive_directory_iterator("src")) {
    std::string path = entry.path().string();
    bool table = path.starts_with("src/rules") || path.starts_with("src/mutate") ||
                 path.starts_with("src/zoo");
    if (entry.is_regular_file() && !table) sources[path] = contents(entry.path());
  }
  for (const std::string& op : plain) {
    std::vector<std::string> files;
    for (const auto& [path, text] : sources) {
      if (names(text, op)) files.push_back(path);
    }
    EXPECT_EQ(files.size(), 1u) << op << " is named in "
                                << join(std::span<const std::string>(files), ", ");
  }
}

}  // namespace
}  // namespace emend
