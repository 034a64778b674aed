#include "pipeline/optimize_file.h"

#include <algorithm>

#include "base/timed.h"
#include "import/open_sizes.h"
#include "pipeline/declared.h"

namespace emend {
namespace {

// Nodes that may be left as they are before a level is given up.
constexpr int kHeldBack = 12;

// Cleaning of more rounds than this is not tried with fewer one by one.
constexpr int kMostRounds = 12;

// There are several edges to try, each with its share of the arithmetic that a check may take.
constexpr double kEdges = 20;

bool same_types(const Graph& a, const Graph& b) {
  auto types = [](const Graph& g) {
    std::vector<Type> list;
    for (const auto& o : g.outputs) list.push_back(g.types[o.node]);
    return list;
  };
  return a.inputs.size() == b.inputs.size() && types(a) == types(b);
}

OptimizedFile as_given(const OnnxFile& file, const ImportOptions& import,
                       const OptimizeOptions& options, const std::string& why) {
  OptimizedFile out{.as_given = true};
  out.given = out.better = file.import(import);
  if (options.dump) options.dump("import", out.given.graph);
  out.exported = {.file = file.wire(), .graph = out.given.graph};
  out.report.simplified = {.nodes_before = out.given.graph.size(),
                           .nodes_after = out.given.graph.size()};
  out.report.checked.reason = "not run: nothing was changed";
  if (!why.empty()) out.notes.push_back(str("the file is written as it was: ", why));
  return out;
}

class ForEverySize {
 public:
  ForEverySize(const OnnxFile& file, const ImportOptions& import, const OptimizeOptions& options,
               const ExportOptions& writing)
      : file_(file),
        import_(import),
        options_(options),
        writing_(writing),
        open_(open_sizes(file, import)) {}

  OptimizedFile run() {
    if (open_.to_reason_with.empty())
      return left_alone("no sizes were found at which the model can be read");
    std::string why;
    auto best = cleaned(why);
    if (!best) return left_alone(why);
    if (options_.level < 2 || stopped_or_wrong(*best)) return std::move(*best);
    auto searched = at_level(options_.level, options_.rounds, kept_, why);
    return std::move(searched ? *searched : *best);
  }

 private:
  // Nodes that stay as ONNX has them.
  struct Kept {
    std::set<std::string> always, of_sizes;
  };

  // Another opset cannot be had by leaving the file alone: then, and only then, sizes are fixed.
  OptimizedFile left_alone(const std::string& why) const {
    if (!writing_.target_opset) return as_given(file_, import_, options_, why);
    OptimizedFile out{.level = options_.level};
    out.given = file_.import(import_);
    out.fixed = out.given.info.defaulted;
    out.better = optimize(out.given, options_, &out.report);
    out.exported = export_onnx(out.better, writing_);
    out.notes.push_back(str("the file is written for one size: ", why));
    return out;
  }

  bool stopped_or_wrong(const OptimizedFile& file) const {
    return options_.monitor.stop_requested() || file.report.checked.kind == Checked::Kind::failed;
  }

  // By the rules alone. Numbers are written by formulas where there are some, else the nodes that
  // compute them stay; then by fewer and fewer rounds of rules.
  std::optional<OptimizedFile> cleaned(std::string& why) {
    const int all = options_.rounds;
    int rounds = 0;
    for (const auto* sizes : {&open_.data_of_sizes, &open_.of_sizes}) {
      kept_ = {{}, *sizes};
      if (auto file = at_level(1, all, kept_, why, &rounds)) return file;
    }
    for (int fewer = std::min(rounds, kMostRounds) - 1; fewer > 0; --fewer) {
      kept_ = {{}, open_.of_sizes};
      if (auto file = at_level(1, fewer, kept_, why)) return file;
    }
    return std::nullopt;
  }

  Model at(const SymbolSizes& sizes, const Kept& kept) const {
    ImportOptions options = import_;
    options.kept = kept.always;
    options.kept_of_sizes = kept.of_sizes;
    options.symbols.insert(sizes.begin(), sizes.end());
    Model model = file_.import_as_named(options).model;
    model.info.defaulted = sizes;
    // Sizes to reason with are nothing that the program was specialised to.
    std::erase_if(model.info.specialised, [&](const std::string& note) {
      return std::ranges::any_of(sizes,
                                 [&](const auto& s) { return note.starts_with(s.first + " = "); });
    });
    return model;
  }

