#include "ops/document.h"

#include <algorithm>
#include <map>
#include <set>

#include "ops/table.h"

namespace emend {
namespace {

// | and line breaks would end a cell.
std::string cell(std::string s) {
  std::string out;
  for (char c : s)
    out += c == '|' ? std::string("\\|") : c == '\n' ? std::string(" ") : std::string(1, c);
  return out;
}

std::string operands(const OpDef& d) {
  if (d.max_args == d.min_args) return str(d.min_args);
  return d.max_args < 0 ? str(d.min_args, "+") : str(d.min_args, "-", d.max_args);
}

std::string attributes(const OpDef& d) {
  std::string out;
  for (const AttrSpec& a : d.attrs) {
    std::string value = to_text(a.fallback);
    out += str(out.empty() ? "" : ", ", a.name, value.empty() || a.required ? "" : "=" + value);
  }
  return out;
}

std::string onnx_names(const OpDef& d) {
  std::set<std::string> names;
  for (const OnnxRow& r : d.onnx) names.insert((r.domain.empty() ? "" : r.domain + ".") + r.type);
  std::string out;
  for (const auto& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

std::string meaning(const OpDef& d) {
  if (d.body.empty()) return d.doc;
  return d.doc.empty() ? "`" + to_text(d.body) + "`" : str("`", to_text(d.body), "`: ", d.doc);
}

std::string derivatives(const OpDef& d) {
  if (d.body.empty() || d.result == ResultType::boolean) return "";
  std::string out;
  for (int k = d.result == ResultType::condition ? 1 : 0; k < d.max_args; ++k) {
    out += str(out.empty() ? "" : "; ", "`", to_text(derivative(d.body, k)), "`");
  }
  return out;
}

}  // namespace

std::string operators_markdown() {
  std::map<Kind, std::vector<const OpDef*>> by_kind;
  for (const OpDef& d : all_ops()) by_kind[d.kind].push_back(&d);
  std::string out =
      "# Operators\n\n"
      "Generated from the operator table (`src/ops/`); a test keeps it current. Attributes are "
      "shown\n"
      "with their defaults. Elementwise operators broadcast by numpy's rule; x, y, z are the "
      "operands.\n";
  for (auto& [kind, ops] : by_kind) {
    std::sort(ops.begin(), ops.end(),
              [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
    bool elementwise = kind == Kind::elementwise;
    out += str("\n## ", to_text(kind), "\n\n| operator | operands | attributes | meaning |",
               elementwise ? " derivatives |" : "", " ONNX |\n| --- | --- | --- | --- |",
               elementwise ? " --- |" : "", " --- |\n");
    for (const OpDef* d : ops) {
      out += str("| `", d->name, "` | ", operands(*d), " | ", cell(attributes(*d)), " | ",
                 cell(meaning(*d)), " |", elementwise ? str(" ", cell(derivatives(*d)), " |") : "",
                 " ", onnx_names(*d), " |\n");
    }
  }
  return out;
}

}  // namespace emend
