// Measured prices, kept: one SQLite file that several processes may use at once. A price is the
// shortest time seen, so putting, merging and importing in any order, any number of times, give the
// same list. Keys are texts that say everything the time depends on; who measures makes them.
//
//   PriceList prices(path);
//   prices.put("contract mr=8 ...", 0.00042);
//   prices.find("contract mr=8 ...");          // 0.00042
#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

namespace emend {

class PriceList {
 public:
  // Opens or makes the file. One that is damaged is put aside (its name says so) and begun anew:
  // prices can be measured again. ":memory:" is a list that is not kept. Throws Error where nothing
  // can be written.
  explicit PriceList(const std::filesystem::path& file);

  std::optional<double> find(const std::string& key) const;
  void put(const std::string& key, double seconds);

  size_t size() const;
  void clear();
  // JSON lines {"key": ..., "seconds": ...}, sorted by key. Lines that are not understood are
  // counted, never fatal.
  void write_lines(std::ostream& out) const;
  struct Imported {
    size_t taken = 0, skipped = 0;
  };
  Imported read_lines(std::istream& in);

 private:
  struct Database;
  std::shared_ptr<Database> db_;
};

}  // namespace emend