  // Nodes that stand in the way join `kept`; `rounds` becomes how many cleaning took.
  std::optional<OptimizedFile> at_level(int level, int most_rounds, Kept& kept, std::string& why,
                                        int* rounds = nullptr) const {
    OptimizeOptions how = options_;
    how.level = level;
    how.rounds = most_rounds;
    for (int held = 0; held < kHeldBack; ++held) {
      OptimizedFile out{.given = at(open_.to_reason_with[0], kept), .level = level};
      if (how.dump) how.dump("import", out.given.graph);
      out.better = optimize(out.given, how, &out.report);
      if (rounds) *rounds = out.report.simplified.rounds;
      if (out.report.checked.kind == Checked::Kind::failed) return out;
      if (level > 1 && out.report.kept_cleaned) return std::nullopt;
      auto written = export_for_all_sizes(out.better, others(out, how, kept), writing_);
      if (auto* obstacle = std::get_if<NotGeneral>(&written)) {
        why = obstacle->reason;
        size_t before = kept.always.size();
        kept.always.insert(obstacle->nodes.begin(), obstacle->nodes.end());
        if (kept.always.size() == before) return std::nullopt;
        continue;
      }
      out.exported = std::move(std::get<Exported>(written));
      if (!holds_at_edges(out.exported, why)) return std::nullopt;
      return out;
    }
    return std::nullopt;
  }

  // A search that changed nothing need not be made again at other sizes.
  std::vector<AtSizes> others(const OptimizedFile& out, OptimizeOptions how,
                              const Kept& kept) const {
    how.monitor = {};
    how.dump = nullptr;
    how.warn = nullptr;
    how.fastest = nullptr;  // what a clock said at the first sizes holds for all
    if (how.runtime && out.report.elsewhere && out.report.elsewhere->kept_input) how.level = 0;
    if (how.level == 1) how.runtime = nullptr;
    if (out.report.simplified.stop_reason == "interrupted")
      how.rounds = out.report.simplified.rounds;
    if (options_.monitor.stop_requested()) how.level = std::min(how.level, 1);
    if (how.level > 1 && !how.runtime) {
      OptimizeOptions cleaning = how;
      cleaning.level = 1;
      if (optimized(out.given.graph, cleaning) == out.better.graph) how.level = 1;
    }
    std::vector<AtSizes> programs;
    for (size_t k = 1; k < open_.to_reason_with.size(); ++k) {
      const SymbolSizes& sizes = open_.to_reason_with[k];
      programs.push_back({sizes, optimized(at(sizes, kept).graph, how)});
    }
    return programs;
  }

  // The file as it would be read, at sizes that nobody reasoned with. What was a number at all
  // sizes to reason with and is another here is no number of an output's shape.
  bool holds_at_edges(Exported& exported, std::string& why) const {
    const OnnxFile written(exported.file, "the result", file_.size());
    std::vector<DeclaredOtherwise> not_so;
    for (const SymbolSizes& sizes : open_.to_check_with) {
      ImportOptions options = import_;
      options.symbols.insert(sizes.begin(), sizes.end());
      std::vector<std::string> named;
      for (const auto& [symbol, size] : sizes) named.push_back(str(symbol, " = ", size));
      std::string where = str(" at ", join(named, ", "));
      try {
        Graph before = file_.import_as_named(options).model.graph;
        const Model read = written.import_as_named(options).model;
        const Graph& after = read.graph;
        std::ranges::move(declared_otherwise(read), std::back_inserter(not_so));
        if (!same_types(before, after)) {
          why = "the result has other shapes" + where;
          return false;
        }
        OptimizeOptions quietly = options_;
        quietly.monitor = {};
        quietly.max_check_operations /= kEdges;
        Checked checked = check_result(before, after, quietly);
        if (checked.kind == Checked::Kind::failed) {
          why = checked.reason + where;
          return false;
        }
      } catch (const Error& e) {
        why = str(e.what(), where);
        return false;
      }
    }
    for (const DeclaredOtherwise& d : not_so)
      leave_open(exported.file.graph.output[d.output], d.dim);
    return true;
  }

  static void leave_open(onnx::ValueInfo& output, size_t dim) {
    auto* tensor = output.type ? std::get_if<onnx::TensorType>(&output.type->value) : nullptr;
    if (tensor && tensor->shape) tensor->shape->dim.at(dim).value = std::monostate();
  }

  const OnnxFile& file_;
  const ImportOptions& import_;
  const OptimizeOptions& options_;
  const ExportOptions& writing_;
  OpenSizes open_;
  Kept kept_;
};

}  // namespace

OptimizedFile optimize_file(const OnnxFile& file, const ImportOptions& import,
                            const OptimizeOptions& options, const ExportOptions& writing) {
  bool open = !file.open_dimensions(import).empty();
  bool unchanged = options.level == 0 && !writing.target_opset;
  if (open || (unchanged && import.shapes.empty() && import.symbols.empty())) {
    if (unchanged) return as_given(file, import, options, "");
    return ForEverySize(file, import, options, writing).run();
  }
  OptimizedFile out{.level = options.level};
  std::vector<std::pair<std::string, double>> import_ms;
  out.given = timed(import_ms, "import", [&] { return file.import(import); });
  if (options.dump) options.dump("import", out.given.graph);
  out.better = optimize(out.given, options, &out.report);
  out.exported =
      timed(out.report.phases_ms, "export", [&] { return export_onnx(out.better, writing); });
  out.report.phases_ms.insert(out.report.phases_ms.begin(), import_ms.begin(), import_ms.end());
  return out;
}

}  // namespace emend
