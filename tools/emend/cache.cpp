// emend cache stats|export|import|clear: what Emend keeps between runs. Compiled kernels and what
// searches found serve this machine alone; prices also travel, as JSON lines.
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "base/atomic_file.h"
#include "pipeline/compile.h"
#include "pipeline/kept_checks.h"
#include "pipeline/kept_mutants.h"
#include "pipeline/kept_plans.h"
#include "pipeline/kept_searches.h"
#include "run/kernel_cache.h"
#include "verb.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string action = "stats", file;
};

struct Row {
  std::string what;
  FileUse use;
  std::string note = {};
};

void tell(const std::vector<Row>& rows, const Globals& globals, const Json& facts) {
  globals.report(facts);
  if (globals.json == "-") return;
  for (const Row& r : rows) {
    std::cout << std::left << std::setw(12) << r.what << std::right << std::setw(8) << r.use.count
              << std::setw(12) << bytes_text(static_cast<double>(r.use.bytes))
              << (r.note.empty() ? "" : "  " + r.note) << '\n';
  }
}

Json json_of(const std::vector<Row>& rows) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["folder"] = cache_folder().string();
  for (const Row& r : rows) {
    Json& j = facts[r.what] = Json::object();
    j["count"] = r.use.count;
    j["bytes"] = r.use.bytes;
    if (!r.note.empty()) j["note"] = r.note;
  }
  return facts;
}

std::vector<Row> rows_of(const KernelCacheUse& use) {
  std::vector<Row> rows = {{"kernels", use.kernels}, {"verdicts", use.verdicts}};
  if (use.leftovers.count)
    rows.push_back({"leftovers", use.leftovers, "of runs that ended half way"});
  if (use.foreign.count) rows.push_back({"others", use.foreign, "not made by Emend, left alone"});
  return rows;
}

// The list with the files that SQLite keeps beside it; nothing is made where there is none.
Row price_row() {
  Row row{"prices", {}};
  fs::path file = default_price_list();
  std::error_code none;
  if (!fs::exists(file, none)) return row;
  row.use.count = PriceList(file).size();
  for (const char* part : {"", "-wal", "-shm"}) {
    auto bytes = fs::file_size(file.string() + part, none);
    if (!none) row.use.bytes += bytes;
  }
  return row;
}

int stats(const Globals& globals) {
  fs::path folder = kernel_folder();
  auto rows = rows_of(kernel_cache_use(folder));
  std::error_code none;
  if (fs::exists(folder, none) && !is_private_folder(folder))
    rows[0].note =
        "not used: the folder must be its owner's alone (chmod 700 " + folder.string() + ")";
  rows.push_back({"searches", KeptSearches(default_search_folder()).files().use()});
  rows.push_back({"checks", kept_checks(default_search_folder()).use()});
  rows.push_back({"plans", KeptPlans(default_search_folder()).files().use()});
  rows.push_back({"mutants", KeptMutants(default_search_folder()).use()});
  rows.push_back(price_row());
  if (globals.json != "-") std::cout << "in " << cache_folder().string() << '\n';
  tell(rows, globals, json_of(rows));
  return kOk;
}

// What was measured of the machine itself, a file for each (run/machine.h).
void forget_machines() {
  std::error_code none;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(cache_folder(), none), end; !none && it != end; it.increment(none))
    files.push_back(it->path());
  for (const fs::path& file : files) {
    std::string name = file.filename().string();
    if (name.starts_with("machine-") && name.find_first_not_of("0123456789", 8) == name.npos)
      fs::remove(file, none);
  }
}

int clear(const Globals& globals) {
  forget_machines();
  std::vector<Row> rows = rows_of(clear_kernel_cache(kernel_folder()));
  rows.push_back({"searches", KeptSearches(default_search_folder()).files().clear()});
  rows.push_back({"checks", kept_checks(default_search_folder()).clear()});
  rows.push_back({"plans", KeptPlans(default_search_folder()).files().clear()});
  rows.push_back({"mutants", KeptMutants(default_search_folder()).clear()});
  rows.push_back(price_row());
  if (rows.back().use.count) PriceList(default_price_list()).clear();
  if (globals.json != "-") std::cout << "removed from " << cache_folder().string() << '\n';
  tell(rows, globals, json_of(rows));
  return kOk;
}

int export_prices(const Options& o, const Globals& globals) {
  if (o.file.empty()) throw UsageError{"cache export: name the file to write ('-': stdout)"};
  PriceList prices(default_price_list());
  if (o.file == "-") {
    prices.write_lines(std::cout);
  } else {
    std::ostringstream lines;
    prices.write_lines(lines);
    AtomicFile file(o.file);
    file.write(lines.str());
    file.commit();
  }
  globals.say(str(prices.size(), " prices written"));
  return kOk;
}

int import_prices(const Options& o, const Globals& globals) {
  if (o.file.empty()) throw UsageError{"cache import: name the file to read ('-': stdin)"};
  std::ifstream file;
  if (o.file != "-") {
    std::error_code error;
    if (fs::is_directory(o.file, error)) throw Error(o.file + ": is a folder");
    file.open(o.file, std::ios::binary);
    if (!file) throw Error(o.file + ": cannot be read");
  }
  PriceList prices(default_price_list());
  auto got = prices.read_lines(o.file == "-" ? std::cin : file);
  if (got.taken == 0 && got.skipped > 0)
    throw Error(str(o.file, ": no line is a price, {\"key\": ..., \"seconds\": ...}"));
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["taken"] = got.taken;
  facts["skipped"] = got.skipped;
  facts["prices"] = prices.size();
  globals.report(facts);
  globals.say(str(got.taken, " prices taken",
                  got.skipped ? str(", ", got.skipped, " lines not understood") : "", "; ",
                  prices.size(), " known now"));
  return kOk;
}

}  // namespace

Verb cache_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      app.add_subcommand("cache", "what is kept between runs: stats, export, import, clear");
  c->add_option("ACTION", o->action, "stats, export, import or clear")
      ->check(CLI::IsMember({"stats", "export", "import", "clear"}));
  c->add_option("FILE", o->file,
                "of export and import: measured prices as JSON lines ('-': stdio)");
  return {c, [o, &globals] {
            if (o->action == "export") return export_prices(*o, globals);
            if (o->action == "import") return import_prices(*o, globals);
            return o->action == "clear" ? clear(globals) : stats(globals);
          }};
}

}  // namespace emend
