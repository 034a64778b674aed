#include "cost/price_list.h"

#include <sqlite3.h>

#include <chrono>
#include <cmath>
#include <istream>
#include <ostream>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

constexpr int kWaitMs = 20'000;  // for another process that is writing

struct Closer {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Handle = std::unique_ptr<sqlite3, Closer>;
using Statement = std::unique_ptr<sqlite3_stmt, Closer>;

constexpr const char* kSchema =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
    "CREATE TABLE IF NOT EXISTS price (key TEXT PRIMARY KEY, seconds REAL NOT NULL) WITHOUT ROWID;";

// An opened and sound database, or why not.
struct Opened {
  Handle db;
  int code = SQLITE_OK;
  std::string trouble;

  // Another process is at it. Changing the journal's mode does not wait for that by itself.
  bool busy() const { return (code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED; }
};

Opened try_open(const fs::path& file) {
  sqlite3* raw = nullptr;
  int code = sqlite3_open(file.c_str(), &raw);
  Handle db(raw);
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(raw, kWaitMs);
    code = sqlite3_exec(raw, kSchema, nullptr, nullptr, nullptr);
  }
  if (code == SQLITE_OK) {
    code = sqlite3_exec(raw, "SELECT count(*), sum(seconds) FROM price", nullptr, nullptr, nullptr);
  }
  if (code == SQLITE_OK) return {std::move(db), code, ""};
  return {nullptr, code, raw ? sqlite3_errmsg(raw) : "no memory"};
}

Opened open_database(const fs::path& file) {
  constexpr int kPauseMs = 10;
  Opened o = try_open(file);
  for (int waited = 0; o.busy() && waited < kWaitMs; waited += kPauseMs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kPauseMs));
    o = try_open(file);
  }
  return o;
}

}  // namespace

struct PriceList::Database {
  Handle handle;

  Statement prepare(const char* text) const {
    sqlite3_stmt* raw = nullptr;
    check(sqlite3_prepare_v2(handle.get(), text, -1, &raw, nullptr));
    return Statement(raw);
  }
  void check(int code) const {
    if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) {
      throw Error(str("the price list: ", sqlite3_errmsg(handle.get())));
    }
  }
  void run(const char* text) const {
    check(sqlite3_exec(handle.get(), text, nullptr, nullptr, nullptr));
  }
};

PriceList::PriceList(const fs::path& file) : db_(std::make_shared<Database>()) {
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  Opened o = open_database(file);
  // One that others use is not damaged.
  if (!o.db && !o.busy() && fs::is_regular_file(file)) {
    fs::rename(file, file.string() + ".damaged", ignored);
    for (const char* part : {"-wal", "-shm"}) fs::remove(file.string() + part, ignored);
    o = open_database(file);
  }
  if (!o.db) throw Error(str(file.string(), ": the price list cannot be used: ", o.trouble));
  db_->handle = std::move(o.db);
}

std::optional<double> PriceList::find(const std::string& key) const {
  Statement s = db_->prepare("SELECT seconds FROM price WHERE key = ?");
  db_->check(
      sqlite3_bind_text(s.get(), 1, key.data(), static_cast<int>(key.size()), SQLITE_STATIC));
  int code = sqlite3_step(s.get());
  db_->check(code);
  if (code != SQLITE_ROW) return std::nullopt;
  return sqlite3_column_double(s.get(), 0);
}

void PriceList::put(const std::string& key, double seconds) {
  EMEND_ASSERT(std::isfinite(seconds) && seconds >= 0, key, " ", seconds);
  Statement s = db_->prepare(
      "INSERT INTO price VALUES (?, ?) "
      "ON CONFLICT (key) DO UPDATE SET seconds = min(seconds, excluded.seconds)");
  db_->check(
      sqlite3_bind_text(s.get(), 1, key.data(), static_cast<int>(key.size()), SQLITE_STATIC));
  db_->check(sqlite3_bind_double(s.get(), 2, seconds));
  db_->check(sqlite3_step(s.get()));
}

size_t PriceList::size() const {
  Statement s = db_->prepare("SELECT count(*) FROM price");
  db_->check(sqlite3_step(s.get()));
  return static_cast<size_t>(sqlite3_column_int64(s.get(), 0));
}

void PriceList::clear() {
  db_->run("DELETE FROM price");
}

void PriceList::write_lines(std::ostream& out) const {
  Statement s = db_->prepare("SELECT key, seconds FROM price ORDER BY key");
  for (int code; (code = sqlite3_step(s.get())) != SQLITE_DONE;) {
    db_->check(code);
    Json line = Json::object();
    line["key"] = std::string(reinterpret_cast<const char*>(sqlite3_column_text(s.get(), 0)));
    line["seconds"] = sqlite3_column_double(s.get(), 1);
    out << line.line() << '\n';
  }
}

PriceList::Imported PriceList::read_lines(std::istream& in) {
  Imported result;
  db_->run("BEGIN IMMEDIATE");
  for (std::string text; std::getline(in, text);) {
    if (text.empty()) continue;
    auto line = Json::parse(text);
    const auto* key = line ? line->at("key").as<std::string>() : nullptr;
    double seconds = line ? line->at("seconds").number_or(-1) : -1;
    if (key && seconds >= 0) {
      put(*key, seconds);
      ++result.taken;
    } else {
      ++result.skipped;
    }
  }
  db_->run("COMMIT");
  return result;
}

}  // namespace emend
